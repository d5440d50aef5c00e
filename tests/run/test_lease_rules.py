"""The rules of the Lease as a table, its body as it is written, and a term that ends for good."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from controller.kube.lease import Term
from controller.kube.lease_rules import (
    EPOCH_ANNOTATION,
    Decision,
    LeaseSeen,
    Memory,
    Pace,
    decision_of,
    lease_seen,
    renewed_body,
)
from controller.kube.rate import Rate

PACE = Pace(lease_seconds=15.0, retry_seconds=2.0)
ACQUIRE, WAIT, RENEW, LOST = Decision.ACQUIRE, Decision.WAIT, Decision.RENEW, Decision.LOST


def lease(holder: str, seconds: float = 15.0, mark: str = "1") -> LeaseSeen:
    return LeaseSeen(holder, seconds, (holder, mark), 0)


class Row(NamedTuple):
    """What is seen; what was seen before, and how long ago it changed."""

    name: str
    seen: LeaseSeen | None
    before: LeaseSeen | None
    age: float
    is_held: bool
    expected: Decision


TABLE = [
    Row("nobody ever wrote it", None, None, 0, False, ACQUIRE),
    Row("another's, seen for the first time, however old its times are", lease("b"), None, 0, False, WAIT),
    Row("another's, unchanged, not for its whole length", lease("b"), lease("b"), 14.9, False, WAIT),
    Row("another's, unchanged for its whole length", lease("b"), lease("b"), 15.0, False, ACQUIRE),
    Row("another's, renewed just now", lease("b", mark="2"), lease("b"), 60, False, WAIT),
    Row("another's, longer than ours", lease("b", 60), lease("b", 60), 59, False, WAIT),
    Row("another's, longer than ours, over", lease("b", 60), lease("b", 60), 60, False, ACQUIRE),
    Row("another's, shorter than ours: ours counts", lease("b", 5), lease("b", 5), 14, False, WAIT),
    Row("another's without a length", lease("b", 0), lease("b", 0), 15, False, ACQUIRE),
    Row("taken by a third since we looked", lease("c", mark="2"), lease("b"), 60, False, WAIT),
    Row("given back", lease(""), lease("b"), 1, False, ACQUIRE),
    Row("ours: the answer to our write was lost", lease("a"), lease("b"), 1, False, ACQUIRE),
    Row("deleted while another may not know yet", None, lease("b"), 14.9, False, WAIT),
    Row("deleted long ago", None, lease("b"), 15, False, ACQUIRE),
    Row("deleted after it was given back", None, lease(""), 1, False, ACQUIRE),
    Row("deleted after it was ours", None, lease("a"), 1, False, ACQUIRE),
    Row("held, and ours", lease("a", mark="2"), lease("a"), 5, True, RENEW),
    Row("held, and another's", lease("b"), lease("a"), 5, True, LOST),
    Row("held, and given back by a person", lease(""), lease("a"), 5, True, LOST),
    Row("held, and deleted", None, lease("a"), 5, True, LOST),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_what_a_process_does_about_the_lease(row: Row) -> None:
    memory = Memory().after(row.before, 1000.0).after(row.seen, 1000.0 + row.age)
    assert decision_of(row.seen, memory, 1000.0 + row.age, "a", PACE, is_held=row.is_held) is row.expected


def test_a_label_that_somebody_else_writes_is_no_renewal() -> None:
    body = renewed_body(None, "x", "b", 1.0, PACE, 0)
    labelled: dict[str, Any] = {**body, "metadata": {**body["metadata"], "labels": {"a": "b"}, "resourceVersion": "9"}}
    memory = Memory().after(lease_seen(body), 10.0).after(lease_seen(labelled), 24.0)
    assert memory.changed_at == 10.0


def test_a_lease_that_is_taken_renewed_and_given_back() -> None:
    taken = renewed_body(None, "x", "a", 100.0, PACE, 3)
    assert taken == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "x", "annotations": {EPOCH_ANNOTATION: "3"}},
        "spec": {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "leaseTransitions": 0,
            "acquireTime": "1970-01-01T00:01:40.000000Z",
            "renewTime": "1970-01-01T00:01:40.000000Z",
        },
    }
    # Another machine's clock may be behind: the renewal differs all the same, or nobody would see it.
    renewed = renewed_body(taken, "x", "a", 50.0, PACE, 2)
    assert renewed["spec"] == {**taken["spec"], "renewTime": "1970-01-01T00:01:40.000001Z"}
    assert lease_seen(renewed) == LeaseSeen(
        "a", 15.0, ("None", "a", "1970-01-01T00:01:40.000000Z", "1970-01-01T00:01:40.000001Z", "0"), 3
    )
    other = renewed_body(renewed, "x", "b", 200.0, PACE, 0)
    assert (other["spec"]["leaseTransitions"], other["spec"]["acquireTime"]) == (1, "1970-01-01T00:03:20.000000Z")
    back = renewed_body(other, "x", "", 201.0, PACE, 0)
    assert (back["spec"]["holderIdentity"], back["spec"]["leaseDurationSeconds"]) == ("", 1)
    assert lease_seen(back).epoch == 3  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"metadata": {}}, LeaseSeen("", 0.0, ("None",) * 5, 0)),
        ({"metadata": {"annotations": {EPOCH_ANNOTATION: "many"}}, "spec": {"holderIdentity": None}}, None),
        ({"metadata": {"annotations": {EPOCH_ANNOTATION: "²"}}, "spec": None}, None),
    ],
)
def test_what_a_foreign_hand_wrote_counts_as_absent(body: dict[str, Any], expected: LeaseSeen | None) -> None:
    assert lease_seen(body) == (expected or LeaseSeen("", 0.0, ("None",) * 5, 0))


def test_a_lease_of_a_broken_time_can_be_taken() -> None:
    body = {"metadata": {"name": "x"}, "spec": {"renewTime": "yesterday", "leaseTransitions": None}}
    assert renewed_body(body, "x", "a", 0.0, PACE, 0)["spec"]["renewTime"] == "1970-01-01T00:00:00.000000Z"


def test_the_length_on_the_lease_is_never_shorter_than_what_is_counted_on() -> None:
    assert renewed_body(None, "x", "a", 0.0, Pace(3.5, 0.5), 0)["spec"]["leaseDurationSeconds"] == 4


def test_a_term_lets_no_write_outlive_the_lease_and_ends_for_good() -> None:
    now = [100.0]
    term = Term(PACE, 100.0, 0, lambda: now[0])
    seen = []
    for at in (100.0, 105.0, 109.9):
        now[0] = at
        seen.append(round(term.write_seconds(), 1))
    assert seen == [15.0, 10.0, 5.1]
    term.renewed(109.0)
    now[0] = 118.9
    assert round(term.write_seconds(), 1) == 5.1
    now[0] = 119.0
    assert term.write_seconds() == 0
    # A renewal that comes too late prolongs nothing: something was refused meanwhile.
    term.renewed(118.0)
    assert (term.write_seconds(), term.lost.is_set()) == (0, True)


def test_a_renewal_whose_answer_was_read_after_the_deadline_prolongs_nothing() -> None:
    now = [110.0]
    term = Term(PACE, 100.0, 0, lambda: now[0])
    term.renewed(109.0)
    assert term.write_seconds() == 0


@pytest.mark.parametrize(("luck", "expected"), [(0.0, 2.0), (0.5, 2.25), (1.0, 2.5)])
def test_two_that_stand_by_do_not_go_in_step(luck: float, expected: float) -> None:
    assert PACE.pause_seconds(luck) == expected


def test_a_rate_lets_a_burst_through_then_so_many_a_second_and_fills_up_again() -> None:
    rate = Rate(10.0, 3)
    assert [round(rate.reserve(0.0), 6) for _ in range(5)] == [0, 0, 0, 0.1, 0.2]
    # 0.2 s of debt are paid by 0.2 s of silence; then one place a tenth.
    assert round(rate.reserve(0.3), 6) == 0
    assert round(rate.reserve(0.3), 6) == 0.1
    assert [round(rate.reserve(100.0), 6) for _ in range(4)] == [0, 0, 0, 0.1]
