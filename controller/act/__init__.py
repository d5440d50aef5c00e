"""Actions → API server: pods, services, status, Events; every answer is an outcome.

In: requests whose decision is committed. Out: outcomes. Never: a decision.
"""

from controller.act.actor import Actor
from controller.act.manifests import pod_manifest, service_manifest
from controller.act.request import Request
from controller.act.turns import Turns

__all__ = ["Actor", "Request", "Turns", "pod_manifest", "service_manifest"]
