"""One action on its way to the API server, with what it needs to be sent."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.model.actions import Action


class Request(msgspec.Struct, frozen=True):
    """`status` and `resource_version` are filled in right before a PatchStatus is sent; `generation` says which spec
    of the job the decision rests on."""

    action: Action
    job_uid: str
    namespace: str
    name: str
    decided_position: int
    ordinal: int
    generation: int = 0
    status: dict[str, Any] | None = None
    resource_version: str = ""
