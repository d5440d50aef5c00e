"""A weakness put into the code for as long as a test looks: functions whose text is changed.

In: (module, text as it stands, text in its place). Out: the running code, changed and changed back. A text that does
not stand exactly once is an error: the test would prove nothing.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple


class Change(NamedTuple):
    """One edit of one module."""

    module: str
    old: str
    new: str


@contextmanager
def mutated(changes: Sequence[Change]) -> Iterator[None]:
    """The functions of these modules run as edited, wherever they were imported to."""
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(_changed(importlib.import_module(change.module), change))
        yield


@contextmanager
def _changed(module: ModuleType, change: Change) -> Iterator[None]:
    source = inspect.getsource(module)
    assert source.count(change.old) == 1, f"{change.module}: {source.count(change.old)} times: {change.old!r}"
    edited: dict[str, Any] = {**vars(module)}
    exec(compile(source.replace(change.old, change.new), module.__file__ or "", "exec"), edited)
    before: list[tuple[FunctionType, CodeType]] = []
    for name, found in _functions(vars(module), module.__name__):
        twin = dict(_functions(edited, module.__name__)).get(name)
        if twin is not None and twin.__code__ != found.__code__:
            before.append((found, found.__code__))
            found.__code__ = twin.__code__
    assert before, f"{change.module}: nothing that runs was changed"
    try:
        yield
    finally:
        for function, code in before:
            function.__code__ = code


def _functions(names: dict[str, Any], module: str) -> Iterator[tuple[str, FunctionType]]:
    """The functions and methods that a module defines, by their qualified names."""
    for each in list(names.values()):
        if inspect.isfunction(each) and each.__module__ == module:
            yield each.__qualname__, each
        elif inspect.isclass(each) and each.__module__ == module:
            for method in vars(each).values():
                if inspect.isfunction(method):
                    yield method.__qualname__, method
