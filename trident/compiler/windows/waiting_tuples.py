"""The tuples of two streams that wait in the state of a join by time, and the pairs of tuples with equal keys.

The state holds the tuples by stream, bucket of time, key and batch: a batch writes its own tuples and rewrites nothing.
Pairs are found on whole columns, by one binary search over sorted times.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.spark_types import arrow_schema
from trident.base.value_conversion import conform
from trident.compiler.states.overlay import Stored
from trident.compiler.states.shapes import nullable, shape_of
from trident.compiler.states.update_types import Clock, WindowBatch
from trident.compiler.windows.open_windows import OpenWindows, removals
from trident.compiler.windows.time_windows import clock_of, latest_of, on_time
from trident.compiler.windows.tuple_lists import Ids, flattened, microseconds
from trident.plan.joins import Origin, origins
from trident.plan.nodes import TimeJoin
from trident_state.binary_arrays import one_chunk
from trident_state.keys import encode_keys

LEFT, RIGHT = 0, 1


@dataclass(frozen=True, slots=True)
class Rows:
    """The tuples of one stream that are to be paired: the time of each (microseconds) and the number of its key."""

    times: Ids
    numbers: Ids


def pairs(left: Rows, right: Rows, lower: int, upper: int) -> tuple[Ids, Ids]:
    """Return the rows of all pairs: with equal keys, and a right time from `lower` to `upper` after the left time.

    The pairs come in the order of the left rows; those of one left row in the order of the right times.
    """
    moments = np.unique(right.times)
    span = len(moments) + 1
    places = right.numbers * span + np.searchsorted(moments, right.times)
    order = np.argsort(places, kind="stable")
    places = places[order]
    first = np.searchsorted(places, left.numbers * span + np.searchsorted(moments, left.times + lower, "left"))
    last = np.searchsorted(places, left.numbers * span + np.searchsorted(moments, left.times + upper, "right"))
    counts = last - first
    rows = np.repeat(np.arange(len(counts)), counts)
    steps = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows, order[np.repeat(first, counts) + steps]


class SideTables:
    """One stream of a join: its key fields, its times, and the form in which the state holds its tuples."""

    def __init__(self, node: TimeJoin, number: int) -> None:
        side = node.joining.sides[number]
        self._number, self._config, self.keys = number, side.config, list(side.keys)
        self.schema = nullable(arrow_schema(node.sources[number].schema))
        self._value = shape_of(node).value

    def on_time(self, table: pa.Table, before: int) -> pa.Table:
        """Return the tuples that are not late. `before` is the watermark of the join before the batch."""
        tuples = conform(table.select(self.schema.names), self.schema)
        return tuples.filter(on_time(self._config, tuples.column(self._config.timestampField), before))

    def times(self, tuples: pa.Table) -> Ids:
        """Return the times of tuples, in microseconds since 1970."""
        return microseconds(tuples.column(self._config.timestampField))

    def packed(self, tuples: pa.Table, order: Ids, ends: Ids) -> pa.Array:
        """Return the tuples, in this order, as lists in values of the state. The lists begin and end at the `ends`."""
        kind, other = self._value.field(self._number).type, self._value.field(1 - self._number).type
        arrays = [one_chunk(column) for column in tuples.take(pa.array(order)).columns]
        structs = pa.StructArray.from_arrays(arrays, fields=list(kind.value_type))
        lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs, type=kind)
        none = pa.nulls(len(lists), other)
        both = [lists, none] if self._number == LEFT else [none, lists]
        return pa.StructArray.from_arrays(both, fields=list(self._value))

    def unpacked(self, values: pa.Array) -> pa.Table:
        """Return the tuples in values of the state."""
        structs, _ = flattened(values.field(self._number))
        return pa.Table.from_arrays(structs.flatten(), schema=self.schema)


class WaitingTuples:
    """The state of one join by time, with an index of the entries of each stream."""

    def __init__(self, node: TimeJoin, bucket: int) -> None:
        shape = shape_of(node)
        self.bucket, self.sides = bucket, tuple(SideTables(node, number) for number in (LEFT, RIGHT))
        self._keys = shape.keys
        self._puts = shape.keys.append(pa.field(node.schema.names[-1], shape.value))
        indexed = pa.schema(list(shape.keys)[1:])
        self.held = (OpenWindows(indexed), OpenWindows(indexed))

    @property
    def key_names(self) -> list[str]:
        """The names of the join's keys in the state."""
        return list(self._keys.names[2:-1])

    def begin(self, txid: int, stored: Stored) -> None:
        """Make the indexes describe the state before batch `txid`."""
        for number, held in enumerate(self.held):
            held.begin(txid, _OfSide(stored, number))

    def end(self, txid: int, puts: Sequence[pa.Table]) -> None:
        """Add the entries of batch `txid` to the indexes: `puts` are those of each stream."""
        for held, entered in zip(self.held, puts, strict=True):
            held.add(entered.select(self._keys.names[1:]))
            held.end(txid)

    def read(self, number: int, keys: pa.Table, stored: Stored) -> pa.Table:
        """Return the tuples in entries of the state. `keys` are as in the index, without the number of the stream."""
        if not keys.num_rows:
            return self.sides[number].schema.empty_table()
        return self.sides[number].unpacked(stored.read(self._with_side(number, keys)))

    def entered(self, number: int, new: pa.Table, starts: Ids, txid: int) -> pa.Table:
        """Return the entries for a batch's tuples of stream `number`. `starts` are those of their buckets."""
        side = self.sides[number]
        numbers = (
            pc.dictionary_encode(one_chunk(encode_keys(new.select(side.keys)))).indices.to_numpy().astype(np.int64)
        )
        moments, ranks = np.unique(starts, return_inverse=True)
        _, places = np.unique(numbers * (len(moments) + 1) + ranks, return_inverse=True)
        order = np.argsort(places, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(places))]).astype(np.int64)
        first = order[ends[:-1]]
        keys = new.select(side.keys).take(pa.array(first))
        batches = pa.array(np.full(len(first), txid, np.int64))
        columns = [pa.array(np.full(len(first), number), self._keys.types[0]), pa.array(starts[first])]
        columns += [*keys.columns, batches, side.packed(new, order, ends)]
        return pa.Table.from_arrays(columns, schema=self._puts)

    def removed(self, number: int, starts: Sequence[int]) -> pa.Table:
        """Return the changes that remove the buckets of stream `number` with these starts. They leave the index."""
        held = self.held[number]
        keys = held.whole(starts)
        for start in starts:
            held.drop(start)
        return removals(self._with_side(number, keys), self._puts)

    def _with_side(self, number: int, keys: pa.Table) -> pa.Table:
        side = pa.array(np.full(keys.num_rows, number), self._keys.types[0])
        return pa.Table.from_arrays([side, *keys.columns], schema=self._keys)


def key_numbers(sides: Sequence[SideTables], left: pa.Table, right: pa.Table) -> tuple[Ids, Ids]:
    """Return a number for the key of each tuple; equal keys of both streams have the same number."""
    both = zip(sides, (left, right), strict=True)
    keys = [one_chunk(encode_keys(tuples.select(side.keys))) for side, tuples in both]
    numbers = pc.dictionary_encode(pa.concat_arrays(keys)).indices.to_numpy().astype(np.int64)
    return numbers[: left.num_rows], numbers[left.num_rows :]


def origins_of_fields(node: TimeJoin) -> list[tuple[Origin, ...]]:
    """Return the origins of the fields of a join: its keys, then the other fields of both streams."""
    schemas, unmatched = [source.schema for source in node.sources], node.joining.unmatched
    # In `origins` a stream is outer if it may lack a key: if unmatched tuples of the other stream are emitted.
    outer = (unmatched[RIGHT], unmatched[LEFT])
    return origins(schemas, [side.keys for side in node.joining.sides], outer, False)


def columns_alone(tuples: pa.Table, number: int, fields: pa.Schema, of: list[tuple[Origin, ...]]) -> list[pa.Array]:
    """Return the columns of joined tuples of stream `number` that have no partner. `of` are the fields' origins."""
    columns = []
    for field, origin in zip(fields, of, strict=True):
        name = next((name for at, name in origin if at == number), None)
        columns.append(pa.nulls(tuples.num_rows, field.type) if name is None else tuples.column(name))
    return columns


# --- the clocks ----------------------------------------------------------------------------------------------------


def clocks_of(node: TimeJoin, tables: Sequence[pa.Table], batch: WindowBatch) -> list[Clock]:
    """Return the clock of each stream over a batch. The slower of the two clocks decides for the join."""
    marks, clocks = (batch.watermark, batch.second), []
    for side, table, mark in zip(node.joining.sides, tables, marks, strict=True):
        clocks.append(clock_of(side.config, latest_of(table, side.time), replace(batch, watermark=mark)))
    return clocks


def next_due(first: int | None, clocks: Sequence[Clock]) -> int | None:
    """Return when both clocks reach the time `first` while no tuple comes; None if one of them never does."""
    dues = [each.due(first) for each in clocks if first is not None and each.after < first]
    return None if None in dues else max((due for due in dues if due is not None), default=None)


@dataclass(frozen=True, slots=True)
class _OfSide:
    """The part of a state that holds the tuples of one stream, in the form in which an index reads it."""

    stored: Stored
    number: int

    def read(self, keys: pa.Table) -> pa.Array:
        return self.stored.read(keys)

    def scan(self) -> Iterator[pa.Table]:
        for page in self.stored.scan():
            yield page.filter(pc.equal(page.column(0), self.number)).select(range(1, page.num_columns - 1))


def late_rows(tables: Sequence[pa.Table], on_time: Sequence[pa.Table]) -> int:
    """Return the number of tuples of both streams that are late."""
    return sum(table.num_rows - kept.num_rows for table, kept in zip(tables, on_time, strict=True))
