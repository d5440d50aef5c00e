"""API server → observations: what must not reach the log is taken out here, before anything else sees it.

In: decoded JSON of specs, annotations, messages. Out: the same shape without values that may be secret.
Never: an env value (its name, its reference and a keyed hash stay), a token, password or key that looks like one.

The fold reads only what is kept: container names, images, ports, replicas, policies, labels, the annotations
`tfjob.kubeflow.org/api-version` and `tfjob.kubeflow.org/retryable-exit-codes`, statuses (DESIGN §3).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

REDACTION_NUMBER = 1
"""Raised whenever what is taken out changes: specs hashed by another number are not comparable."""

REDACTED = "REDACTED"

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The whole manifest once more, env values included."""

MESSAGE_CHARACTERS = 2048
"""What is kept of one message: a kubelet's FallbackToLogsOnError message is at most 2048 bytes of log."""

_VALUED = frozenset({"env", "httpHeaders"})
"""Lists of {name, value} whose values are data, not structure."""
_COMMANDS = frozenset({"args", "command"})

_WORDS = r"(?:token|secret|passw(?:or)?d|passphrase|pwd|api[-_]?key|access[-_]?key|private[-_]?key|credential)"
_FLAG = re.compile(rf"(?i)^-{{1,2}}[\w.-]*{_WORDS}(?!\S*[-_](?:file|path|name|dir)$)[\w.-]*$")
_DENIED_KEY = re.compile(rf"(?i){_WORDS}s?$")

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S), REDACTED),
    (
        re.compile(r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token)\s+)?)[^\s\"',;]+"),
        rf"\1{REDACTED}",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+(?=\S*\d)[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {REDACTED}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), REDACTED),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), REDACTED),
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|hf_|sk-|ya29\.|AIza)[A-Za-z0-9_.-]{16,}"), REDACTED),
    (re.compile(r"(?i)(\w://[^/\s:@\"']*:)[^@\s/\"']+@"), rf"\1{REDACTED}@"),
    (re.compile(r"(?i)(\w://)[^/\s:@\"']{16,}@"), rf"\1{REDACTED}@"),
    (re.compile(r"(?i)([?&](?:sig|signature|x-amz-signature|x-goog-signature)=)[^&\s\"']+"), rf"\1{REDACTED}"),
    (re.compile(rf"(?i)([\w.-]*{_WORDS}[\w.-]*[\"']?[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s\"',;&]+)"), rf"\1{REDACTED}"),
    (
        re.compile(rf"(?i)(?<!\S)(--?[\w.-]*{_WORDS}[\w-]*(?<!-file)(?<!-path)(?<!-name)(?<!-dir)\s+)[^\s-]\S*"),
        rf"\1{REDACTED}",
    ),
)


@lru_cache(maxsize=4096)
def _is_denied(key: str) -> bool:
    return _DENIED_KEY.search(key) is not None


_HINTS = (
    "token", "secret", "passw", "passp", "pwd", "key", "credential", "authorization", "bearer", "basic", "eyj",
    "akia", "asia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "hf_", "sk-", "ya29.",
    "aiza", "://", "sig",
)  # fmt: skip
"""One of these stands, in lower case, in every text that a pattern matches: a cheap look before the regexes."""


def clean_text(text: str, hints: tuple[str, ...] = _HINTS) -> str:
    """The text with everything that looks like a secret replaced by `REDACTED`.

    `hints` may be cut down to those that stand anywhere in a larger whole which the text is part of.
    """
    lowered = text.lower()
    for hint in hints:
        if hint in lowered:
            break
    else:
        return text
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def clean_message(text: str) -> str:
    """A termination message or notice: cleaned, and cut to its last 2048 characters (the end of a log says why)."""
    text = clean_text(text)
    if len(text) <= MESSAGE_CHARACTERS:
        return text
    return "…" + text[1 - MESSAGE_CHARACTERS :]


def clean_messages(node: Any) -> Any:
    """A status with every string under a key `message` cleaned, wherever it stands."""
    if isinstance(node, dict):
        return {
            key: clean_message(value) if key == "message" and isinstance(value, str) else clean_messages(value)
            for key, value in node.items()
        }
    if isinstance(node, list):
        return [clean_messages(value) for value in node]
    return node


def clean_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Annotations without last-applied; values under a key that names a secret go, others are cleaned by pattern."""
    return {
        key: REDACTED if _is_denied(key) else clean_text(value) if isinstance(value, str) else REDACTED
        for key, value in annotations.items()
        if key != LAST_APPLIED
    }


def without_nul(node: Any) -> Any:
    """The same JSON with U+0000 replaced in every string: Postgres' jsonb cannot hold it, and a kubelet passes on
    whatever a container wrote into its termination message."""
    if isinstance(node, str):
        return node.replace("\0", "\ufffd")
    if isinstance(node, dict):
        return {key.replace("\0", "\ufffd"): without_nul(value) for key, value in node.items()}
    if isinstance(node, list):
        return [without_nul(value) for value in node]
    return node


class Redaction:
    """Takes secrets out of specs; the hashes of env values depend on this install's key."""

    def __init__(self, key: bytes) -> None:
        """`key` is from the mounted file, or random: then hashes are comparable only while this process lives."""
        self._key = hashlib.blake2b(key, digest_size=32, person=b"tfjob-env").digest()

    def value_hash(self, name: str, value: str) -> str:
        """64 bits of a keyed BLAKE2 over name and value: answers "did it change", not "what is it"."""
        text = f"{name}\0{value}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=8, key=self._key).hexdigest()

    def clean_spec(self, node: Any) -> Any:
        """A spec (of a pod, a TFJob, a service), whatever its shape: what got past admission may have any."""
        whole = msgspec.json.encode(node).decode().lower()
        return self._clean(node, tuple(hint for hint in _HINTS if hint in whole))

    def _clean(self, node: Any, hints: tuple[str, ...]) -> Any:
        if isinstance(node, dict):
            return {key: self._clean_entry(key, value, hints) for key, value in node.items()}
        if isinstance(node, list):
            return [self._clean(value, hints) for value in node]
        return clean_text(node, hints) if isinstance(node, str) else node

    def _clean_entry(self, key: str, value: Any, hints: tuple[str, ...]) -> Any:
        if isinstance(value, str):
            return REDACTED if _is_denied(key) else clean_text(value, hints)
        if key in _VALUED:
            return self._clean_valued(value)
        if key in _COMMANDS and isinstance(value, list):
            return _clean_arguments(value, hints)
        if key == "annotations" and isinstance(value, dict):
            return clean_annotations(value)
        return self._clean(value, hints)

    def _clean_valued(self, entries: Any) -> Any:
        if entries is None:
            return None
        if not isinstance(entries, list):
            return REDACTED
        return [self._clean_variable(entry) for entry in entries]

    def _clean_variable(self, entry: Any) -> Any:
        if not isinstance(entry, dict):
            return REDACTED
        name = entry.get("name")
        kept: dict[str, Any] = {"name": name if isinstance(name, str) else REDACTED}
        if isinstance(entry.get("valueFrom"), dict):
            kept["valueFrom"] = entry["valueFrom"]
        if entry.get("value") is not None:
            kept["valueHash"] = self.value_hash(kept["name"], str(entry["value"]))
        return kept


def _clean_arguments(arguments: list[Any], hints: tuple[str, ...]) -> list[Any]:
    cleaned: list[Any] = []
    is_value = False
    for argument in arguments:
        if not isinstance(argument, str):
            cleaned.append(REDACTED)
            is_value = False
            continue
        cleaned.append(REDACTED if is_value and not argument.startswith("-") else clean_text(argument, hints))
        is_value = bool(_FLAG.match(argument))
    return cleaned
