"""Objects as plain JSON: one version of them, merge patches, and the structs that decisions read.

In: bodies. Out: other bodies; none is changed. Never: I/O.
"""

from __future__ import annotations

from typing import Any

import msgspec

from controller.model.objects import Pod, PodGroup, Service, TFJob
from controller.scenario.model import WrongStep

Json = dict[str, Any]


def version_of(body: Json) -> Json:
    """The body as it is now, whatever is written to the object later."""
    return {**body, "metadata": dict(body["metadata"])}


def merged(target: Json, patch: Json) -> Json:
    """RFC 7386: the target with the patch; neither is changed."""
    result = {key: value for key, value in target.items() if key not in patch or patch[key] is not None}
    for key, value in patch.items():
        if isinstance(value, dict):
            child = target.get(key)
            result[key] = merged(child if isinstance(child, dict) else {}, value)
        elif value is not None:
            result[key] = value
    return result


_STRUCTS: dict[str, type[TFJob | Pod | Service | PodGroup]] = {
    "TFJob": TFJob,
    "Pod": Pod,
    "Service": Service,
    "PodGroup": PodGroup,
}


def typed(kind: str, body: Json) -> TFJob | Pod | Service | PodGroup:
    """A plain object as the struct that decisions read. Raises WrongStep when it has another shape."""
    try:
        return msgspec.convert(body, _STRUCTS[kind])
    except msgspec.ValidationError as error:
        words = str(error)[:1].lower() + str(error)[1:]
        raise WrongStep(f"the {kind} {body['metadata'].get('name')} would be refused: {words}") from None
