"""The call of a verb while it is processed, and errors that name the call, the user's function and the line."""

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TypedDict, TypeVar

from pyspark.sql.types import StructType

from trident.base.callsite import CallSite
from trident.base.errors import TopologyError

_E = TypeVar("_E", bound=TopologyError)
_PACKAGE = str(Path(__file__).parent.parent) + os.sep


def is_ours(file: str) -> bool:
    """Return whether a source file belongs to this package."""
    return file.startswith(_PACKAGE)


_within: ContextVar[tuple[tuple[str, ...], CallSite | None]] = ContextVar("trident_within", default=((), None))
"""The verbs in progress that consist of other verbs, outermost first, and the call of the outermost one."""


@contextmanager
def within(verb: CallSite) -> Iterator[None]:
    """Mark the verbs called in this block as parts of `verb`.

    Their labels begin with the name of `verb`, and their errors point to its call.
    """
    names, outermost = _within.get()
    token = _within.set(((*names, verb.name), outermost or verb))
    try:
        yield
    finally:
        _within.reset(token)


def verb_label(verb: str) -> str:
    """Return a verb's name, preceded by the names of the verbs that it is a part of.

    >>> with within(CallSite("top")):
    ...     verb_label("aggregate")
    'top.aggregate'
    """
    return ".".join([*_within.get()[0], verb])


def caller(verb: str) -> CallSite:
    """Return the line at which the user's code called `verb`, or the outermost verb that `verb` is a part of."""
    _, outermost = _within.get()
    if outermost is not None:
        return CallSite(verb, outermost.file, outermost.line)
    frame, _ = _user_frame()
    return CallSite(verb, frame.f_code.co_filename, frame.f_lineno)


def user_level() -> int:
    """Return the `stacklevel` with which a warning from the calling function points at the user's line."""
    return _user_frame()[1]


def _user_frame() -> tuple[FrameType, int]:
    """Return the innermost frame outside this package, and its stack level. The caller of the caller has level 1."""
    frame, level = inspect.currentframe(), -1
    assert frame is not None
    while frame.f_back is not None and is_ours(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return frame, level


class NodeArguments(TypedDict):
    """The keyword arguments of every node of a plan (`trident.plan.nodes.Node`)."""

    step: str
    site: CallSite
    schema: StructType


@dataclass(frozen=True, slots=True)
class Step:
    """The call of a verb, as errors describe it.

    `label` is the label of the node that the call makes, `called` the line of the call, `function` the function that
    the user passed.
    """

    label: str
    called: CallSite
    function: CallSite | None = None

    def with_function(self, function: CallSite) -> "Step":
        """Return this step with the user's function, and with the function's name in the label."""
        return replace(self, label=f"{self.label}({function.name})", function=function)

    def gives(self, schema: StructType, part: str = "") -> NodeArguments:
        """Return the keyword arguments that each node needs, for a node that this call creates.

        `schema`: the node's fields. `part`: the end of its label.
        """
        return {"step": f"{self.label}{part}", "site": self.called, "schema": schema}

    def error(self, kind: type[_E], problem: str) -> _E:
        """Return an error that names the step, the function with its file and line, and the line of the call."""
        site = self.function
        function = f"{site}, " if site is not None and site.file and not is_ours(site.file) else ""
        error = kind(f"{self.label}: {problem} [{function}called at {self.called.location}]")
        error.step = self.label
        return error

    def wrong(self, problem: str) -> TopologyError:
        """Return the error for a wrong call: a TopologyError that names the step, as `error` does."""
        return self.error(TopologyError, problem)
