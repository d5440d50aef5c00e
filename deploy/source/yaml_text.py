"""Python values → YAML text, as kustomize has it (literals) or as a template of the chart (Helm expressions)."""

from __future__ import annotations

import re
from typing import Any

import yaml

from source.words import Block, Expression, Json, literal

MADE = "# Made by deploy/make.py.\n"
NAMESPACE = Expression(".Release.Namespace", "default")


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def plain(value: Any) -> str:
    """One document without expressions."""
    return yaml.dump(literal(value), Dumper=_Plain, sort_keys=False, width=120)


def documents(objects: list[Json]) -> str:
    return MADE + "---\n".join(plain(each) for each in objects)


def template(objects: list[Json], condition: str) -> str:
    """A template of the chart: the objects, when the condition holds."""
    body = "---\n".join(_filled_in(each) for each in objects)
    if condition:
        body = f"{{{{- if {condition} }}}}\n{body}{{{{- end }}}}\n"
    return MADE + body


def _filled_in(value: Json) -> str:
    expressions: list[Expression] = []

    def marked(part: Any) -> Any:
        match part:
            case Expression():
                expressions.append(part)
                return f"HELM{len(expressions) - 1}MARK"
            case dict():
                return {key: marked(each) for key, each in part.items()}
            case list():
                return [marked(each) for each in part]
            case _:
                return part

    text = yaml.dump(marked(value), Dumper=_Plain, sort_keys=False, width=120)

    def block(found: re.Match[str]) -> str:
        expression = expressions[int(found[2])]
        if not isinstance(expression, Block):
            return found[0]
        return f"{found[1]}{{{{- {expression} | nindent {len(found[1])} }}}}"

    text = re.sub(r"(?m)^( *)- HELM(\d+)MARK$", block, text)
    return re.sub(r"HELM(\d+)MARK", lambda found: f"{{{{ {expressions[int(found[1])]} }}}}", text)
