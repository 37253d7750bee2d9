"""What a split's function sends to its streams, as columns: the tuples of all streams in the order they were sent."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

import numpy
import pyarrow as pa

from trident.base.errors import UserFunctionError
from trident.base.names import did_you_mean
from trident.compiler.columns.calls import Emitted, Lists, column_of, flatten, origin_of, spread
from trident.compiler.columns.calls import calls as called
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.columns.failures import Where, short
from trident.operations.functions import Call, Operation
from trident.operations.tuples import tuple_type
from trident.plan.nodes import Part
from trident.plan.split_schema import PLACE, inside, own_fields

Streams = tuple[tuple[str, pa.Schema], ...]
"""The name and the fields of each stream."""

_KIND = pa.int8()


def part_of(node: Part, columns: Columns, hidden: Sequence[str]) -> Columns:
    """The tuples of one stream under its own names."""
    rows = [row for row, place in enumerate(columns[PLACE].values()) if place == node.place]
    names = {name: name for name in hidden} | own_fields(node)
    there = [name for name in names if name in columns.names]
    return columns.select(there).take(rows).rename([names[name] for name in there])


def splitting(operation: Operation, where: Where, streams: Streams, after: Collection[str]) -> "Splitting":
    """The kernel of a split, whose result holds only the fields in `after`."""
    return Splitting(_pairs(operation, where, streams), where, streams, after)


@dataclass(frozen=True, slots=True)
class Splitting:
    """Tuples in, the tuples of all streams out."""

    pairs: Callable[[Lists, int], tuple[list[Any], list[int]]]
    where: Where
    streams: Streams
    after: Collection[str]

    def __call__(self, columns: Columns) -> Columns:
        lists = columns.lists(self.where.inputs)
        pairs, ends = self.pairs(lists, columns.rows)
        made = self._sorted(pairs, ends, lists)
        kept = columns.select(name for name in columns.names if name in self.after and name not in made)
        found = Emitted([], ends, len(pairs))
        left = kept.take(found.origins()) if kept.names else Columns({}, len(pairs))
        return left.plus({name: column for name, column in made.items() if name in self.after})

    def _sorted(self, pairs: list[Any], ends: list[int], lists: Lists) -> dict[str, Column]:
        """The columns of all streams, null in the rows of the others."""
        names = {name: place for place, (name, _) in enumerate(self.streams)}
        rows: list[list[int]] = [[] for _ in names]
        values: list[list[Any]] = [[] for _ in names]
        places = numpy.zeros(len(pairs), numpy.int8)
        origin = origin_of(ends)
        for row, pair in enumerate(pairs):
            place = names.get(pair[0]) if type(pair) is tuple and len(pair) == 2 and type(pair[0]) is str else None
            if place is None:
                raise self._no_pair(pair, names, lists, origin(row))
            places[row] = place
            rows[place].append(row)
            values[place].append(pair[1])
        made = {PLACE: Column(_KIND, pa.array(places, _KIND), None)}
        for place, (name, schema) in enumerate(self.streams):
            made |= self._of_stream(place, name, schema, rows[place], values[place], len(pairs), lists, origin)
        return made

    def _of_stream(
        self,
        place: int,
        name: str,
        schema: pa.Schema,
        rows: list[int],
        values: list[Any],
        total: int,
        lists: Lists,
        origin: Callable[[int], int],
    ) -> dict[str, Column]:
        where = OfStream(self.where.step, self.where.site, self.where.inputs, name)

        def come_from(at: int) -> int:
            return origin(rows[at])

        index = numpy.full(total, -1, numpy.int64)
        index[rows] = numpy.arange(len(rows))
        spots = pa.array(index, mask=index < 0)
        found = {}
        for field, own in zip(schema, spread(where, values, schema, lists, come_from), strict=True):
            column = column_of(where, own, field, lists, come_from)
            found[inside(place, field.name)] = Column(field.type, column.array().take(spots), None)
        return found

    def _no_pair(self, pair: Any, names: Mapping[str, int], lists: Lists, row: int) -> UserFunctionError:
        listed = ", ".join(names)
        if isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str):
            near = did_you_mean(pair[0], names)
            return self.where.gave(f"a tuple for stream {pair[0]!r}; the streams are {listed}{near}", lists, row)
        hint = f"write yield {next(iter(names))!r}, (value, ...)"
        return self.where.gave(f"{short(pair)} where a stream's name and its values belong", lists, row, hint)


@dataclass(frozen=True, slots=True)
class OfStream(Where):
    """The same, of what was sent to one stream."""

    stream: str = ""

    def gave(self, what: str, lists: Sequence[Sequence[Any]], row: int, hint: str = "") -> UserFunctionError:
        return Where.gave(self, f"stream {self.stream!r} {what}", lists, row, hint)


# --- from the function to pairs -----------------------------------------------------------------------------------


def _pairs(operation: Operation, where: Where, streams: Streams) -> Callable[[Lists, int], tuple[list[Any], list[int]]]:
    """A function from columns to all pairs that are sent, and how many there were at the end of each input row."""
    if operation.call is Call.FUNCTION:
        results: Callable[[Lists, int], Iterator[Any]] = _collected(operation, where, streams)
    else:
        results = called(operation, where.inputs)

    def sent(lists: Lists, rows: int) -> Iterator[Iterable[Any]]:
        for row, result in enumerate(results(lists, rows)):
            if type(result) is tuple:
                yield (result,)
            elif type(result) is GeneratorType or isinstance(result, list | Iterator):
                yield result
            else:
                hint = "return a pair ('stream', values), or yield any number of them"
                raise where.gave(f"{short(result)} where streams are named", lists, row, hint)

    return lambda lists, rows: flatten(where, sent(lists, rows), lists, rows)


def _collected(operation: Operation, where: Where, streams: Streams) -> Callable[[Lists, int], Iterator[list[Any]]]:
    """What a Function sends through its collector."""
    execute, tuples = operation.target.execute, tuple_type(where.inputs)
    widths = {name: len(schema) for name, schema in streams}

    def run(lists: Lists, rows: int) -> Iterator[list[Any]]:
        each = map(tuples, zip(*lists, strict=True)) if where.inputs else (tuples(()) for _ in range(rows))
        for given in each:
            collector = StreamsCollector(widths)
            if execute(given, collector) is not None:
                raise TypeError(
                    "execute returned something; what it gives is emitted: write collector.emitTo(name, [...])"
                )
            yield collector.pairs

    return run


class StreamsCollector:
    """Keeps what a Function sends to streams for one tuple."""

    __slots__ = ("pairs", "_widths")

    def __init__(self, widths: Mapping[str, int]) -> None:
        self.pairs: list[tuple[str, Any]] = []
        self._widths = widths

    def emitTo(self, stream: str, values: Sequence[Any]) -> None:
        """Send one tuple to a stream: one value for each of its fields."""
        width = self._widths.get(stream)
        if width is None:
            listed = ", ".join(self._widths)
            raise ValueError(
                f"there is no stream {stream!r}; the streams are {listed}{did_you_mean(stream, self._widths)}"
            )
        if not isinstance(values, list | tuple):
            raise TypeError(f"emitTo takes a list with one value a field, not {short(values)}")
        if len(values) != width:
            raise ValueError(
                f"emitTo({stream!r}) was given {len(values)} value(s), declared are {width}: {short(values)}"
            )
        self.pairs.append((stream, tuple(values)))

    def emit(self, values: Sequence[Any]) -> None:
        """Refused: a split has no stream without a name."""
        raise TypeError(f"emit names no stream: write emitTo({next(iter(self._widths))!r}, [...])")
