"""What training-operator 1.9 left on an API server: jobs in ten states with their pods, services and Events.

In: training-operator-leftovers.json, a namespace. Out: the same objects there, each owned by its job's new uid, times
moved so that the last is just over; and that operator's own definition of TFJob in force, while a block lasts.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.harness import CORE, TFJOBS, Api, install_crd, until

HERE = Path(__file__).parent
LEFT = HERE / "training-operator-leftovers.json"
SHARED = HERE.parents[2] / "shared" / "reference" / LEFT.name
THEIR_CRD = HERE / "training-operator-crd.yaml"
MERGE = "application/merge-patch+json"
OF_THE_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
AGO = timedelta(minutes=1)
"""When the last thing happened there: a TTL of a day has not run out, whenever the test runs."""
Json = dict[str, Any]


def left_jobs() -> dict[str, Json]:
    """name → job, as left."""
    return {each["metadata"]["name"]: each for each in json.loads(LEFT.read_text())["tfjobs"]}


async def load(api: Api, namespace: str, changes: dict[str, Json] | None = None) -> None:
    """Puts all of it into a namespace. `changes`: job → fields of its status that are to differ."""
    found = json.loads(_moved(LEFT.read_text()))
    uids: dict[str, str] = {}
    for job in found["tfjobs"]:
        name = job["metadata"]["name"]
        path = f"{TFJOBS}/namespaces/{namespace}/tfjobs"
        made = await api.call("POST", path, _bare(job, namespace))
        uids[job["metadata"]["uid"]] = made["metadata"]["uid"]
        status = {**job["status"], **(changes or {}).get(name, {})}
        await api.call("PATCH", f"{path}/{name}/status", {"status": status}, MERGE)
    for plural in ("services", "pods", "events"):
        for each in found[plural]:
            body = _bare(each, namespace)
            for reference in (*body["metadata"].get("ownerReferences", ()), body.get("involvedObject", {})):
                reference["uid"] = uids.get(reference.get("uid"), reference.get("uid"))
            if "involvedObject" in body:
                body["involvedObject"] |= {"namespace": namespace, "resourceVersion": ""}
            await api.call("POST", f"{CORE}/namespaces/{namespace}/{plural}", body)
            if plural == "pods":
                path = f"{CORE}/namespaces/{namespace}/pods/{body['metadata']['name']}/status"
                await api.call("PATCH", path, {"status": each["status"]}, MERGE)


def _moved(text: str) -> str:
    """All times later by the same."""
    times = {each: datetime.strptime(each, TIME_FORMAT).replace(tzinfo=UTC) for each in TIME.findall(text)}
    by = datetime.fromtimestamp(time.time(), UTC) - AGO - max(times.values())
    return TIME.sub(lambda each: (times[each.group()] + by).strftime(TIME_FORMAT), text)


def _bare(found: Json, namespace: str) -> Json:
    """The object as its maker sent it."""
    metadata = {key: value for key, value in found["metadata"].items() if key not in OF_THE_SERVER}
    return {**found, "metadata": {**metadata, "namespace": namespace}, "status": {}}


@asynccontextmanager
async def their_definition(api: Api) -> AsyncIterator[None]:
    """training-operator's TFJob definition in place of ours, as Argo CD would put it back."""
    body = yaml.safe_load(THEIR_CRD.read_text())
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{body['metadata']['name']}"
    await api.call("PATCH", f"{path}?fieldManager=tests&force=true", body, "application/apply-patch+yaml")

    async def is_theirs() -> bool:
        answers = [await api.status_of("GET", f"/apis/kubeflow.org/{each}/tfjobs") for each in ("v1alpha2", "v1")]
        return answers == [404, 200]

    try:
        await until(is_theirs, "v1 alone is served")
        yield
    finally:
        await install_crd(api)
        await until(lambda: _is_ours(api), "ours is served again")


async def _is_ours(api: Api) -> bool:
    return await api.status_of("GET", "/apis/kubeflow.org/v1alpha2/tfjobs") == 200
