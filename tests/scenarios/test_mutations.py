"""A scenario that expects something wrong is told so, at that step and that key, and nowhere else."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.scenario import play_file
from tests.scenarios.test_given import FILES

Change = tuple[str, str, Callable[[dict[str, Any]], None]]
"""Where in the file, which key the difference has, and what to do to the `expect` there."""
OTHER_STATE = {"Running": "Created"}


def _changes(steps: list[Any], path: str) -> Iterator[Change]:
    """Everything expected in these steps whose opposite is known to be wrong."""
    for number, step in enumerate(steps):
        here = f"{path}[{number}]"
        if "gap" in step:
            yield from _changes(step["gap"], f"{here}.gap")
        for key, value in step.get("expect", {}).items():
            match key:
                case "state":
                    yield here, key, lambda e, v=value: e.update(state=OTHER_STATE.get(v, "Running"))
                case "attempts" | "retries":
                    for name in value:
                        yield here, f"{key}.{name}", lambda e, k=key, n=name: e[k].update({n: e[k][n] + 1})
                case "replicas":
                    for name, counts in value.items():
                        for count in counts:
                            yield (
                                here,
                                f"replicas.{name}.{count}",
                                lambda e, n=name, c=count: e["replicas"][n].update({c: e["replicas"][n][c] + 1}),
                            )
                case "pods" | "services":
                    yield here, key, lambda e, k=key: e[k].append("evaluator-77")
                case "startTime" | "completionTime":
                    other = "unset" if value == "set" else "set"
                    yield here, key, lambda e, k=key, o=other: e.update({k: o})
                case "job":
                    yield here, key, lambda e, v=value: e.update(job="absent" if v == "present" else "present")
                case "message":
                    for name in value:
                        yield here, f"message.{name}", lambda e, n=name: e["message"][n].append("never said")
                case "conditions":
                    for name, status in value.items():
                        other = "False" if status != "False" else "True"
                        yield here, f"conditions.{name}", lambda e, n=name, o=other: e["conditions"].update({n: o})


def _expect_at(body: Any, path: str) -> dict[str, Any]:
    """The `expect` of `steps[3].gap[0]`."""
    found = body
    for part in path.split("."):
        name, _, number = part[:-1].partition("[")
        found = found[name][int(number)]
    return found["expect"]


SAMPLE = random.Random(1).sample(FILES, 60)


@pytest.mark.parametrize("file", SAMPLE, ids=[file.stem for file in SAMPLE])
def test_a_wrong_expectation_is_reported_where_it_stands(file: Path, tmp_path: Path) -> None:
    body = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
    changes = list(_changes(body["steps"], "steps"))
    for path, key, change in random.Random(file.stem).sample(changes, min(3, len(changes))):
        wrong = copy.deepcopy(body)
        change(_expect_at(wrong, path))
        written = tmp_path / "wrong.yaml"
        written.write_text(yaml.dump(wrong, Dumper=yaml.CSafeDumper, sort_keys=False))
        result = play_file(written)
        assert [(step.path, each.key) for step in result.steps for each in step.differences] == [(path, key)]
        assert not result.held
