"""What all objects of deploy/ share: names, labels, and `Expression`, a value that the Helm chart fills in.

Out: words for the other files of this folder. Never: a file.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
NAME = "tfjob-controller"
MIGRATION = "tfjob-controller-migrate"
LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "kubeflow"}
CONTROLLER_LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "controller"}
METRICS_PORT = 8080
RELEASE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
IMAGE = f"{NAME}:{RELEASE}"
DATABASE_SECRET, DATABASE_KEY = "tfjob-database", "url"


class Expression(str):
    """A Helm expression that stands where kustomize has a value; `literal` is that value."""

    literal: Any

    def __new__(cls, expression: str, literal: Any) -> Expression:
        """`expression` without braces, such as `.Values.replicas`; it gives a whole YAML value in flow style."""
        found = super().__new__(cls, expression)
        found.literal = literal
        return found


class Block(Expression):
    """An Expression in a list that gives any number of items; `literal` is a list of them."""


def metadata(name: str, **further: Any) -> Json:
    """Metadata of an object in the installation's namespace, which the layout fills in."""
    return {"name": name, "labels": dict(LABELS), **further}


def literal(value: Any) -> Any:
    """The same object without expressions, as kustomize has it."""
    match value:
        case Expression():
            return value.literal
        case dict():
            return {key: literal(each) for key, each in value.items()}
        case list():
            return [item for each in value for item in (each.literal if isinstance(each, Block) else [literal(each)])]
        case _:
            return value
