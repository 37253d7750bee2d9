"""The rows of an iterator that user code created: all of them, or an error.

Python ends a loop at a StopIteration, whichever code raised it. A generator turns the StopIteration of a function that
it calls into a RuntimeError. An iterator in C, such as ``map(function, rows)``, does not: a loop over the map treats
the failing row as the end, and silently loses the other rows. Only the traceback shows the difference. The end of an
iterator in C has no frame of Python, and the end of an iterator in Python begins with a frame of ``__next__``.

Two cases cannot be noticed: a function in C that raises StopIteration (``map(next, iterators)``), and an iterator that
catches it (``itertools.chain`` continues with the next iterator).
"""

from collections.abc import Iterable, Iterator
from types import GeneratorType, WrapperDescriptorType
from typing import Any

from trident.base.callsite import CallSite
from trident.base.copied_values import own_value

_PLAIN = frozenset({list, tuple, GeneratorType})
"""The types that never pass a StopIteration on. Their rows are taken without a step of Python for each row."""


def add_rows(collected: list[Any], rows: Iterable[Any], own: bool = False) -> None:
    """Append all rows of an iterable to a list; if `own` is true, copy rows that the iterable may reuse.

    Raises RuntimeError, as a generator does, if a function raised StopIteration before the last row.

    >>> numbers = []
    >>> add_rows(numbers, map(int, "12"))
    >>> numbers
    [1, 2]
    """
    if type(rows) in _PLAIN:
        collected.extend(map(own_value, rows) if own else rows)
        return
    iterator = iter(rows)
    step, append = map(own_value, iterator) if own else iterator, collected.append
    try:
        while True:
            append(next(step))
    except StopIteration as end:
        if end.__traceback__.tb_next is not None:  # type: ignore[union-attr]
            check_end(iterator, end)


def all_rows(rows: Iterable[Any]) -> list[Any]:
    """Return all rows of an iterable. Raises RuntimeError as `add_rows` does."""
    collected: list[Any] = []
    add_rows(collected, rows)
    return collected


def checked_rows(rows: Iterable[Any]) -> Iterator[Any]:
    """Yield all rows of an iterable, one at a time. Raises RuntimeError as `add_rows` does.

    >>> list(checked_rows(map(lambda text: next(iter(text)), ["3", "", "4"])))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    RuntimeError: <lambda> (...) raised StopIteration, which ends a map before its last row: ...
    """
    iterator = iter(rows)
    while True:
        try:
            row = next(iterator)
        except StopIteration as end:
            check_end(iterator, end)
            return
        yield row


def check_end(iterator: object, end: StopIteration) -> None:
    """Raise RuntimeError if `end`, which a call of ``next`` raised, is not the end of the iterator's rows.

    The function that called ``next`` must have caught `end`. The ``__next__`` of an iterator in Python may raise it.
    """
    first = end.__traceback__.tb_next if end.__traceback__ is not None else None
    if first is None or not isinstance(type(iterator).__next__, WrapperDescriptorType):  # type: ignore[attr-defined]
        return
    code = first.tb_frame.f_code
    if code.co_name.rpartition(".")[2] not in ("__next__", "next"):  # Cython writes the whole name
        kind, site = type(iterator).__name__, CallSite(code.co_name, code.co_filename, code.co_firstlineno)
        raise RuntimeError(
            f"{site} raised StopIteration, which ends a {kind} before its last row: catch it in the function, or write "
            f"next(iterator, None)"
        ) from end
