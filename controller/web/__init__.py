"""What a cluster asks of a controller over HTTP: is it alive, is it ready, its numbers.

In: a controller that runs. Out: answers. Never: a change of anything, or a word of a job's content.
"""

from controller.web.serve import serving

__all__ = ["serving"]
