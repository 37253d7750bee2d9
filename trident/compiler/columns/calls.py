"""How a user's operation is called over columns, and what may come back.

A scalar is one value, a tuple several, None a null; a generator gives many tuples. What fits the declaration in the
common way (every result a plain value of one type) is found out for a whole column at once; only other columns are
looked at value by value.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

import numpy
import pyarrow as pa
from pyarrow import types as kinds

from trident.base.errors import FailedException
from trident.base.values import NotAccepted, are_exact, type_name
from trident.compiler.columns.columns import Column
from trident.compiler.columns.failures import Where, short
from trident.operations.functions import Call, Operation
from trident.operations.tuples import tuple_type

Lists = Sequence[list[Any]]
"""The input fields, each as a list of its values."""


@dataclass(slots=True)
class Emitted:
    """What a function gave for the tuples of a column: the new fields, and how many tuples had come when each input was
    done (None: one each)."""

    columns: list[Column]
    ends: list[int] | None
    rows: int

    def origins(self) -> list[int]:
        """For each emitted tuple the row that it comes from."""
        counts: Any = numpy.diff(numpy.asarray(self.ends or (), numpy.int64), prepend=0)
        origins: list[int] = numpy.repeat(numpy.arange(len(counts)), counts).tolist()
        return origins


def calls(operation: Operation, inputs: tuple[str, ...], width: int = 0) -> Callable[[Lists, int], Iterator[Any]]:
    """A function from columns to one result a row, lazily. `width` is what a collector takes in one emission."""
    target = operation.target
    if operation.call is Call.VALUES:
        if inputs:
            return lambda lists, rows: map(target, *lists)
        return lambda lists, rows: (target() for _ in range(rows))
    tuples = tuple_type(inputs)

    def rows_of(lists: Lists, rows: int) -> Iterator[Any]:
        return map(tuples, zip(*lists, strict=True)) if inputs else (tuples(()) for _ in range(rows))

    if operation.call is Call.TUPLE:
        return lambda lists, rows: map(target, rows_of(lists, rows))
    if operation.call is Call.FILTER:
        return lambda lists, rows: map(target.isKeep, rows_of(lists, rows))
    if operation.call is Call.FUNCTION:
        execute = target.execute

        def collected(lists: Lists, rows: int) -> Iterator[list[tuple[Any, ...]]]:
            for each in rows_of(lists, rows):
                collector = ListCollector(width)
                if (returned := execute(each, collector)) is not None:
                    raise not_emitted(returned)
                yield collector.emitted

        return collected
    raise TypeError(f"{operation.site} is {operation.call.value}: it has no Python form")


class ListCollector:
    """Keeps what a function emits for one tuple."""

    __slots__ = ("emitted", "_width")

    def __init__(self, width: int) -> None:
        self.emitted: list[tuple[Any, ...]] = []
        self._width = width

    def emit(self, values: Sequence[Any], *more: Any) -> None:
        """Emit one tuple: one value for each declared output field."""
        if more:
            raise TypeError(f"emit takes one list with a value a field: write emit([{short(values)}, ...])")
        if not isinstance(values, list | tuple):
            raise TypeError(f"emit takes a list with one value a field, not {short(values)}: write emit([...])")
        if len(values) != self._width:
            hint = "" if self._width else "; name what is emitted in outputFields"
            raise ValueError(
                f"emit was given {len(values)} value(s), declared are {self._width}: {short(values)}{hint}"
            )
        self.emitted.append(tuple(values))


def not_emitted(returned: object) -> TypeError:
    """What is wrong with a method that has a collector and gives a result."""
    return TypeError(f"execute returned {short(returned)}; what it gives is emitted: write collector.emit([...])")


def gather(where: Where, results: Iterator[Any], lists: Lists, rows: int) -> list[Any]:
    """All results, one a row; an exception becomes an error that shows its tuple."""
    found: list[Any] = []
    try:
        found.extend(results)
    except FailedException:
        raise
    except (Exception, SystemExit) as cause:
        raise where.raised(cause, lists, len(found)) from cause
    if len(found) != rows:  # a StopIteration of the user's ends our loop without a sound
        raise where.raised(StopIteration(), lists, len(found))
    return found


# --- filters ------------------------------------------------------------------------------------------------------


def predicate(operation: Operation, where: Where) -> Callable[[Lists, int], list[bool]]:
    """A function from columns to what the user's predicate keeps."""
    call = calls(operation, where.inputs)

    def run(lists: Lists, rows: int) -> list[bool]:
        kept = gather(where, call(lists, rows), lists, rows)
        if set(map(type, kept)) <= {bool}:
            return kept
        for row, value in enumerate(kept):
            if not isinstance(value, bool | numpy.bool_):
                hint = "a filter returns bool; to add fields, name them after the function"
                raise where.gave(f"{short(value)} where a filter must return True or False", lists, row, hint)
        return [bool(value) for value in kept]

    return run


def action(operation: Operation, where: Where) -> Callable[[Lists, int], None]:
    """A function that shows columns to the user's action, whose results are nothing to us."""
    call = calls(operation, where.inputs)

    def run(lists: Lists, rows: int) -> None:
        gather(where, call(lists, rows), lists, rows)

    return run


# --- functions ----------------------------------------------------------------------------------------------------


def emitter(operation: Operation, where: Where, outputs: pa.Schema) -> Callable[[Lists, int], Emitted]:
    """A function from columns to what the user's function emits for them."""
    call = calls(operation, where.inputs, len(outputs))
    collected = operation.call is Call.FUNCTION
    many = operation.many or collected

    def run(lists: Lists, rows: int) -> Emitted:
        ends = None
        if many:
            results, ends = flatten(where, call(lists, rows), lists, rows)
        else:
            results = gather(where, call(lists, rows), lists, rows)
            if any(hasattr(kind, "__next__") for kind in set(map(type, results))):
                each = (result if hasattr(result, "__next__") else (result,) for result in results)
                results, ends = flatten(where, each, lists, rows)
        origin = origin_of(ends)
        if len(outputs) == 1 and not collected and are_exact(results, outputs.field(0).type):  # the common way
            return Emitted([column_of(where, results, outputs.field(0), lists, origin, True)], ends, len(results))
        if collected:
            fields = [list(values) for values in zip(*results, strict=True)] or [[] for _ in outputs]
        else:
            fields = spread(where, results, outputs, lists, origin)
        columns = [
            column_of(where, values, field, lists, origin) for values, field in zip(fields, outputs, strict=True)
        ]
        return Emitted(columns, ends, len(results))

    return run


def flatten(where: Where, results: Iterator[Any], lists: Lists, rows: int) -> tuple[list[Any], list[int]]:
    """Every emission of every result, and how many had come at the end of each. One result lives at a time: many
    generators at once are work for the garbage collector."""
    flat: list[Any] = []
    ends: list[int] = []
    try:
        for result in results:
            kind = type(result)
            if kind is not GeneratorType and (kind in _NO_EMISSIONS or not hasattr(result, "__iter__")):
                hint = "yield every tuple, or return a list of them"
                raise where.gave(f"{short(result)} where many tuples are expected", lists, len(ends), hint)
            flat.extend(result)
            ends.append(len(flat))
    except FailedException:
        raise
    except (Exception, SystemExit) as cause:
        raise where.raised(cause, lists, len(ends)) from cause
    if len(ends) != rows:  # a StopIteration of the user's ends our loop without a sound
        raise where.raised(StopIteration(), lists, len(ends))
    return flat, ends


_NO_EMISSIONS = frozenset({str, bytes, dict})
"""One can iterate over them, but nobody means it."""


def origin_of(ends: list[int] | None) -> Callable[[int], int]:
    """From the place of an emission to the row that it comes from; only errors ask."""
    return (lambda at: at) if ends is None else (lambda at: bisect_right(ends, at))


def spread(
    where: Where, results: list[Any], outputs: pa.Schema, lists: Lists, origin: Callable[[int], int]
) -> list[list[Any]]:
    """Results, a tuple or a scalar each, as one list a field."""
    width = len(outputs)
    if width == 1:
        unusual = {kind for kind in set(map(type, results)) if issubclass(kind, tuple | list)}
        if not unusual:
            return [results]
        return [[_single(where, result, outputs, lists, at, origin) for at, result in enumerate(results)]]
    if not results:
        return [[] for _ in outputs]
    if not all(issubclass(kind, tuple) for kind in set(map(type, results))) or set(map(len, results)) != {width}:
        at, wrong = next((at, r) for at, r in enumerate(results) if not isinstance(r, tuple) or len(r) != width)
        raise _wrong_width(where, wrong, outputs, lists, origin(at))
    return [list(values) for values in zip(*results, strict=True)]


def _single(where: Where, result: Any, outputs: pa.Schema, lists: Lists, at: int, origin: Callable[[int], int]) -> Any:
    """The one value of a result for one field."""
    kind = outputs.field(0).type
    if isinstance(result, tuple):
        if len(result) == 1:
            return result[0]
        if kinds.is_struct(kind):
            return result
        raise _wrong_width(where, result, outputs, lists, origin(at))
    if isinstance(result, list) and not kinds.is_list(kind):
        raise where.gave(f"a list, {short(result)}", lists, origin(at), "yield every tuple, or use flatMap")
    return result


def _wrong_width(where: Where, result: Any, outputs: pa.Schema, lists: Lists, row: int) -> Exception:
    declared = ", ".join(f"{field.name} {type_name(field.type)}" for field in outputs)
    if isinstance(result, tuple):
        return where.gave(
            f"{len(result)} values, {short(result)}, declared are {len(outputs)}: ({declared})", lists, row
        )
    hint = "yield every tuple, or use flatMap" if isinstance(result, list) else "return a tuple"
    return where.gave(f"{short(result)} where {len(outputs)} values are declared: ({declared})", lists, row, hint)


def column_of(
    where: Where,
    values: list[Any],
    field: pa.Field,
    lists: Lists,
    origin: Callable[[int], int],
    exact: bool | None = None,
) -> Column:
    """The values of one output field, checked against its declared type; `exact` where `are_exact` was asked."""
    try:
        return Column.made(values, field.type, exact)
    except NotAccepted as error:
        raise where.gave(misfit(error, field), lists, origin(error.row), error.why) from None


def misfit(error: NotAccepted, field: pa.Field) -> str:
    """What came for a field that does not take it."""
    came = f"{short(error.value)} ({type(error.value).__name__})"
    return f"{came} for field {field.name!r}, declared {type_name(field.type)}"
