"""All conditions after one event, in their order: end, suspension, Running and Restarting, Created, Stalled (RULES §4).

In: a draft whose facts are folded. Out: the list of conditions in the draft, transitions. Not called while a gap is
open: what one relist brings is taken together.
"""

from __future__ import annotations

from controller.decide import reasons
from controller.decide.conditions import Board
from controller.decide.ending import JobEnd, end_of
from controller.decide.running import progress_of, restarting_message
from controller.decide.stalled import stall_words
from controller.fold.draft import Draft, replace_slot
from controller.fold.judge import judge
from controller.fold.state import Slot, Verdict
from controller.model.events import Event, Transition


def evaluate(draft: Draft, event: Event, by_gap: bool) -> list[Transition]:
    """Brings the conditions up to the facts."""
    state = draft.state
    judge(draft, event.observed_at)
    if state.is_deleted or state.is_terminating:
        return []
    board = Board(state, event, by_gap)
    if not state.has_ended():
        _created(draft, board)
        end = end_of(state)
        if end is not None:
            _end(draft, event, board, end)
        elif state.spec.is_suspended:
            _suspended(draft, board)
        else:
            _resumed(draft, event, board)
            _progress(draft, board)
    board.close()
    return board.transitions


def evaluate_stalled(draft: Draft, event: Event, by_gap: bool) -> list[Transition]:
    """Stalled, once it is known what each slot waits for."""
    state = draft.state
    if state.is_deleted or state.is_terminating or state.has_ended():
        return []
    words = stall_words(state)
    if words is None and not any(entry.type == reasons.STALLED and entry.is_true for entry in state.conditions):
        return []
    board = Board(state, event, by_gap)
    if words is not None:
        if not board.is_true(reasons.STALLED):
            draft.notify("Warning", words[0], words[1][:1000])
        board.set_true(reasons.STALLED, *words)
    else:
        board.set_false(reasons.STALLED, reasons.NOT_STALLED, "Nothing outside the job holds it back.")
    board.close()
    return board.transitions


def _created(draft: Draft, board: Board) -> None:
    state = draft.state
    if not board.has(reasons.CREATED):
        board.set_true(reasons.CREATED, reasons.JOB_CREATED, f"TFJob {state.namespace}/{state.name} is created.")


def _end(draft: Draft, event: Event, board: Board, end: JobEnd) -> None:
    state = draft.state
    for kind in (reasons.RUNNING, reasons.RESTARTING):
        board.set_false(kind, end.reason, end.message, renew=True)
    board.set_false(reasons.STALLED, end.reason, end.message)
    board.set_true(end.type, end.reason, end.message)
    state.verdict = end.type
    state.completion_time = event.observed_at
    state.end_position = event.position
    state.is_deadline = end.reason == reasons.DEADLINE_EXCEEDED
    if state.start_time is None and end.reason != reasons.INVALID_SPEC:
        state.start_time = event.observed_at
    for slot_id, slot in list(state.slots.items()):
        if slot.retry is not None:
            # What waited for its next attempt stays what it was at the end: failed.
            draft.put(replace_slot(state.slots[slot_id], retry=None, verdict=_verdict_at_end(slot)))
    kind = "Normal" if end.type == reasons.SUCCEEDED else "Warning"
    draft.notify(kind, end.reason, end.message[:1000])
    draft.touch_all()


def _verdict_at_end(slot: Slot) -> Verdict:
    return slot.verdict if slot.retry and slot.retry.is_replaced else Verdict.FAILED


def _suspended(draft: Draft, board: Board) -> None:
    state = draft.state
    if not board.is_true(reasons.SUSPENDED):
        draft.notify("Normal", reasons.JOB_SUSPENDED, f"TFJob {state.namespace}/{state.name} is suspended.")
        draft.touch_all()
    message = f"TFJob {state.namespace}/{state.name} is suspended."
    board.set_false(reasons.RUNNING, reasons.JOB_SUSPENDED, message)
    board.set_false(reasons.RESTARTING, reasons.JOB_SUSPENDED, message)
    board.set_true(reasons.SUSPENDED, reasons.JOB_SUSPENDED, message)
    if not any(tally.retried for tally in state.tallies.values()):
        return
    for slot_id, slot in list(state.slots.items()):
        if slot.retry is not None:
            # A suspension ends every retry; the slot runs again at the resume at once (RULES §12).
            draft.put(replace_slot(state.slots[slot_id], retry=None))


def _resumed(draft: Draft, event: Event, board: Board) -> None:
    state = draft.state
    if board.is_true(reasons.SUSPENDED):
        message = f"TFJob {state.namespace}/{state.name} is resumed."
        board.set_false(reasons.SUSPENDED, reasons.JOB_RESUMED, message)
        draft.notify("Normal", reasons.JOB_RESUMED, message)
        state.start_time = None
        draft.touch_all()
    if state.start_time is None:
        state.start_time = event.observed_at
        state.change_status()


def _progress(draft: Draft, board: Board) -> None:
    """Running and Restarting, of which at most one is True (RULES §4.2, §4.3)."""
    state = draft.state
    progress = progress_of(state)
    name = f"TFJob {state.namespace}/{state.name}"
    if not progress.ps_steady:
        board.set_false(reasons.RUNNING, reasons.PS_NOT_RUNNING, f"{name}: a PS is not running.")
        board.set_false(reasons.RESTARTING, reasons.PS_NOT_RUNNING, f"{name}: a PS is not running.")
    elif progress.is_retrying:
        message = restarting_message(state)
        board.set_false(reasons.RUNNING, reasons.JOB_RESTARTING, message)
        if not board.is_true(reasons.RESTARTING):
            draft.notify("Warning", reasons.JOB_RESTARTING, message[:1000])
        board.set_true(reasons.RESTARTING, reasons.JOB_RESTARTING, message)
    elif progress.runs:
        board.set_false(reasons.RESTARTING, reasons.JOB_RUNNING, f"{name} is running.")
        board.set_true(reasons.RUNNING, reasons.JOB_RUNNING, f"{name} is running.")
    elif not board.is_true(reasons.RESTARTING):
        board.set_false(reasons.RUNNING, reasons.JOB_NOT_RUNNING, f"{name} is not running.")
