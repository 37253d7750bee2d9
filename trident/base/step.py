"""Calls of verbs while they are read, and errors that name the call, its function and its line."""

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TypeVar

from trident.base.callsite import CallSite
from trident.base.errors import TopologyError

_E = TypeVar("_E", bound=TopologyError)
_PACKAGE = str(Path(__file__).parent.parent) + os.sep


def is_ours(file: str) -> bool:
    """Return whether a source file belongs to this package."""
    return file.startswith(_PACKAGE)


_within: ContextVar[tuple[tuple[str, ...], CallSite | None]] = ContextVar("trident_within", default=((), None))
"""The verbs that are being called and are made of other verbs, outermost first; and the call of the outermost one."""


@contextmanager
def within(verb: CallSite) -> Iterator[None]:
    """Mark the calls within this context as parts of a verb: labels begin with its name, errors point at its call."""
    names, outermost = _within.get()
    token = _within.set(((*names, verb.name), outermost or verb))
    try:
        yield
    finally:
        _within.reset(token)


def verb_label(verb: str) -> str:
    """Return a verb's name behind the names of the verbs that it is a part of.

    >>> with within(CallSite("top")):
    ...     verb_label("aggregate")
    'top.aggregate'
    """
    return ".".join([*_within.get()[0], verb])


def caller(verb: str) -> CallSite:
    """Return the call in the user's code: the innermost frame outside this package, or the call of the verb around."""
    _, outermost = _within.get()
    if outermost is not None:
        return CallSite(verb, outermost.file, outermost.line)
    frame, _ = _user_frame()
    return CallSite(verb, frame.f_code.co_filename, frame.f_lineno)


def user_level() -> int:
    """Return the `stacklevel` with which the caller's warning points at the user's line."""
    return _user_frame()[1]


def _user_frame() -> tuple[FrameType, int]:
    """Return the innermost frame outside this package, and its distance from the caller's caller, which counts 1."""
    frame, level = inspect.currentframe(), -1
    assert frame is not None
    while frame.f_back is not None and is_ours(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return frame, level


@dataclass(frozen=True, slots=True)
class Step:
    """A call of a verb while it is read: what an error must name.

    `label` is the label of the node to be, `called` the line of the call, `function` the function that the user passed.
    """

    label: str
    called: CallSite
    function: CallSite | None = None

    def with_function(self, function: CallSite) -> "Step":
        """Return this step with its function, whose name becomes part of the label."""
        return replace(self, label=f"{self.label}({function.name})", function=function)

    def error(self, kind: type[_E], problem: str) -> _E:
        """Return an error that names the step, the function with its file and line, and the line of the call."""
        site = self.function
        function = f"{site}, " if site is not None and site.file and not is_ours(site.file) else ""
        return kind(f"{self.label}: {problem} [{function}called at {self.called.location}]")
