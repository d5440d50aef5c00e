"""Whether training-operator handles TFJobs beside this controller, by its pods and webhook entries (DESIGN §1).

In: Pods and ValidatingWebhookConfigurations as the API server lists them. Out: why not to act, or what to warn of, in
one line each. Sources: manifests of training-operator 1.9 (labels, flags, names of webhook entries).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

POD_SELECTOR = "control-plane=kubeflow-training-operator"
"""On its Deployment's pods, in every overlay."""
ENTRY_SUFFIX = ".training-operator.kubeflow.org"
"""Of its webhook entries' names. Others, as Kueue, watch over TFJobs too and are no operators."""
GUIDE = "docs/MIGRATING.md"
SHOWN = 3

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """What was found. `sees_all_pods`: the pods of all namespaces could be listed."""

    pods: Sequence[Json] = ()
    webhooks: Sequence[Json] = ()
    sees_all_pods: bool = True


def obstacle_of(seen: Seen, namespace: str | None) -> str | None:
    """Why this controller must not act on TFJobs in `namespace` (None: in all); None when nothing stands against it.

    A webhook entry counts where its operator may run unseen.
    """
    pods = [_place(pod) for pod in seen.pods if is_alive(pod) and handles_tfjobs(pod, namespace)]
    entries = tfjob_entries(seen.webhooks)
    if pods:
        what = f"training-operator handles TFJobs here (pod {_shown(pods)})"
    elif entries and not seen.sees_all_pods:
        what = f"training-operator may handle TFJobs here (webhook {_shown(entries)}; its pods cannot be listed)"
    else:
        return None
    return f"{what}: two controllers must not act on one job. Stop it first ({GUIDE}), or insist with --takeover"


def warning_of(seen: Seen) -> str | None:
    """What is in the users' way though nobody else acts: a webhook entry without an operator that answers it."""
    answering = [pod for pod in seen.pods if is_alive(pod) and _serves_tfjobs(pod)]
    entries = tfjob_entries(seen.webhooks)
    if not entries or answering:
        return None
    return f"webhook {_shown(entries)} has nobody to answer it and may refuse every TFJob: remove the entry ({GUIDE})"


def is_alive(pod: Json) -> bool:
    """It runs, or will: a pod that waits for its node is an operator in a moment, one that terminates still is one."""
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def handles_tfjobs(pod: Json, namespace: str | None) -> bool:
    """It reconciles TFJobs in a namespace that is ours too."""
    theirs = _namespace_of(pod)
    return _serves_tfjobs(pod) and (not theirs or namespace is None or theirs == namespace)


def tfjob_entries(webhooks: Sequence[Json]) -> list[str]:
    """`configuration/entry` of training-operator's entries that TFJobs pass through."""
    return [
        f"{each['metadata']['name']}/{entry['name']}"
        for each in webhooks
        for entry in each.get("webhooks") or ()
        if entry.get("name", "").endswith(ENTRY_SUFFIX) and any(map(_is_of_tfjobs, entry.get("rules") or ()))
    ]


def _is_of_tfjobs(rule: Json) -> bool:
    groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
    return bool({"kubeflow.org", "*"} & set(groups)) and bool({"tfjobs", "*", "*/*"} & set(resources))


def _serves_tfjobs(pod: Json) -> bool:
    """`--enable-scheme` names kinds, in any case, and may be repeated; without it every kind is served."""
    schemes = [value.lower() for value in _values_of(pod, "enable-scheme")]
    return not schemes or "tfjob" in schemes


def _namespace_of(pod: Json) -> str:
    """The only namespace that it looks at; empty: all."""
    by_flag = list(_values_of(pod, "namespace"))
    if by_flag:
        return by_flag[-1]
    variables = [each for container in _containers(pod) for each in container.get("env") or ()]
    return next((each.get("value", "") for each in variables if each.get("name") == "KUBEFLOW_NAMESPACE"), "")


def _values_of(pod: Json, flag: str) -> Iterator[str]:
    """`--flag=value` and `--flag value`, with one dash or two, as Go's flags are written."""
    for container in _containers(pod):
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        for word, following in zip(words, [*words[1:], ""], strict=True):
            name, is_joined, value = word.lstrip("-").partition("=")
            if word.startswith("-") and name == flag:
                yield value if is_joined else following


def _containers(pod: Json) -> Sequence[Json]:
    found: Sequence[Json] = pod.get("spec", {}).get("containers") or ()
    return found


def _place(pod: Json) -> str:
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
