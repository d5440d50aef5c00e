"""A world at random: whatever is created, edited, deleted, compacted and cut, the log ends with what is there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from controller.kube import NotFound
from controller.model.events import DELETIONS, Op
from controller.watch import Mark, Observation
from tests.edges.watch_world import ListSink, LogOfSink, World, local_world, running

LABEL = "training.kubeflow.org/job-name"
STEPS = 12
ROUNDS = 8


class Committed(LogOfSink):
    """What a log keeps of what was put: a crash loses the end; an object version counts once."""

    def __init__(self) -> None:
        super().__init__()
        self.versions: dict[str, int] = {}
        self.gone: set[str] = set()

    def commit(self, sink: ListSink, up_to: int) -> None:
        for item in sink.items[:up_to]:
            if isinstance(item, Observation):
                if item.uid in self.gone or item.resource_version <= self.versions.get(item.uid, 0):
                    continue
                self.versions[item.uid] = item.resource_version
                if item.op in DELETIONS:
                    self.gone.add(item.uid)
            self.items.append(item)


async def disturb(world: World, luck: random.Random, names: list[str]) -> None:
    """One thing that happens to one pod or service."""
    kind, name = luck.choice(["Pod", "Service"]), luck.choice(names)
    try:
        match luck.randrange(6):
            case 0 | 1:
                await world.delete(kind, name, **({"gracePeriodSeconds": 0} if kind == "Pod" else {}))
            case 2:
                await world.patch(kind, name, {"metadata": {"labels": {LABEL: None}}})
            case 3:
                await world.patch(kind, name, {"metadata": {"labels": {LABEL: "job", "n": str(luck.random())}}})
            case 4:
                await world.patch(kind, name, {"metadata": {"annotations": {"n": str(luck.random())}}})
            case _:
                await world.delete(kind, name, **({"gracePeriodSeconds": 0} if kind == "Pod" else {}))
                await world.create(kind, name)
    except NotFound:
        await world.create(kind, name)


async def there(world: World, kind: str) -> dict[str, int]:
    """uid → resourceVersion of the labelled objects."""
    path = {"Pod": "pods", "Service": "services"}[kind]
    query = {"labelSelector": LABEL}
    answer = await world.client.request("GET", f"/api/v1/namespaces/default/{path}", query=query)
    return {
        each["metadata"]["uid"]: int(each["metadata"]["resourceVersion"]) for each in answer.json().get("items") or ()
    }


@pytest.mark.parametrize("seed", range(6))
async def test_the_log_ends_with_what_is_there(tmp_path: Path, seed: int) -> None:
    luck = random.Random(seed)
    names = [f"o{index}" for index in range(8)]
    log = Committed()
    async with local_world(tmp_path) as world:
        for step in range(ROUNDS):
            sink = ListSink()
            is_last = step == ROUNDS - 1
            async with running(world.watches(sink, log)):
                for _ in range(STEPS):
                    await disturb(world, luck, names)
                await world.create("Pod", f"round-{step}")
                await sink.until(lambda sink=sink, step=step: seen(sink, f"round-{step}"))  # type: ignore[misc]
                if is_last:
                    await world.create("Service", "last")
                    await sink.until(lambda sink=sink: seen(sink, "last"))  # type: ignore[misc]
            log.commit(sink, len(sink.items) if is_last else luck.randrange(len(sink.items) + 1))
            for _ in range(luck.randrange(STEPS)):
                if not is_last:
                    await disturb(world, luck, names)
            if luck.random() < 0.5 and not is_last:
                await world.compact()
        for kind, resource in (("Pod", "pods"), ("Service", "services")):
            expected = await there(world, kind)
            heads = await log.heads(resource)
            known = {uid: head.resource_version for uid, head in heads.items() if head.job_name}
            assert known == expected, f"seed {seed}, {resource}"
    rows = [(item.uid, item.resource_version) for item in log.items if isinstance(item, Observation)]
    assert len(rows) == len(set(rows))
    gaps = [item.op for item in log.items if not isinstance(item, Observation | Mark)]
    assert gaps[0] is Op.GAP


def seen(sink: ListSink, name: str) -> bool:
    return any(isinstance(item, Observation) and item.name == name for item in sink.items)
