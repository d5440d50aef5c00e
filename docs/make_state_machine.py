"""Makes STATE_MACHINE.md from the code: its constants, its tables, and what the given scenarios do.

In: controller/decide/reasons.py, controller/fold, tests/scenarios/given. Out: the page, on stdout or, with `--write`,
beside this file. A test fails when the page is stale.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

from controller.decide import reasons
from controller.fold import exit_codes, judge, waiting
from controller.fold.spec import RestartPolicy
from controller.scenario import play_file

HERE = Path(__file__).resolve().parent
GIVEN = HERE.parent / "tests" / "scenarios" / "given"
STATES = ("Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed")
RETRIED = {
    RestartPolicy.NEVER: ("failed for good", "failed for good"),
    RestartPolicy.ON_FAILURE: ("in place by the kubelet; a pod that ended Failed is replaced", "replaced"),
    RestartPolicy.ALWAYS: ("as OnFailure; the kubelet also restarts after success", "replaced"),
    RestartPolicy.EXIT_CODE: ("by the table below: replaced, or failed for good", "replaced"),
}


def constants(module: ModuleType) -> list[tuple[str, str]]:
    """(value, what is said of it) of a module's text constants, from the source."""
    found: list[tuple[str, str]] = []
    body = ast.parse(inspect.getsource(module)).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            said = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                said = " ".join(str(after.value.value).split())
            found.append((node.value.value, said))
    return [each for each in found if each[0] not in (*STATES, "Stalled")]


def moves() -> Counter[tuple[str, str]]:
    """(state, next state) → in how many of the given scenarios a job goes that way."""
    found: Counter[tuple[str, str]] = Counter()
    for file in sorted(GIVEN.glob("*.yaml")):
        seen: set[tuple[str, str]] = set()
        held: dict[str, dict[str, bool]] = {}
        state: dict[str, str] = {}
        for each in play_file(file).transitions:
            uid = each.job_uid
            now = held.setdefault(uid, {})
            now[each.type] = each.status == "True"
            order = ("Succeeded", "Failed", "Suspended", "Restarting", "Running")
            current = next((kind for kind in order if now.get(kind)), "Created")
            before = state.get(uid, "[*]")
            # Two entries that change in one write are one move: what is between them is nobody's state.
            if current != before and not (current == "Created" and _is_followed(each.status, each.reason)):
                seen.add((before, current))
                state[uid] = current
        found.update(seen)
    return found


def _is_followed(status: str, reason: str) -> bool:
    """Running or Restarting turned False since another state took over, which is the next entry."""
    return status == "False" and reason not in ("TFJobNotRunning", "PSNotRunning", "TFJobResumed")


def _verdict(code: int, rules: str) -> str:
    return "retried" if exit_codes.is_retryable(code, rules, None) else "permanent"


def page() -> str:
    lines = [
        "# The condition state machine",
        "",
        "Made by `make docs` from the code and the given scenarios. A job's state is the type of the last entry of its",
        "conditions. Succeeded and Failed are final. At most one of Running, Restarting, Succeeded, Failed is True.",
        "",
        "## States",
        "",
        "How jobs move in the given scenarios; the number says in how many.",
        "",
        "```mermaid",
        "stateDiagram-v2",
    ]
    for (before, after), count in sorted(moves().items()):
        lines.append(f"    {before} --> {after}: {count}")
    lines += ["```", "", "## Restart policies", "", "| policy | in the pod | failed with a code | disrupted |"]
    lines.append("|---|---|---|---|")
    for policy, (failed, disrupted) in RETRIED.items():
        lines.append(f"| {policy.value} | {policy.in_pod} | {failed} | {disrupted} |")
    lines += ["", "Exit codes that ExitCode retries, unless the job's annotation names others:", ""]
    lines += ["| code | meaning | v1alpha2 | v1 |", "|---|---|---|---|"]
    for code in (1, 2, 126, 127, 128, 130, 134, 137, 139, 143, 255):
        verdicts = [
            "retried" if exit_codes.is_retryable(code, each, None) else "permanent" for each in ("v1alpha2", "v1")
        ]
        lines.append(f"| {code} | {exit_codes.meaning_of(code)} | {verdicts[0]} | {verdicts[1]} |")
    lines += ["", "## Reasons", "", "| reason | when |", "|---|---|"]
    for module in (reasons, judge, waiting):
        lines += [f"| {value} | {said} |" for value, said in constants(module)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv:
        (HERE / "STATE_MACHINE.md").write_text(page())
    else:
        sys.stdout.write(page())
