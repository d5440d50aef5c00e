"""Records histories for tests/replay: plays scenarios with a whole controller on the local API server, and exports them.

    python -m tests.replay.record [SCENARIO…]

In: scenario files (unset: the list below). Out: tests/replay/NAME.tape. A tape that is there is never written again:
every release replays those of all earlier ones.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import asyncpg

from controller import __version__
from controller.cli.playing import LocalPlaces
from controller.history.tape import write_tape
from controller.history.tape_log import recorded_of
from controller.local.postgres import EmbeddedPostgres
from controller.log import EventLog, migrate
from controller.scenario import LiveRun
from tests.postgres_fixture import open_folder
from tests.scenarios.live import FILES, HERE, problems_of

FOLDER = Path(__file__).parent
MAX_WAIT_SECONDS = 5.0
ENDINGS = """
another-job arena-1370-collected arena-291-two-evaluators argo-workflows-013152-node-removed-never
argo-workflows-013152-node-removed-onfailure common-0104-unschedulable-pod-at-the-end community-0030-chief-all-workers
community-0030-default evaluator-137-exit-code foreign-pods-are-not-ours jobset-000574-pod-evicted-is-no-retry
kubeflow-1796-master-default kubeflow-1853-chief-done-v1 kubernetes-131917-recreated-within-a-gap
lost-under-never-fails own-backoff-disruptions own-crash-loop-ps-v1alpha2 own-crash-loop-v1 own-deleted-while-running
own-evaluator-failed-v1 own-evaluator-failed-v1alpha2 own-exit-code-annotation own-exit-code-permanent-v1
own-exit-code-permanent-v1alpha2 own-exit-code-retryable-v1 own-exit-code-retryable-v1alpha2 own-failed-message-oom
own-failure-then-success own-gap-end-seen own-gap-end-unseen own-init-failure-exit-code own-ps-only-v1
own-ps-retried-v1 own-stalled-image-pull own-stalled-name-taken own-success-and-failure-v1alpha2
own-suspend-succeeded-slot own-ttl-zero-failed peer-backoff-3 peer-deadline-2s peer-scale-down
peer-status-w1-succeeded peer-status-w4-ps2-chief-restarting-v1alpha2
""".split()


async def main(names: list[str]) -> int:
    files = {file.stem: file for file in (*FILES, *(HERE / "own").glob("*.yaml"), *FOLDER.glob("*.yaml"))}
    folder = open_folder()
    failed = 0
    try:
        async with EmbeddedPostgres(folder / "state", durable=False) as postgres:
            await migrate.upgrade(postgres.url)
            run = LiveRun("local", LocalPlaces(folder).place, postgres.url, MAX_WAIT_SECONDS)
            for name in names:
                if not (FOLDER / f"{name}.tape").exists():
                    failed += not await record(run, files[name], postgres.dsn)
    finally:
        shutil.rmtree(folder)
    return int(failed > 0)


async def record(run: LiveRun, file: Path, dsn: str) -> bool:
    """Plays one and writes its tape; False, and no tape, when the scenario did not hold."""
    before = await clusters(dsn)
    result = await run.play(file)
    if result.left_out is not None or not result.held:
        print(f"{file.stem}: {result.left_out or problems_of(result)}")
        return False
    (cluster,) = await clusters(dsn) - before
    log = await EventLog.open(run.database_url, cluster=cluster)
    try:
        uids = [row.job_uid for row in reversed(await log.list_jobs())]
        recorded = [await recorded_of(log, uid) for uid in uids]
    finally:
        await log.close()
    with (FOLDER / f"{file.stem}.tape").open("wb") as out:
        write_tape(out, recorded, __version__)
    print(f"{file.stem}: {len(recorded)} jobs, {sum(len(each.events) for each in recorded)} events")
    return True


async def clusters(dsn: str) -> set[str]:
    connection = await asyncpg.connect(dsn)
    try:
        return {row[0] for row in await connection.fetch("SELECT cluster FROM log_head")}
    finally:
        await connection.close()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:] or ENDINGS)))
