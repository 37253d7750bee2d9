"""Source locations of users' functions and calls, for errors that point at them."""

import functools
import inspect
import os
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CallSite:
    """A function or a call of a verb: its name, file and line. `file` is "" where Python does not know it (a builtin).

    >>> str(CallSite("split", "/home/me/words.py", 12))
    'split (words.py:12)'
    """

    name: str
    file: str = ""
    line: int = 0

    @property
    def location(self) -> str:
        """The file's name and the line. In a notebook, only the line in the cell: the cell's file is temporary."""
        folder, file = os.path.split(self.file)
        in_cell = os.path.basename(folder).startswith("ipykernel_") or file.startswith("<ipython-input")
        return f"cell line {self.line}" if in_cell else f"{file}:{self.line}"

    def __str__(self) -> str:
        return f"{self.name} ({self.location})" if self.file else self.name


def site_of(target: Any) -> CallSite:
    """Return the source location of a function, a method, a class, or an instance of a class.

    >>> site_of(len)
    CallSite(name='len', file='', line=0)
    """
    while isinstance(target, functools.partial):
        target = target.func
    target = inspect.unwrap(target) if callable(target) else target
    code = getattr(target, "__code__", None)
    if code is not None:
        name = getattr(target, "__qualname__", code.co_name).rpartition("<locals>.")[2]
        return CallSite(name, code.co_filename, code.co_firstlineno)
    owner = target if isinstance(target, type) or inspect.isroutine(target) else type(target)
    name = owner.__qualname__.rpartition("<locals>.")[2]
    try:
        file = inspect.getsourcefile(owner)
        line = inspect.getsourcelines(owner)[1]
    except (TypeError, OSError):
        return CallSite(name)
    return CallSite(name, file or "", line)
