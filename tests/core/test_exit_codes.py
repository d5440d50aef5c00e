"""Exit codes: the table of RULES §3 for both policy sets, the annotation, the meanings."""

from __future__ import annotations

import pytest

from controller.fold.exit_codes import is_retryable, meaning_of, ranges_of


@pytest.mark.parametrize("code", [*range(1, 130), 137, 139, 143, 254, 255])
def test_the_table(code: int) -> None:
    assert is_retryable(code, "v1alpha2", None) == (code == 1)
    assert is_retryable(code, "v1", None) == (code >= 128)


def test_the_annotation_replaces_the_table() -> None:
    own = ranges_of("1, 130,137-143")
    assert [code for code in range(256) if is_retryable(code, "v1", own)] == [1, 130, *range(137, 144)]


@pytest.mark.parametrize("text", ["", "a", "1,,2", "1-b", "-1", "1;2"])
def test_an_annotation_that_cannot_be_read(text: str) -> None:
    assert ranges_of(text) is None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "success"), (1, "general error"), (2, "misuse of a shell command"), (126, "command not executable"),
        (127, "command not found"), (128, "invalid exit argument"), (130, "killed by signal 2, SIGINT"),
        (134, "killed by signal 6, SIGABRT"), (137, "killed by signal 9, SIGKILL"),
        (139, "killed by signal 11, SIGSEGV"), (143, "killed by signal 15, SIGTERM"), (255, "exit status out of range"),
        (3, ""), (200, ""),
    ],
)  # fmt: skip
def test_the_meaning(code: int, words: str) -> None:
    assert meaning_of(code) == words
