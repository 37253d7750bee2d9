"""Calls of a user's operation over columns, and checks of the results.

An operation may return a scalar (one value), a tuple (several values), None (a null) or a generator (many tuples). The
common case, where every result is a plain value of the declared type, is recognised for a whole column at once; only
other columns are checked value by value.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat, starmap
from types import GeneratorType
from typing import Any

import numpy
import pyarrow as pa
from pyarrow import types as kinds

from trident.base.accepted_values import check_nulls
from trident.base.copied_values import may_be_filled, own_value, own_values
from trident.base.generator_checks import NEVER_RUN
from trident.base.named_values import misplaced
from trident.base.user_rows import add_rows
from trident.base.value_conversion import NotAccepted, are_exact, type_name
from trident.compiler.columns.columns import (
    Column,
    Columns,
    Stretches,
    are_few,
    joined,
    made_tuples,
    stretches_without,
)
from trident.compiler.columns.function_errors import Where, reason, short, typed, why_not
from trident.compiler.columns.row_failures import FailedRows, fail_row
from trident.operations.builtin_filters import FilterNull
from trident.operations.functions import Call, Operation
from trident.operations.tuples import tuple_type

Lists = Sequence[list[Any]]
"""The input fields, each as a list of its values."""


def call_rows(
    operation: Operation, inputs: tuple[str, ...], outputs: Sequence[str] = ()
) -> Callable[[Lists, int], Iterator[Any]]:
    """Return a function that calls the operation for each row of lists, and yields the results one by one.

    If a call raises, the iterator raises too, and then continues with the next row. So the iterator is a `map`, not a
    generator, which an exception would end. `outputs` are the fields that a collector takes in one emission.
    """
    target = operation.target
    if operation.call is Call.VALUES:
        if inputs:
            return lambda lists, rows: map(target, *lists)
        return lambda lists, rows: starmap(target, repeat((), rows))
    make = tuple_type(inputs)
    if operation.call is Call.TUPLE:
        return lambda lists, rows: map(target, made_tuples(make, lists, rows))
    if operation.call is Call.FILTER:
        return lambda lists, rows: map(target.isKeep, made_tuples(make, lists, rows))
    if operation.call is Call.FUNCTION:
        execute = target.execute

        def emitted(values: Any) -> list[tuple[Any, ...]]:
            collector = ListCollector(outputs)
            if (returned := execute(values, collector)) is not None:
                raise not_emitted(returned)
            emitted, collector.emitted = collector.emitted, CLOSED  # as `close` does, without the cost of a call
            return emitted

        return lambda lists, rows: map(emitted, made_tuples(make, lists, rows))
    raise TypeError(f"{operation.site} is {operation.call.value}: it cannot run as a Python function")


class _Closed(list[tuple[Any, ...]]):
    """The list of a collector whose call has ended. It refuses further tuples."""

    def append(self, values: tuple[Any, ...]) -> None:
        raise RuntimeError(
            f"emit({short(values)}) was called on the collector of a call that has ended, so the tuple would be "
            f"lost: use the collector of the current call, and do not emit in cleanup()"
        )


CLOSED = _Closed()


class ListCollector:
    """A collector of the tuples that a function emits during one call, or during the calls for one group.

    When the calls have ended, `close` returns the tuples. A later emission is an error.
    """

    __slots__ = ("emitted", "_names", "_width")

    def __init__(self, names: Sequence[str]) -> None:
        self.emitted: list[tuple[Any, ...]] = []
        self._names, self._width = names, len(names)

    def emit(self, values: Sequence[Any], *more: Any) -> None:
        """Emit one tuple: a list with one value for each declared output field."""
        if more:
            raise TypeError(f"emit takes one list with a value for each field: write emit([{short(values)}, ...])")
        if not isinstance(values, list | tuple):
            raise TypeError(f"emit takes one value per field, in a list, not {short(values)}: write emit([...])")
        if len(values) != self._width:
            hint = "" if self._width else "; declare the emitted fields in outputFields"
            raise ValueError(f"emit got {len(values)} value(s), expected {self._width}: {short(values)}{hint}")
        if type(values) is not list and (why := misplaced(values, self._names)) is not None:
            raise ValueError(f"emit got {short(values)}: {why}")
        self.emitted.append(own_values(values))

    def close(self) -> list[tuple[Any, ...]]:
        """Return the emitted tuples, and refuse all later ones."""
        emitted, self.emitted = self.emitted, CLOSED
        return emitted


def not_emitted(returned: object) -> TypeError:
    """Return the error for an `execute` that returned a result instead of emitting it through its collector."""
    return TypeError(f"execute returned {short(returned)}; it must emit its tuples: write collector.emit([...])")


def collect_results(
    where: Where, results: Iterator[Any], lists: Lists, rows: int, failed: FailedRows | None = None
) -> list[Any]:
    """Return all results, one for each row. An exception in the user's code becomes an error that shows the tuple.

    If `failed` is given, it takes the rows on which the user's code fails; the result of such a row is None.
    """
    collected: list[Any] = []
    while len(collected) < rows:
        try:
            collected.extend(results)
            if len(collected) == rows:
                break
            raise StopIteration  # the user's code raised it, which ends the loop over the results silently
        except (Exception, SystemExit) as cause:  # a SystemExit must not end a worker or the driver's thread
            fail_row(where, cause, lists, len(collected), failed)
            collected.append(None)
    return collected


@dataclass(frozen=True, slots=True)
class Called:
    """Tuples, and the results of a function for them.

    `ends` has for each tuple the number of results up to its end; None: each tuple has one result.
    """

    columns: Columns
    results: list[Any]
    ends: list[int] | None = None

    def without(self, rows: Iterable[int]) -> "Called":
        """Return the tuples and results, except those at `rows`."""
        return self.within(stretches_without(sorted(rows), self.columns.rows))

    def within(self, stretches: Stretches) -> "Called":
        """Return the tuples in these ranges of rows, with their results."""
        columns = self.columns.within(stretches)
        if self.ends is None:
            return Called(columns, joined(self.results, stretches))
        flat: list[Any] = []
        ends: list[int] = []
        for start, stop in stretches:
            first = self.ends[start - 1] if start else 0
            moved = len(flat) - first
            flat += self.results[first : self.ends[stop - 1]]
            ends += [end + moved for end in self.ends[start:stop]]
        return Called(columns, flat, ends)


@dataclass(frozen=True, slots=True)
class CallKernel:
    """A kernel in two parts. A step that leaves out failing tuples runs the parts separately.

    `call` calls the user's function once for each tuple. If `FailedRows` are passed, the failing rows are added to
    them. `finish` checks the function's results and makes the output tuples; it calls no user code, and its error
    names the row (`UserFunctionError.row`).
    """

    call: Callable[[Columns, FailedRows | None], Called]
    finish: Callable[[Called], Columns]

    def __call__(self, columns: Columns) -> Columns:
        return self.finish(self.call(columns, None))


def _calling(operation: Operation, where: Where) -> Callable[[Columns, FailedRows | None], Called]:
    """Return `CallKernel.call` for a function of the user that returns one result for each tuple."""
    call = call_rows(operation, where.inputs)

    def called(columns: Columns, failed: FailedRows | None) -> Called:
        lists = columns.lists(where.inputs)
        return Called(columns, collect_results(where, call(lists, columns.rows), lists, columns.rows, failed))

    return called


# --- filters ------------------------------------------------------------------------------------------------------


def predicate(operation: Operation, where: Where, after: frozenset[str]) -> CallKernel:
    """Return the kernel of a filter.

    It keeps the tuples for which the predicate is true, with only the fields in `after`.
    """

    def filtered(called: Called) -> Columns:
        kept = called.results
        if not set(map(type, kept)) <= {bool}:
            lists = called.columns.lists(where.inputs)
            for row, value in enumerate(kept):
                if not isinstance(value, bool | numpy.bool_):
                    hint = "a filter returns bool; to add fields, give their names after the function"
                    raise where.gave(f"{short(value)}; a filter must return True or False", lists, row, hint)
            kept = [bool(value) for value in kept]
        return called.columns.only(after).keep(kept)

    if type(operation.target) is FilterNull:
        return CallKernel(lambda columns, failed: Called(columns, _without_null(columns, where.inputs)), filtered)
    return CallKernel(_calling(operation, where), filtered)


def _without_null(columns: Columns, names: tuple[str, ...]) -> list[bool]:
    """Return for each row whether FilterNull keeps it, without creating a tuple and calling FilterNull for each row."""
    if not names:
        return [True] * columns.rows
    return [not any(value is None for value in values) for values in zip(*columns.lists(names), strict=True)]


def action(operation: Operation, where: Where, after: frozenset[str]) -> CallKernel:
    """Return the kernel of an action. It calls the user's function for each tuple and ignores the result."""

    def ended(called: Called) -> Columns:
        if NEVER_RUN.keys() & set(map(type, called.results)):
            row = next(row for row, result in enumerate(called.results) if type(result) in NEVER_RUN)
            hint = "its body never runs: do the work in the function itself"
            raise where.gave(short(called.results[row]), called.columns.lists(where.inputs), row, hint)
        return called.columns.only(after)

    return CallKernel(_calling(operation, where), ended)


# --- functions ----------------------------------------------------------------------------------------------------


def emitter(operation: Operation, where: Where, outputs: pa.Schema, after: frozenset[str]) -> CallKernel:
    """Return the kernel of a function. It adds the emitted fields to the tuples, and keeps the fields in `after`.

    This is also the kernel of a map: the fields that a map replaces are not in `after`.
    """
    call = call_rows(operation, where.inputs, outputs.names)
    collected = operation.call is Call.FUNCTION
    many, fills = operation.many or collected, may_be_filled(outputs) and not collected
    fields, names = list(outputs), outputs.names  # read once, because each access creates new objects
    only = fields[0].type if len(fields) == 1 and not collected else None

    def called(columns: Columns, failed: FailedRows | None) -> Called:
        lists, rows = columns.lists(where.inputs), columns.rows
        made = map(own_value, call(lists, rows)) if fills else call(lists, rows)
        if many:
            return Called(columns, *collect_emissions(where, made, lists, rows, failed, fills))
        results = collect_results(where, made, lists, rows, failed)
        if any(hasattr(kind, "__next__") for kind in set(map(type, results))):
            emissions = (result if hasattr(result, "__next__") else (result,) for result in results)
            return Called(columns, *collect_emissions(where, emissions, lists, rows, failed, fills))
        return Called(columns, results)

    def emitted(called: Called) -> Columns:
        columns, ends = called.columns, called.ends
        lists = columns.lists_on_demand(where.inputs)  # only errors need them
        if only is not None and are_exact(called.results, only):  # the common case
            made = [tuple_column(where, called.results, fields[0], lists, origin_of(ends), True)]
        else:
            made = _output_columns(where, called.results, outputs, collected, lists, ends)
        added = {name: column for name, column in zip(names, made, strict=True) if name in after}
        rest = columns.only(after - added.keys())
        return (rest if ends is None else repeat_rows(rest, ends)).plus(added)

    return CallKernel(called, emitted)


def _output_columns(
    where: Where, results: list[Any], outputs: pa.Schema, collected: bool, lists: Lists, ends: list[int] | None
) -> list[Column]:
    """Return the results of a function as columns of the output fields.

    `collected` results came through a collector: they are tuples of the right width. `ends` has for each input row the
    number of results up to its end; None: each row has one result.
    """
    origin = origin_of(ends)
    if collected:
        values_by_field = [list(values) for values in zip(*results, strict=True)] or [[] for _ in outputs]
    else:
        values_by_field = field_values(where, results, outputs, lists, origin)
    pairs = zip(values_by_field, outputs, strict=True)
    return [tuple_column(where, values, field, lists, origin) for values, field in pairs]


def repeat_rows(columns: Columns, ends: list[int]) -> Columns:
    """Repeat each row as often as it has emissions. `ends` holds for each row the number of emissions up to its end."""
    if not columns.names:
        return Columns({}, ends[-1] if ends else 0)
    if not ends or are_few(ends[-1]):
        rows: list[int] = []
        for row, end in enumerate(ends):
            rows += [row] * (end - len(rows))
        return columns.take(rows)
    counts: Any = numpy.array(ends, numpy.int64)
    counts[1:] -= counts[:-1].copy()
    return columns.take(numpy.repeat(numpy.arange(len(counts)), counts).tolist())


def collect_emissions(
    where: Where,
    results: Iterator[Any],
    lists: Lists,
    rows: int,
    failed: FailedRows | None = None,
    fills: bool = False,
) -> tuple[list[Any], list[int]]:
    """Return the emissions of all results, and for each result the number of emissions up to its end.

    Only one result exists at a time, because many generators at once burden the garbage collector. If `failed` is
    given, it takes the rows on which the user's code fails; the returned emissions include those that such a row
    emitted before it failed. `fills`: a generator may fill one list again for each of its emissions.
    """
    flat: list[Any] = []
    ends: list[int] = []
    while len(ends) < rows:
        try:
            for result in results:
                kind = type(result)
                if kind is list or kind is GeneratorType:  # the common cases, without a further call
                    flat.extend(map(own_value, result) if fills and kind is GeneratorType else result)
                elif kind in _NO_EMISSIONS or not hasattr(result, "__iter__"):
                    hint = "yield every tuple, or return a list of them"
                    raise where.gave(
                        f"{short(result)}; expected a list or a generator of tuples", lists, len(ends), hint
                    )
                else:
                    add_rows(flat, result, own=fills and hasattr(result, "__next__"))
                ends.append(len(flat))
            if len(ends) == rows:
                break
            raise StopIteration  # the user's code raised it, which ends the loop over the results silently
        except (Exception, SystemExit) as cause:
            fail_row(where, cause, lists, len(ends), failed)
            ends.append(len(flat))
    return flat, ends


_NO_EMISSIONS = frozenset({str, bytes, dict})
"""Types whose values are results as a whole, although one can iterate over them."""


def origin_of(ends: list[int] | None) -> Callable[[int], int]:
    """Return a function from the number of an emission to the number of its row. Only errors need it."""
    return (lambda at: at) if ends is None else (lambda at: bisect_right(ends, at))


def field_values(
    where: Where, results: list[Any], outputs: pa.Schema, lists: Lists, origin: Callable[[int], int]
) -> list[list[Any]]:
    """Return results, each a tuple or a scalar, as one list of values for each field."""
    width = len(outputs)
    if width == 1:
        if not any(issubclass(kind, tuple | list) for kind in set(map(type, results))):
            return [results]
        return [[_single(where, result, outputs, lists, number, origin) for number, result in enumerate(results)]]
    if not results:
        return [[] for _ in outputs]
    if not all(issubclass(kind, tuple) for kind in set(map(type, results))) or set(map(len, results)) != {width}:
        at, wrong = next((at, r) for at, r in enumerate(results) if not isinstance(r, tuple) or len(r) != width)
        raise _wrong_width(where, wrong, outputs, lists, origin(at))
    if set(map(type, results)) != {tuple}:
        names = outputs.names
        for at, result in enumerate(results):
            if (why := misplaced(result, names)) is not None:
                raise where.gave(short(result), lists, origin(at), why)
    return [list(values) for values in zip(*results, strict=True)]


def _single(where: Where, result: Any, outputs: pa.Schema, lists: Lists, at: int, origin: Callable[[int], int]) -> Any:
    """Return the value of the only output field in a result."""
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
            f"{len(result)} values, {short(result)}, but {len(outputs)} are declared: ({declared})", lists, row
        )
    hint = "yield every tuple, or use flatMap" if isinstance(result, list) else "return a tuple"
    return where.gave(f"{short(result)} where {len(outputs)} values are declared: ({declared})", lists, row, hint)


def tuple_column(
    where: Where,
    values: list[Any],
    field: pa.Field,
    lists: Lists,
    origin: Callable[[int], int],
    exact: bool | None = None,
) -> Column:
    """Return the values of one output field as a column, after a check against its declared type.

    `origin` gives the row that a value came from, so that an error can show the tuple. `exact` is the result of
    `are_exact` for these values; None: it was not called yet.
    """
    try:
        check_nulls(values, field)
        return Column.made(values, field.type, exact)
    except NotAccepted as error:
        raise where.gave(_misfit(error, field), lists, origin(error.row), why_not(error)) from None


def output_column(where: Where, values: list[Any], field: pa.Field, verb: str = "gave") -> Column:
    """Return the values of one output field as a column, for results that do not belong to a single tuple.

    Raises UserFunctionError with the value if one is of another type. `tuple_column` also shows the value's tuple.
    """
    try:
        check_nulls(values, field)
        return Column.made(values, field.type)
    except NotAccepted as error:
        raise where.error(f"{verb} {_misfit(error, field)}{reason(error)}") from None


def output_table(where: Where, rows: Sequence[tuple[Any, ...]], fields: pa.Schema, verb: str = "gave") -> Columns:
    """Return tuples that user code returned as columns of these fields."""
    lists = zip(*rows, strict=True) if rows else [()] * len(fields)
    pairs = zip(fields, lists, strict=True)
    return Columns({f.name: output_column(where, list(values), f, verb) for f, values in pairs}, len(rows))


def _misfit(error: NotAccepted, field: pa.Field) -> str:
    return f"{typed(error.value)} for field {field.name!r}, which is declared as {type_name(field.type)}"
