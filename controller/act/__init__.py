"""Actions → API server: pods, services, status, Events; every answer is an outcome.

In: requests whose decision is committed. Out: outcomes. Never: a decision.
The names are imported when they are first used: manifests are wanted where no client is (`tfjob simulate`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controller.act.actor import Actor
    from controller.act.manifests import pod_manifest, service_manifest
    from controller.act.onlooker import Onlooker
    from controller.act.request import Request
    from controller.act.turns import Turns

__all__ = ["Actor", "Onlooker", "Request", "Turns", "pod_manifest", "service_manifest"]

_PLACES = {
    "Actor": "controller.act.actor",
    "Onlooker": "controller.act.onlooker",
    "Request": "controller.act.request",
    "Turns": "controller.act.turns",
    "pod_manifest": "controller.act.manifests",
    "service_manifest": "controller.act.manifests",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
