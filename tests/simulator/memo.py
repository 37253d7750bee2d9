"""What is computed once for all schedules: functions of nothing but their arguments, which come again and again."""

from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow.types import is_nested as nested

_T = TypeVar("_T")

MOST = 20_000
"""Results that a function remembers."""

_contents: dict[int, tuple[Any, int]] = {}
"""Arrays and tables that are kept, by identity, and the number of what they hold: most come back as the same object."""

_numbers: dict[Any, int] = {}
"""What arrays and tables hold, and its number: quicker to look up by. No number is given twice."""
_next_number = count().__next__


_of_programs: list[Callable[[], None]] = []
"""Functions that forget the results of programs, each those of one cached function."""


def of_programs(work: Callable[..., _T]) -> Callable[..., _T]:
    """The same function, that computes once what it is asked about programs; see `forget_programs`."""
    computing = cache(work)
    _of_programs.append(computing.cache_clear)
    return computing


def forget_programs() -> None:
    """Forget what was computed of programs. Chance makes other ones again and again, and nobody needs the former ones.

    All at once: results that are found by the identity of a part of a program are wrong when the program has gone.
    """
    for forget in _of_programs:
        forget()


def remembered(work: Callable[..., _T], key: Callable[..., Any], programs: bool = False) -> Callable[..., _T]:
    """The same function, that computes what it is asked again and again but once. What it gives is never changed.
    `programs`: until `forget_programs`."""
    known: dict[Any, _T] = {}
    if programs:
        _of_programs.append(known.clear)

    def remembering(*args: Any) -> _T:
        asked = key(*args)
        found = known.get(asked)
        if found is None:
            if len(known) > MOST:
                known.clear()
            found = known[asked] = work(*args)
        return found

    return remembering


def kept(thing: _T) -> _T:
    """An array or table that will come again as this very object: its content is looked at once."""
    if len(_contents) > 2 * MOST:
        _contents.clear()
    _contents[id(thing)] = thing, _number(thing)
    return thing


def content(thing: Any) -> int:
    """What an array or a table holds, as a key: the same for all that hold the same."""
    found = _contents.get(id(thing))
    return _number(thing) if found is None else found[1]


def _number(thing: Any) -> int:
    held = _content(thing)
    number = _numbers.get(held)
    if number is None:
        if len(_numbers) > 2 * MOST:
            _numbers.clear()
        number = _numbers[held] = _next_number()
    return number


def _content(thing: Any) -> Any:
    if isinstance(thing, pa.Table):
        names, types = tuple(thing.column_names), tuple(map(str, thing.schema.types))
        return names, types, thing.num_rows, tuple(map(_values, thing.columns))
    return str(thing.type), _values(thing)


def _values(column: Any) -> Any:
    """The values of a column, which can be hashed; those of lists and structs as text."""
    values = column.to_pylist()
    return tuple(map(repr, values)) if nested(column.type) else tuple(values)
