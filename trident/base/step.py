"""The step that an error is about: its label, the user's function and the line that made the call."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from trident.base.callsite import CallSite
from trident.base.errors import TopologyError

_E = TypeVar("_E", bound=TopologyError)
_PACKAGE = str(Path(__file__).parent.parent) + os.sep


def is_ours(file: str) -> bool:
    """Whether a file is part of this package."""
    return file.startswith(_PACKAGE)


_within: ContextVar[tuple[tuple[str, ...], CallSite | None]] = ContextVar("trident_within", default=((), None))
"""The verbs that are made of verbs and are being called, outermost first, and where the outermost was."""


@contextmanager
def within(verb: CallSite) -> Iterator[None]:
    """Whatever is called in here is part of this verb: its name leads, and the line that called it is the place."""
    names, place = _within.get()
    token = _within.set(((*names, verb.name), place or verb))
    try:
        yield
    finally:
        _within.reset(token)


def verb_label(verb: str) -> str:
    """A verb's name, behind those of the verbs that it is a part of.

    >>> with within(CallSite("top")):
    ...     verb_label("aggregate")
    'top.aggregate'
    """
    return ".".join([*_within.get()[0], verb])


def caller(verb: str) -> CallSite:
    """Where the user's code called us: the innermost frame outside this package, or the call of the verb around."""
    _, place = _within.get()
    if place is not None:
        return CallSite(verb, place.file, place.line)
    frame = sys._getframe(1)
    while frame.f_back is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return CallSite(verb, frame.f_code.co_filename, frame.f_lineno)


def user_level() -> int:
    """The `stacklevel` with which the caller's warning points at the user's line: the first frame outside of this
    package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and is_ours(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level


@dataclass(frozen=True, slots=True)
class Step:
    """A call of a verb while it is read: enough to say in an error what it is about.

    `label` is what the node will be called; `called` where the verb stands; `function` what the user gave it.
    """

    label: str
    called: CallSite
    function: CallSite | None = None

    def with_function(self, function: CallSite) -> "Step":
        """The same step, once its operation is known: the label carries the function's name."""
        return replace(self, label=f"{self.label}({function.name})", function=function)

    def error(self, kind: type[_E], what: str) -> _E:
        """An error that names the step, the function with its file and line, and the line of the call."""
        places = [str(site) for site in (self.function,) if site is not None and site.file and not is_ours(site.file)]
        return kind(f"{self.label}: {what} [{', '.join([*places, f'called at {self.called.place}'])}]")
