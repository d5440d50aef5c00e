"""What one edge has seen and the other would have to ask the API server for: jobs, and deletions that took place.

In: TFJobs as the watch reads them, uids whose deletion the API server has answered. Out: the same. In memory only: a
job is whole here and redacted in the log; whoever finds nothing here asks the API server.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import msgspec

JOBS_HELD = 256
"""More than have pods created at the same time; the others are asked for."""
DELETIONS_REMEMBERED = 10_000

Json = dict[str, Any]


class _Job:
    __slots__ = ("body", "generation", "raw")

    def __init__(self, generation: int, raw: bytes) -> None:
        self.generation = generation
        self.raw = raw
        self.body: Json | None = None


class Live:
    """Shared by the edges of one controller."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, _Job] = OrderedDict()
        self._deleted: OrderedDict[str, None] = OrderedDict()

    def see_job(self, uid: str, generation: int, raw: bytes) -> None:
        """A version of a TFJob, whole; one that is older than the one held changes nothing."""
        held = self._jobs.get(uid)
        if held is None or held.generation <= generation:
            self._jobs[uid] = _Job(generation, raw)
        self._jobs.move_to_end(uid)
        if len(self._jobs) > JOBS_HELD:
            self._jobs.popitem(last=False)

    def forget_job(self, uid: str) -> None:
        """The job is gone."""
        self._jobs.pop(uid, None)

    def job(self, uid: str, at_least_generation: int) -> Json | None:
        """The job as it is on the API server; None where it is not held, or only an older generation. Not to be
        written to."""
        held = self._jobs.get(uid)
        if held is None or held.generation < at_least_generation:
            return None
        self._jobs.move_to_end(uid)
        if held.body is None:
            held.body = msgspec.json.decode(held.raw)
        return held.body

    def note_deleted(self, uids: Iterable[str]) -> None:
        """The API server answered that these objects are deleted, and nothing holds them."""
        for uid in uids:
            self._deleted[uid] = None
            if len(self._deleted) > DELETIONS_REMEMBERED:
                self._deleted.popitem(last=False)

    def is_deleted(self, uid: str) -> bool:
        """Proof that the object of this uid is gone."""
        return uid in self._deleted
