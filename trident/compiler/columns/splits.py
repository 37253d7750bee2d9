"""Splits: one table for all streams, with a row for each tuple that the split's function sends, in that order."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

import numpy
import pyarrow as pa

from trident.base.copied_values import may_be_filled, own_value, own_values
from trident.base.errors import UserFunctionError
from trident.base.names import did_you_mean
from trident.base.stream_fields import STREAM_NUMBER, inside
from trident.compiler.columns.columns import Column, Columns, made_tuples
from trident.compiler.columns.function_errors import Where, short
from trident.compiler.columns.operation_calls import (
    Called,
    CallKernel,
    Lists,
    call_rows,
    collect_emissions,
    field_values,
    origin_of,
    repeat_rows,
    tuple_column,
)
from trident.compiler.columns.row_failures import FailedRows
from trident.operations.functions import Call, Operation
from trident.operations.tuples import tuple_type
from trident.plan.nodes import Part
from trident.plan.split_schema import own_fields

Streams = tuple[tuple[str, pa.Schema], ...]
"""The name and the fields of each stream."""

_KIND = pa.int8()


def part_of(node: Part, columns: Columns, hidden: Sequence[str]) -> Columns:
    """Return the tuples of one stream of a split, under the field names of that stream."""
    rows = [row for row, number in enumerate(columns[STREAM_NUMBER].values()) if number == node.number]
    names = {name: name for name in hidden} | own_fields(node)
    inner_names = [name for name in names if name in columns.names]
    return columns.select(inner_names).take(rows).rename([names[name] for name in inner_names])


def splitting(operation: Operation, where: Where, streams: Streams, after: frozenset[str]) -> CallKernel:
    """Return the kernel of a split. It returns the tuples of all streams, with only the fields in `after`."""
    if operation.call is Call.FUNCTION:
        call = _collected(operation, where, streams)
    else:
        call = call_rows(operation, where.inputs)
    fills = operation.call is not Call.FUNCTION and any(may_be_filled(fields) for _, fields in streams)

    def called(columns: Columns, failed: FailedRows | None) -> Called:
        lists, rows = columns.lists(where.inputs), columns.rows
        pairs = map(_as_pairs, map(own_value, call(lists, rows)) if fills else call(lists, rows))
        return Called(columns, *collect_emissions(where, pairs, lists, rows, failed, fills))

    return CallKernel(called, Splitting(where, streams, after))


def _as_pairs(result: Any) -> Iterable[Any]:
    """Return the pairs (stream, values) in a function's result for a tuple. The result may be one pair or many."""
    many = type(result) is GeneratorType or isinstance(result, list | Iterator)
    return result if many else (result,)


@dataclass(frozen=True, slots=True)
class Splitting:
    """The second part of a split's kernel: it converts the function's pairs into the tuples of all streams."""

    where: Where
    streams: Streams
    after: frozenset[str]

    def __call__(self, called: Called) -> Columns:
        assert called.ends is not None
        added = self._by_stream(called.results, called.ends, called.columns.lists_on_demand(self.where.inputs))
        rest = called.columns.only(self.after - added.keys())
        return repeat_rows(rest, called.ends).plus(
            {name: column for name, column in added.items() if name in self.after}
        )

    def _by_stream(self, pairs: list[Any], ends: list[int], lists: Lists) -> dict[str, Column]:
        """Return the stream number of each row, and the columns of all streams: null in the rows of other streams."""
        numbers = {name: stream for stream, (name, _) in enumerate(self.streams)}
        rows: list[list[int]] = [[] for _ in numbers]
        values: list[list[Any]] = [[] for _ in numbers]
        streams = numpy.zeros(len(pairs), numpy.int8)
        origin = origin_of(ends)
        for row, pair in enumerate(pairs):
            stream = numbers.get(pair[0]) if type(pair) is tuple and len(pair) == 2 and type(pair[0]) is str else None
            if stream is None:
                raise self._bad_pair(pair, lists, origin(row))
            streams[row] = stream
            rows[stream].append(row)
            values[stream].append(pair[1])
        added = {STREAM_NUMBER: Column(_KIND, pa.array(streams, _KIND), None)}
        for stream, (name, schema) in enumerate(self.streams):
            added |= self._of_stream(stream, name, schema, rows[stream], values[stream], len(pairs), lists, origin)
        return added

    def _of_stream(
        self,
        stream: int,
        name: str,
        schema: pa.Schema,
        rows: list[int],
        values: list[Any],
        total: int,
        lists: Lists,
        origin: Callable[[int], int],
    ) -> dict[str, Column]:
        where = OfStream(self.where.step, self.where.site, self.where.inputs, name)

        def row_of(position: int) -> int:
            return origin(rows[position])

        index = numpy.full(total, -1, numpy.int64)
        index[rows] = numpy.arange(len(rows))
        positions = pa.array(index, mask=index < 0)
        columns = {}
        for field, given in zip(schema, field_values(where, values, schema, lists, row_of), strict=True):
            column = tuple_column(where, given, field, lists, row_of)
            columns[inside(stream, field.name)] = Column(field.type, column.array().take(positions), None)
        return columns

    def _bad_pair(self, pair: Any, lists: Lists, row: int) -> UserFunctionError:
        names = [name for name, _ in self.streams]
        listed = ", ".join(names)
        if isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str):
            near = did_you_mean(pair[0], names)
            return self.where.gave(f"a tuple for stream {pair[0]!r}; the streams are {listed}{near}", lists, row)
        hint = f"write yield {names[0]!r}, (value, ...)"
        return self.where.gave(f"{short(pair)}; expected a stream's name and its values", lists, row, hint)


@dataclass(frozen=True, slots=True)
class OfStream(Where):
    """The call of a split's function as errors describe it, with the stream to which it sent a tuple."""

    stream: str = ""

    def gave(self, what: str, lists: Sequence[Sequence[Any]], row: int, hint: str = "") -> UserFunctionError:
        return Where.gave(self, f"stream {self.stream!r} {what}", lists, row, hint)


# --- from the function to pairs -----------------------------------------------------------------------------------


def _collected(operation: Operation, where: Where, streams: Streams) -> Callable[[Lists, int], Iterator[list[Any]]]:
    """Return a function that yields for each row the pairs that a Function sent through its collector."""
    execute, make = operation.target.execute, tuple_type(where.inputs)
    widths = {name: len(schema) for name, schema in streams}

    def sent(values: Any) -> list[Any]:
        collector = StreamsCollector(widths)
        if execute(values, collector) is not None:
            raise TypeError("execute returned a result; it must emit its tuples: write collector.emitTo(name, [...])")
        return collector.pairs

    return lambda lists, rows: map(sent, made_tuples(make, lists, rows))


class StreamsCollector:
    """A collector that keeps the tuples which a Function sends to streams for one input tuple."""

    __slots__ = ("pairs", "_widths")

    def __init__(self, widths: Mapping[str, int]) -> None:
        self.pairs: list[tuple[str, Any]] = []
        self._widths = widths

    def emitTo(self, stream: str, values: Sequence[Any]) -> None:
        """Send one tuple to a stream: a list with one value for each of the stream's fields."""
        width = self._widths.get(stream)
        if width is None:
            listed = ", ".join(self._widths)
            raise ValueError(
                f"there is no stream {stream!r}; the streams are {listed}{did_you_mean(stream, self._widths)}"
            )
        if not isinstance(values, list | tuple):
            raise TypeError(f"emitTo takes one value per field, in a list, not {short(values)}")
        if len(values) != width:
            raise ValueError(f"emitTo({stream!r}) got {len(values)} value(s), expected {width}: {short(values)}")
        self.pairs.append((stream, own_values(values)))

    def emit(self, values: Sequence[Any]) -> None:
        """Raise TypeError: a tuple needs the name of a stream, and only `emitTo` has it."""
        raise TypeError(
            f"emit(...) names no stream; with several streams write emitTo({next(iter(self._widths))!r}, [...])"
        )
