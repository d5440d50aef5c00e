"""`tfjob list` and `tfjob history` over logs that a test has written."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from controller.log import Append, EventLog
from controller.log.records import JobSnapshot
from controller.model.events import Op
from tests.log.words import job

ROOT = Path(__file__).resolve().parents[2]


async def rows_of(database_url: str, *arguments: str, cluster: str = "") -> list[dict[str, Any]]:
    """What a command prints with `--json`."""
    environment = {**os.environ, "TFJOB_DATABASE_URL": database_url, "TFJOB_CLUSTER": cluster}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "controller", *arguments, "--json", cwd=ROOT, env=environment,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    return [json.loads(line) for line in out.decode().splitlines()]


async def test_each_cluster_of_a_database_is_read_by_its_name(database_url: str) -> None:
    """The same job in two logs, as after a week of `--observe`."""
    for cluster, phase in (("default", "Failed"), ("default-observed", "Succeeded")):
        log = await EventLog.open(database_url, cluster=cluster)
        await log.lead("test", "0")
        first = await log.commit(Append(events=[job(10, Op.ADDED)]))
        snapshot = JobSnapshot("job-uid", "ns", "job", first[0].position, b"{}", phase, False)
        more = [job(11)] if cluster == "default-observed" else []
        await log.commit(Append(events=more, snapshots=[snapshot]))
        await log.close()
    for cluster, phase, count in (("default", "Failed", 1), ("default-observed", "Succeeded", 2)):
        flag = ("--cluster", cluster)
        (listed,) = await rows_of(database_url, "list", *flag)
        assert (listed["name"], listed["phase"]) == ("job", phase)
        assert len(await rows_of(database_url, "history", "job", *flag)) == count
        assert await rows_of(database_url, "list", cluster=cluster) == [listed]
    assert [each["phase"] for each in await rows_of(database_url, "list")] == ["Failed"]
    assert await rows_of(database_url, "history", "job", "--cluster", "other") == []
