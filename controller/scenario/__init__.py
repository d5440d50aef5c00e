"""Scenario files: parsed, played against the pure core in virtual time, compared.

In: YAML files. Out: what held and what differed, step by step.
"""

from controller.scenario.parse import Malformed, parse_file
from controller.scenario.report import FileResult, play_file

__all__ = ["FileResult", "Malformed", "parse_file", "play_file"]
