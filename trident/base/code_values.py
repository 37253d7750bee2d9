"""The plain values and the functions that the code of a user's function reads from elsewhere.

They are the values of its closure, of the constants of its module and of its defaults, and the code of functions that
it calls. Attributes of objects, lists, dicts and functions of installed packages do not count: a program changes
objects, lists and dicts while it runs, and the code of installed packages is not part of the program.
"""

import decimal
import dis
import sysconfig
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

_PLAIN = (type(None), bool, int, float, str, bytes, decimal.Decimal)
_INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def values_read(function: FunctionType, instructions: Callable[[CodeType], Any]) -> list[Any]:
    """Return what a function reads, as text, in the order of its code; `instructions` returns those of code.

    >>> least, program = 3, {"__name__": "program", "MOST": 7}
    >>> values_read(eval("lambda n, by=2: n < MOST", program), lambda code: [])
    ['2', '7']
    """
    return list(_read(function, instructions, {id(function)}))


def _read(function: FunctionType, instructions: Callable[[CodeType], Any], met: set[int]) -> Iterator[Any]:
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for value in [*defaults, *_named(function.__code__, _closure(function), function.__globals__)]:
        if _is_plain(value):
            yield _text(value)
        elif isinstance(value, FunctionType) and id(value) not in met and not _is_installed(value):
            met.add(id(value))
            yield instructions(value.__code__)
            yield from _read(value, instructions, met)


def _closure(function: FunctionType) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    known = {}
    for name, cell in cells:
        try:
            known[name] = cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    return known


def _named(code: CodeType, closure: dict[str, Any], module: dict[str, Any]) -> Iterator[Any]:
    """Yield the values of the names from elsewhere, in the order of the code, each once; nested functions included."""
    told = set[str]()
    for name in _names(code):
        place = closure if name in closure else module
        if name in place and name not in told:
            told.add(name)
            yield place[name]


def _names(code: CodeType) -> Iterator[str]:
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"):
            yield each.argval
        elif each.opcode in dis.hasconst and isinstance(each.argval, CodeType):
            yield from _names(each.argval)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | frozenset):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)


def _text(value: Any) -> str:
    # The order of a frozenset differs between processes.
    return repr(sorted(map(_text, value))) if isinstance(value, frozenset) else repr(value)


def _is_installed(function: FunctionType) -> bool:
    return function.__code__.co_filename.startswith(_INSTALLED)
