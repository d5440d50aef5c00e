"""API server → observations: which objects are known, with everything that was put, committed or not.

In: the heads of the log, once; then each observation that is put. Out: what a relist differs from.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from controller.model.events import DELETIONS
from controller.watch.normalise import Owner
from controller.watch.observation import HeadLike, Observation

DEPARTED_REMEMBERED = 2000
"""Objects that are gone and whose late notices still find their job."""


class Head(NamedTuple):
    namespace: str
    name: str
    uid: str
    resource_version: int
    job_uid: str | None
    job_name: str | None


class Heads:
    """The known objects of one resource, by uid."""

    def __init__(self, found: Mapping[str, HeadLike], marked: int | None) -> None:
        """`marked` is the resourceVersion up to which the log says that the resource was read."""
        self._heads = {
            uid: Head(each.namespace, each.name, uid, int(each.resource_version), each.job_uid, each.job_name)
            for uid, each in found.items()
        }
        self._departed: OrderedDict[str, Owner] = OrderedDict()
        self.highest = max((head.resource_version for head in self._heads.values()), default=0)
        """The highest resourceVersion that was seen: a consistent list is not below it."""
        self.note(marked or 0)

    def __len__(self) -> int:
        return len(self._heads)

    def __contains__(self, uid: str) -> bool:
        return uid in self._heads

    def get(self, uid: str) -> Head | None:
        return self._heads.get(uid)

    def missing(self, seen: set[str]) -> list[Head]:
        """The known objects that a list lacks."""
        return [head for uid, head in self._heads.items() if uid not in seen]

    def of_job(self, namespace: str, job_name: str) -> list[Head]:
        """The known objects of one job, by its name on their label."""
        return [h for h in self._heads.values() if h.namespace == namespace and h.job_name == job_name]

    def owner(self, uid: str) -> Owner | None:
        """Whose a known, or lately departed, object is."""
        head = self._heads.get(uid)
        return Owner(head.job_uid, head.job_name) if head else self._departed.get(uid)

    def lags(self, uid: str, resource_version: int) -> bool:
        """True when this version of an object exists and was not put."""
        head = self._heads.get(uid)
        return uid not in self._departed if head is None else head.resource_version < resource_version

    def note(self, resource_version: int) -> None:
        """The resource was seen at this version."""
        self.highest = max(self.highest, resource_version)

    def is_news(self, seen: Observation, *, after_restore: bool = False) -> bool:
        """True when the observation tells more than what is known. After a restore any difference is news."""
        head = self._heads.get(seen.uid)
        if seen.op in DELETIONS:
            return head is not None or seen.uid not in self._departed
        if head is None:
            return seen.uid not in self._departed  # a list that was on its way when its object went
        if after_restore:
            return seen.resource_version != head.resource_version
        return seen.resource_version > head.resource_version

    def take(self, seen: Observation) -> None:
        """Takes up what was put."""
        self.note(seen.resource_version)
        if seen.op in DELETIONS:
            self._heads.pop(seen.uid, None)
            self._departed[seen.uid] = Owner(seen.job_uid, seen.job_name)
            if len(self._departed) > DEPARTED_REMEMBERED:
                self._departed.popitem(last=False)
            return
        self._heads[seen.uid] = Head(
            seen.namespace, seen.name, seen.uid, seen.resource_version, seen.job_uid, seen.job_name
        )

    def clear_highest(self, resource_version: int) -> None:
        """The cluster was set back: what was seen above this version is of another past."""
        self.highest = resource_version
