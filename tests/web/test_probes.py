"""Probes and metrics of a controller that runs: what they say when all is well, and in words when it is not."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controller.app import Controller
from controller.errors import UserError
from controller.local.postgres import EmbeddedPostgres
from controller.run.tally import Tally
from controller.run.vitals import Vitals, dead_of
from controller.settings import Settings
from controller.web import serving
from controller.web.exposition import ControllerCollector
from tests.cluster.harness import ROOT, until
from tests.run.world import World, databases_of, world_of
from tests.web.scrapes import Samples, ask, scrape

JOBS = 'training_operator_jobs_{}_total{{framework="tensorflow",job_namespace="default"}}'


def started(world: World) -> Controller:
    """A controller that runs until the world stops it."""
    world.stop_signal = asyncio.Event()
    controller = Controller(Settings(database_url=world.database_url), world.client)
    world.task = asyncio.create_task(controller.run(world.stop_signal))
    return controller


@asynccontextmanager
async def served(world: World) -> AsyncIterator[int]:
    """A controller that leads, and the port that it answers at."""
    async with serving("127.0.0.1:0", started(world)) as port:

        async def is_ready() -> bool:
            return (await ask(port, "/readyz"))[0] == 200

        await until(is_ready, "the controller is ready")
        yield port
        await world.stop()


async def run_to_its_end(world: World, name: str, exit_code: int) -> None:
    await world.submit(name)
    await until(lambda: world.has_pods(f"{name}-worker-0"), "its pod is there")
    await world.end(f"{name}-worker-0", exit_code)
    state = "Succeeded" if exit_code == 0 else "Failed"
    await until(lambda: world.is_in(name, state), f"the job is {state}")


def counts(samples: Samples) -> dict[str, float]:
    """What training-operator's dashboards show."""
    names = ("created", "deleted", "successful", "failed", "restarted")
    return {name: samples[JOBS.format(name)] for name in names if JOBS.format(name) in samples}


async def test_weakness_28_a_leader_is_ready_and_counts_what_happened_once_over_its_lives(
    database_url: str, tmp_path: Path
) -> None:
    async with world_of(database_url, tmp_path) as world:
        async with served(world) as port:
            assert await ask(port, "/livez") == (200, "ok\n")
            await run_to_its_end(world, "good", 0)
            await run_to_its_end(world, "bad", 3)
            await world.submit("waits")
            await until(lambda: world.has_pods("waits-worker-0"), "its pod is there")
            await world.send("DELETE", "/apis/kubeflow.org/v1/namespaces/default/tfjobs/bad")

            async def is_counted() -> bool:
                return "deleted" in counts(await scrape(port))

            await until(is_counted, "the deletion is counted")
            samples = await scrape(port)
            assert counts(samples) == {"created": 3, "deleted": 1, "successful": 1, "failed": 1}
            assert samples["tfjob_is_leader"] == 1
            assert samples['tfjob_jobs{job_namespace="default",state="Succeeded"}'] == 1
            assert samples['tfjob_jobs{job_namespace="default",state="Created"}'] == 1
            assert samples['tfjob_action_outcomes_total{action="CreatePod",result="done"}'] == 3
            assert samples['tfjob_watch_gaps_total{reason="FirstSync"}'] == 1
            assert samples['tfjob_log_events_appended_total{op="LEADER"}'] == 1
            assert samples["tfjob_parked_jobs"] == 0
            assert samples["process_resident_memory_bytes"] > 0
            appended = sum(value for name, value in samples.items() if name.startswith("tfjob_log_events_appended"))
            assert [appended] == await world.fetch("SELECT position FROM log_head")
            assert samples["tfjob_log_commit_events_sum"] == appended
            assert samples["tfjob_log_commit_events_count"] == samples["tfjob_log_commits_total"]
            bucket = 'tfjob_log_event_to_commit_seconds_bucket{le="+Inf"}'
            assert 0 < samples["tfjob_log_event_to_commit_seconds_count"] == samples[bucket] < appended
        async with served(world) as port:
            await run_to_its_end(world, "later", 0)
            # What the first life counted is read back, and not counted again.
            samples = await scrape(port)
            assert counts(samples) == {"created": 1, "successful": 1}
            assert samples['tfjob_jobs{job_namespace="default",state="Succeeded"}'] == 2


async def test_weakness_15_a_job_whose_events_are_folded_anew_was_created_once(
    database_url: str, tmp_path: Path
) -> None:
    async with world_of(database_url, tmp_path) as world:
        async with served(world) as port:
            await world.submit("waits")
            await until(lambda: world.is_in("waits", "Created"), "the job is Created")
            assert counts(await scrape(port)) == {"created": 1}
        # As a crash leaves it that comes before the first snapshot: a start has the events alone.
        await world.fetch("DELETE FROM projections RETURNING 1")
        await world.fetch("DELETE FROM job_states RETURNING 1")
        async with served(world) as port:
            samples = await scrape(port)
            assert samples['tfjob_jobs{job_namespace="default",state="Created"}'] == 1
            assert counts(samples) == {}


async def test_a_restart_is_counted_and_so_is_a_job_that_another_manages_not(database_url: str, tmp_path: Path) -> None:
    async with world_of(database_url, tmp_path) as world, served(world) as port:
        template = {"spec": {"containers": [{"name": "tensorflow", "image": "example/train:1"}]}}
        for name, more in (("foreign", {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}), ("again", {})):
            replica = {"replicas": 1, "restartPolicy": "ExitCode", "template": template}
            body = {
                "apiVersion": "kubeflow.org/v1",
                "kind": "TFJob",
                "metadata": {"name": name},
                "spec": {"tfReplicaSpecs": {"Worker": replica}, **more},
            }
            await world.send("POST", "/apis/kubeflow.org/v1/namespaces/default/tfjobs", body)
        await until(lambda: world.has_pods("again-worker-0"), "its pod is there")
        await world.end("again-worker-0", 137)

        async def is_counted() -> bool:
            return counts(await scrape(port)) == {"created": 1, "restarted": 1}

        await until(is_counted, "one job was created, and restarted once")


async def test_a_leader_without_its_log_or_its_watches_says_so_and_lives_on(
    database_url: str, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    async with (
        databases_of(database_url, postgres.dsn) as databases,
        world_of(database_url, tmp_path) as world,
        served(world) as port,
    ):
        await databases.rename(databases.name, "away")

        async def says(words: str) -> bool:
            code, text = await ask(port, "/readyz")
            return code == 503 and words in text

        await until(lambda: says("the log cannot be"), "a quiet leader notices that Postgres is away")
        await world.submit("unseen")

        async def is_behind() -> bool:
            samples = await scrape(port)
            return samples["tfjob_log_behind_seconds"] > 0.5 and samples["tfjob_log_failed_commits_total"] > 0

        await until(is_behind, "it falls behind")
        await until(lambda: says("the log cannot be written"), "it says that it cannot write")
        assert await ask(port, "/livez") == (200, "ok\n")
        await databases.rename("away", databases.name)

        async def is_ready() -> bool:
            samples = await scrape(port)
            return (await ask(port, "/readyz"))[0] == 200 and samples["tfjob_log_behind_seconds"] == 0

        await until(is_ready, "it is ready again")
        await world.server.stop()
        await until(lambda: says("the watch of pods is not connected"), "its watches are gone")
        assert await ask(port, "/livez") == (200, "ok\n")


async def test_one_that_has_not_begun_is_alive_and_not_ready(database_url: str, tmp_path: Path) -> None:
    async with world_of(database_url, tmp_path) as world:
        controller = Controller(Settings(database_url=database_url), world.client)
        async with serving("127.0.0.1:0", controller) as port:
            assert await ask(port, "/livez") == (200, "ok\n")
            assert await ask(port, "/readyz") == (503, "starting\n")
            assert (await scrape(port))["tfjob_is_leader"] == 0


async def test_a_loop_that_has_ended_is_named(database_url: str, tmp_path: Path) -> None:
    async with world_of(database_url, tmp_path) as world:
        controller = started(world)
        await until(lambda: controller.vitals().is_leading, "it leads")
        loops = controller._loops()
        assert loops is not None and dead_of(loops) == []
        assert [task.get_name() for task in loops.tasks] == ["ingest", "perform", "watch", "timers"]
        loops.tasks[2].cancel()
        await until(lambda: dead_of(loops), "one has ended")
        assert dead_of(loops) == ["the watch loop has ended"]
        await world.stop()


async def test_a_port_that_is_taken_is_one_line(database_url: str, tmp_path: Path) -> None:
    async with world_of(database_url, tmp_path) as world:
        controller = Controller(Settings(database_url=database_url), world.client)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            with pytest.raises(UserError, match=f"--http-address {address}: "):
                async with serving(address, controller):
                    raise AssertionError("it was served")


async def test_off_is_off(database_url: str, tmp_path: Path) -> None:
    async with (
        world_of(database_url, tmp_path) as world,
        serving("", Controller(Settings(database_url=database_url), world.client)) as port,
    ):
        assert port == 0


async def test_the_page_lists_every_metric_and_no_other() -> None:
    page = (ROOT / "docs" / "METRICS.md").read_text()
    listed = set(re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE))
    served = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in ControllerCollector(lambda: Vitals(Tally())).collect()
    }
    assert listed == served
