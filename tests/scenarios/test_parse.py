"""Scenario files that are wrong: one line with file, line and place; and agreement with the published schema."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from controller.scenario import Malformed, parse_file
from tests.scenarios.test_given import FILES

SCHEMA = json.loads((Path(__file__).parent / "schema.json").read_text())
HEAD = """\
title: a case
job:
  apiVersion: kubeflow.org/v1
  kind: TFJob
  spec: {tfReplicaSpecs: {Worker: {replicas: 1}}}
steps:
"""

WRONG = [
    ("a step with two verbs", "  - {pods: {worker-0: Running}, after: 1s}\n", 7, "steps[0]"),
    ("an unknown verb", "  - sleep: 1s\n", 7, "steps[0].sleep"),
    ("a duration without unit", "  - after: 5\n", 7, "steps[0].after"),
    ("an unknown state", "  - after: 1s\n  - pods: {worker-0: Walking}\n", 8, "steps[1].pods.worker-0"),
    ("an unknown slot", "  - pods: {helper-0: Running}\n", 7, "steps[0].pods.helper-0"),
    ("an unknown key of expect", "  - expect:\n      state: Running\n      colour: red\n", 9, "steps[0].expect.colour"),
    ("inside a gap", "  - gap:\n    - pods: {worker-0: Running}\n    - delete: nobody\n", 9, "steps[0].gap[1].delete"),
    ("an expectation of nothing", "  - expect: {}\n", 7, "steps[0].expect"),
    ("a count as text", "  - expect: {replicas: {Worker: {active: many}}}\n", 7, "replicas.Worker.active"),
    ("no steps", "", 6, "steps"),
]


@pytest.mark.parametrize(("steps", "line", "place"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_what_is_wrong_is_one_line_with_its_place(steps: str, line: int, place: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(HEAD + steps)
    with pytest.raises(Malformed) as caught:
        parse_file(file)
    said = str(caught.value)
    assert said.startswith(f"{file}:{line}: ") and place in said and "\n" not in said


def test_what_is_no_yaml_is_said_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(HEAD + "  - [\n")
    with pytest.raises(Malformed, match=r"wrong\.yaml:\d+: not YAML"):
        parse_file(file)


def _accepts(body: Any, file: Path) -> bool:
    file.write_text(yaml.dump(body, Dumper=yaml.CSafeDumper, sort_keys=False))
    try:
        parse_file(file)
    except Malformed:
        return False
    return True


def _mutated(body: Any, luck: random.Random) -> Any:
    """The body with one thing changed somewhere: a key renamed or dropped, a value of another kind."""
    body = copy.deepcopy(body)
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            places.append((value, key))
            if isinstance(value[key], dict | list):
                walk(value[key])

    walk({key: body[key] for key in body if key not in ("job", "settings")})
    # The parts of a manifest that the file's format says something about; the CRD's schema looks at the rest.
    places.extend((body["job"], key) for key in body.get("job", ()))
    holder, key = luck.choice(places)
    match luck.randrange(3):
        case 0 if isinstance(holder, dict):
            holder[f"{key}x"] = holder.pop(key)
        case 1:
            holder[key] = luck.choice([None, 7, "words", [], {}, True, {"a": 1}])
        case _:
            del holder[key]
    return body


def test_the_parser_agrees_with_the_published_schema_on_changed_files(tmp_path: Path) -> None:
    check = jsonschema.Draft202012Validator(SCHEMA)
    luck = random.Random(562)
    differ = []
    for number, file in enumerate(luck.sample(FILES, 150)):
        body = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
        for candidate in (body, _mutated(body, luck)):
            plain = json.loads(json.dumps(candidate))
            if check.is_valid(plain) != _accepts(plain, tmp_path / f"{number}.yaml"):
                differ.append((file.name, list(check.iter_errors(plain))[:1], plain))
    assert differ == []
