"""Each weakness of training-operator 1.9 that the core could have, as the edit of the core that would bring it in."""

from __future__ import annotations

from tests.mutants import Change

AGENDA, CLEANUP, CONDITIONS = "controller.decide.agenda", "controller.decide.cleanup", "controller.decide.conditions"
ENDING, EVALUATE, STATUS = "controller.decide.ending", "controller.decide.evaluate", "controller.decide.status"
JUDGE, PODS, SPEC = "controller.fold.judge", "controller.fold.pods", "controller.fold.spec"

MUTANTS: dict[str, list[Change]] = {
    "01": [Change(JUDGE, "        count_retries(draft, slot, 1)\n", "")],
    "02": [Change("controller.decide.wanted", "if state.may_run() and seconds is not None", "if False and seconds")],
    "03": [Change(JUDGE, "state.spec.retryable)\n    return True", "state.spec.retryable)\n    return False")],
    "04": [
        Change(JUDGE, "if ending.how is End.STOPPED or slot.index >= state.spec.count(slot.type):", "if False:"),
        Change("controller.decide.running", "return slot_id.index < state.spec.count(slot_id.type)", "return True"),
        Change("controller.fold.draft", "if tally is not None and slot.index < tally.total:", "if tally is not None:"),
        Change(ENDING, "if any(tally.failed_for_good for tally in state.tallies.values()):", "if True:"),
    ],
    "05": [Change(AGENDA, "and slot.index < state.spec.count(slot.type) and slot.verdict", "and slot.verdict")],
    "06": [Change(AGENDA, "and slot.verdict is Verdict.OPEN\n\n\ndef stall_of", "\n\n\ndef stall_of")],
    "07": [
        Change(
            EVALUATE,
            "    board.set_true(end.type, end.reason, end.message)\n",
            "    board.set_true(end.type, end.reason, end.message)\n"
            "    if any(tally.failed for tally in state.tallies.values()):\n"
            "        board.set_true(reasons.FAILED, reasons.JOB_FAILED, end.message)\n",
        )
    ],
    "08": [Change(EVALUATE, "for kind in (reasons.RUNNING, reasons.RESTARTING):", "for kind in (reasons.RUNNING,):")],
    "09": [
        Change(
            EVALUATE,
            "    state.completion_time = event.observed_at\n",
            "    state.completion_time = None if board.has(reasons.RESTARTING) else event.observed_at\n",
        )
    ],
    "10": [
        Change(
            ENDING,
            "if any(tally.failed_for_good for tally in state.tallies.values()):",
            "if not any(tally.retried for tally in state.tallies.values()):",
        )
    ],
    "13": [Change(STATUS, "    if restarts:\n", "    if False:\n")],
    "14": [Change(STATUS, '"active": tally.active', '"active": tally.total if state.has_ended() else tally.active')],
    "15": [Change(EVALUATE, "if not board.has(reasons.CREATED):", "if state.generation == 1:")],
    "19": [
        Change(
            PODS,
            "        add_stray(draft, event, pod, Because.DUPLICATE)\n",
            "        draft.put(replace_slot(slot, attempt=None))\n",
        )
    ],
    "20": [Change(PODS, "not (index.isascii() and index.isdigit()) or len(index) > 9", "False")],
    "22": [Change(ENDING, "is_all = spec.total() > 0 and", "is_all = False and")],
    "23": [
        Change("controller.fold.admission", "in _problems(manifest if isinstance(manifest, dict) else {}))", "in ())")
    ],
    "24": [Change(AGENDA, '    return FAILED_CREATE, f"{kind} of {slot.id}: {refusal.message}"', "    return None")],
    "26": [Change(CLEANUP, "    policy = clean_pod_policy(state, settings)\n", "    policy = CleanPodPolicy.ALL\n")],
    "33": [Change(CONDITIONS, "        entries.sort(", "        sorted(entries, ")],
    "34": [
        Change(
            CONDITIONS,
            "(before.status, before.reason, before.message) == (status, reason, message)",
            "(before.status, before.reason) == (status, reason)",
        )
    ],
    "35": [
        Change(
            "controller.act.tf_config",
            "if spec.total() <= 1:",
            "if sum(each.count for each in spec.replicas if each.type is not ReplicaType.EVALUATOR) <= 1:",
        )
    ],
    "37": [Change(CLEANUP, "return None if has_ended else Because.SUSPENDED", "return Because.SUSPENDED")],
    "38": [Change(SPEC, 'self.managed_by not in ("", OWN_MANAGER)', "self.managed_by != OWN_MANAGER")],
}
