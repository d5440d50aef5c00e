"""A request whose answer was lost, and a crash before it was sent again: the next life sends it, and hears of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from controller.kube import Response, ServerFault, Status
from tests.cluster.harness import until
from tests.run.test_requests import CountingClient, counted, job_of
from tests.run.world import TFJOBS


async def test_what_has_an_unknown_outcome_in_one_life_is_settled_in_the_next(
    database_url: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """An outcome's key names the life that it is of: of the same try in the next life it is another outcome."""
    send = CountingClient.request
    is_away = True

    async def request(self: CountingClient, method: str, path: str, **options: Any) -> Response:
        answer = await send(self, method, path, **options)
        if is_away and path.endswith("/status"):
            raise ServerFault(Status(500, "InternalError", "it took effect, and nobody was told"))
        return answer

    monkeypatch.setattr(CountingClient, "request", request)
    async with counted(database_url, tmp_path) as (world, _):
        world.start()
        await world.send("POST", TFJOBS, job_of("a", Worker=1))
        unknown = "SELECT count(*) FROM events WHERE op = 'ACTION' AND body->'outcome'->>'result' = 'unknown'"

        async def is_unknown() -> bool:
            return (await world.fetch(unknown))[0] > 0

        await until(is_unknown, "an outcome that is not known")
        assert world.task is not None
        world.task.cancel()
        is_away = False
        world.start()
        settled = (
            "SELECT body->'outcome'->>'result' FROM events"
            " WHERE op = 'ACTION' AND body->'action'->>'action' = 'PatchStatus' ORDER BY position"
        )

        async def is_settled() -> bool:
            return (await world.fetch(settled))[-1] != "unknown"

        await until(is_settled, "its outcome, in the second life")
