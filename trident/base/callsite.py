"""Source locations of users' functions and calls, for errors that point at them."""

import functools
import inspect
import os
import threading
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

from trident.base.notebook import cell_name, is_cell

_parsing = threading.Lock()
"""Held while Python parses a source, because two threads that parse at the same time hit a bug of CPython 3.11
(SystemError)."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """A function or a call of a verb: its name, file and line. `file` is "" if Python does not know it (a builtin).

    >>> str(CallSite("split", "/home/me/words.py", 12))
    'split (words.py:12)'
    """

    name: str
    file: str = ""
    line: int = 0
    cell: str = field(init=False, default="", repr=False, compare=False)
    """The name of the notebook cell; "" for a file. It is set when the site is created, because workers do not know the
    cells."""

    def __post_init__(self) -> None:
        if is_cell(self.file):
            object.__setattr__(self, "cell", cell_name(self.file))

    @property
    def location(self) -> str:
        """The file's name and the line; for a notebook cell, its name, such as ``In[3] line 2``."""
        if self.cell:
            return f"{self.cell} line {self.line}"
        return f"{os.path.basename(self.file)}:{self.line}"

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
    if inspect.isroutine(target):
        return CallSite(target.__qualname__.rpartition("<locals>.")[2])
    owner = target if isinstance(target, type) else type(target)
    with _parsing:
        known, site = _classes.get(id(owner), (None, None))
        if site is None or known is None or known() is not owner:
            site = _parsed(owner)
            _classes[id(owner)] = ref(owner), site
        return site


def _parsed(owner: type) -> CallSite:
    """Return the source location of a class. Python parses the whole file for it."""
    name = owner.__qualname__.rpartition("<locals>.")[2]
    try:
        return CallSite(name, inspect.getsourcefile(owner) or "", inspect.findsource(owner)[1] + 1)
    except (TypeError, OSError):
        return CallSite(name)


_classes = dict[int, tuple[ref[type], CallSite]]()
"""The sites that were found before, by the id of the class: a class may have no hash."""


def _after_fork() -> None:
    """Replace the lock in a forked child, because a thread of the parent may have held it at the fork."""
    global _parsing
    _parsing = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
