"""Scenario files: parsed, played against the pure core or on an API server, compared.

In: YAML files. Out: what held and what differed, step by step.
"""

from controller.scenario.live_run import LiveRun, Place
from controller.scenario.parse import Malformed, parse_file
from controller.scenario.report import FileResult, play_file

__all__ = ["FileResult", "LiveRun", "Malformed", "Place", "parse_file", "play_file"]
