"""Which pods a step means, and what stands for an object that is not the job's.

In: a step's value, what is seen. Out: pods of the world, bodies. Raises WrongStep for what cannot be. Never: a change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from controller.scenario.model import PodReport, WrongStep
from controller.scenario.parse import report_of
from controller.scenario.seen import Seen
from controller.scenario.which import slots_of
from controller.scenario.world import Held


def job_needed(seen: Seen) -> Held:
    """The job, which a step needs. Raises WrongStep when there is none."""
    job = seen.job()
    if job is None:
        raise WrongStep(f"there is no job {seen.name}")
    return job


def manifest_needed(seen: Seen) -> dict[str, Any]:
    """What `same` stands for. Raises WrongStep when the file has no job."""
    if not seen.manifest:
        raise WrongStep("same as what? The file has no job")
    return seen.manifest


def pods_needed(seen: Seen, which: str) -> list[Held]:
    """The newest pod of each slot that is named. Raises WrongStep where there is none."""
    own = seen.own()
    slots = slots_of(which, own.slots_with_pods())
    if not slots:
        raise WrongStep(f"{which} names no pod: there is none")
    found = []
    for slot in slots:
        held = own.newest_pod(slot)
        if held is None:
            raise WrongStep(f"{slot} has no pod")
        found.append(held)
    return found


def reports_of(seen: Seen, reports: dict[str, Any]) -> Iterator[tuple[Held, PodReport]]:
    """The pods that a `pods` step reports of and what, in its order; each is looked for when its turn comes. Raises
    WrongStep for a slot without a pod."""
    for which, state in reports.items():
        report, own = report_of(state), seen.own()
        slots = slots_of(which, own.slots_with_pods())
        if not slots:
            raise WrongStep(f"{which} names no pod to report {_shown(state)} of")
        for slot in slots:
            held = own.newest_pod(slot)
            if held is None:
                raise WrongStep(f"{slot} has no pod to report {_shown(state)} of")
            yield held, report
            own = seen.own()


def foreign_body(seen: Seen, what: dict[str, Any], other_uid: str, other_name: str) -> dict[str, Any]:
    """The object of a `foreign` step, without its spec. The other owner is a TFJob of that uid and name."""
    job = seen.job()
    owner = what.get("owner", "none")
    metadata: dict[str, Any] = {
        "name": what["name"],
        "namespace": what.get("namespace", seen.namespace),
        "labels": dict(what.get("labels") or {}),
    }
    if owner != "none":
        uid, name = (job.uid, seen.name) if owner == "self" and job else (other_uid, other_name)
        metadata["ownerReferences"] = [
            {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": name, "uid": uid, "controller": True}
        ]
    return {"metadata": metadata}


def _shown(state: Any) -> str:
    return state if isinstance(state, str) else json.dumps(state)
