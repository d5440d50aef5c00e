"""Edge 1: the API server's objects come in here, as observations (ARCHITECTURE.md).

Never: knows the log or the actions; decides anything.
"""

from controller.watch.observation import Mark, Observation, StreamFact, Watched
from controller.watch.reflector import Pace
from controller.watch.watches import Watches

__all__ = ["Mark", "Observation", "Pace", "StreamFact", "Watched", "Watches"]
