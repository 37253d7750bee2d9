"""Interval joins: pairs of tuples of two streams with equal keys, whose times differ by no more than an interval.

The state holds the tuples that may still meet a partner, by stream, bucket of time, key and batch: a batch writes its
own tuples and rewrites nothing. Pairs are found on whole columns. First, the entries with the batch's keys are read,
from the buckets that the batch's times can reach. Then one binary search over sorted times finds the pairs of all
tuples.

The state does not record which tuples have had a partner. When the watermark closes a bucket of a stream whose tuples
without a partner are emitted, its tuples are matched once more with those of the other stream. So the other stream's
tuples are kept until then.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.types import arrow_schema
from trident.base.values import conform
from trident.compiler.states.overlay import Stored
from trident.compiler.states.shapes import nullable, shape_of
from trident.compiler.states.update_types import Clock, RunJoin, WindowBatch
from trident.compiler.states.updates import Updated
from trident.compiler.windows.open_windows import OpenWindows, removals
from trident.compiler.windows.time import clock_of, latest_of, on_time
from trident.compiler.windows.tuple_lists import Ids, flattened, microseconds
from trident.operations.interval_joins import IntervalJoining
from trident.plan.joins import origins
from trident.plan.nodes import IntervalJoin
from trident_state.binary import one_chunk
from trident_state.keys import encode_keys

LEFT, RIGHT = 0, 1


@dataclass(frozen=True, slots=True)
class Horizon:
    """The times for which tuples are kept, in microseconds of watermark after the end of their bucket.

    `closes`: until then a tuple may meet a new partner. `held`: until then it may be the partner of a tuple whose
    bucket closes.
    """

    closes: tuple[int, int]
    held: tuple[int, int]

    @classmethod
    def of(cls, joining: IntervalJoining) -> "Horizon":
        """Return the horizon of a join."""
        closes = max(joining.upper, 0), max(-joining.lower, 0)
        left = joining.upper + joining.bucket + closes[RIGHT] if joining.unmatched[RIGHT] else 0
        right = -joining.lower + joining.bucket + closes[LEFT] if joining.unmatched[LEFT] else 0
        return cls(closes, (max(closes[LEFT], left), max(closes[RIGHT], right)))


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


class _SideTables:
    """One stream of a join: its key fields, its times, and the form in which the state holds its tuples."""

    def __init__(self, node: IntervalJoin, number: int) -> None:
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


def interval_join(node: IntervalJoin) -> RunJoin:
    """Return the function that joins the tuples of two streams."""
    return _Join(node)


class _Join:
    """The update of the state of one join, batch after batch. It keeps an index of the entries of each stream."""

    def __init__(self, node: IntervalJoin) -> None:
        shape, joining = shape_of(node), node.joining
        self._joining, self._horizon = joining, Horizon.of(joining)
        self._keys = shape.keys
        self._puts = shape.keys.append(pa.field(node.schema.names[-1], shape.value))
        self._leaving = nullable(arrow_schema(node.outputs))
        self._sides = tuple(_SideTables(node, number) for number in (LEFT, RIGHT))
        schemas = [source.schema for source in node.sources]
        # In `origins` a stream is outer if it may lack a key: if unmatched tuples of the other stream are emitted.
        outer = (joining.unmatched[RIGHT], joining.unmatched[LEFT])
        self._origins = origins(schemas, [side.keys for side in joining.sides], outer, False)
        indexed = pa.schema(list(shape.keys)[1:])
        self._held = (OpenWindows(indexed), OpenWindows(indexed))

    def __call__(self, tables: Sequence[pa.Table], stored: Stored, batch: WindowBatch) -> Updated:
        sides, clocks = self._sides, [self._clock(number, tables[number], batch) for number in (LEFT, RIGHT)]
        clock = Clock(min(each.before for each in clocks), min(each.after for each in clocks))
        for number, held in enumerate(self._held):
            held.begin(batch.txid, _OfSide(stored, number))
        new = [sides[number].on_time(tables[number], clock.before) for number in (LEFT, RIGHT)]
        emitted = self._pairs(new, stored)
        for number in (LEFT, RIGHT):
            if self._joining.unmatched[number]:
                emitted.append(self._alone(number, new, stored, clock))
        puts = [self._entered(number, new[number], clock, batch.txid) for number in (LEFT, RIGHT)]
        gone = [self._gone(number, clock) for number in (LEFT, RIGHT)]
        for number, held in enumerate(self._held):
            held.add(puts[number].select(self._keys.names[1:]))
            held.end(batch.txid)
        return Updated(pa.concat_tables([*puts, *gone]), pa.concat_tables(emitted), due=self._next_due(clock, clocks))

    def _clock(self, number: int, table: pa.Table, batch: WindowBatch) -> Clock:
        """Return the clock of one stream. The slower of the two clocks decides for the join."""
        config = self._joining.sides[number].config
        mark = batch.watermark if number == LEFT else batch.second
        return clock_of(config, latest_of(table, config.timestampField), replace(batch, watermark=mark))

    def _next_due(self, clock: Clock, clocks: Sequence[Clock]) -> int | None:
        """Return when a tuple without a partner leaves while no tuple comes: when both clocks reach that time."""
        ends = [
            start + self._joining.bucket + self._horizon.closes[number]
            for number in (LEFT, RIGHT)
            if self._joining.unmatched[number]
            for start in self._held[number].starts()
        ]
        first = min((end for end in ends if end > clock.after), default=None)
        dues = [each.due(first) for each in clocks if first is not None and each.after < first]
        return None if None in dues else max((due for due in dues if due is not None), default=None)

    # --- what leaves -----------------------------------------------------------------------------------------------

    def _pairs(self, new: Sequence[pa.Table], stored: Stored) -> list[pa.Table]:
        """Return the pairs of this batch: its left tuples with all right ones, its right tuples with old left ones."""
        rights = pa.concat_tables([self._partners(RIGHT, new[LEFT], stored), new[RIGHT]])
        lefts = self._partners(LEFT, new[RIGHT], stored)
        return [self._joined(new[LEFT], rights), self._joined(lefts, new[RIGHT])]

    def _joined(self, left: pa.Table, right: pa.Table) -> pa.Table:
        lefts, rights = self._found(left, right)
        taken = left.take(pa.array(lefts)), right.take(pa.array(rights))
        columns = [taken[of[0][0]].column(of[0][1]) for of in self._origins]
        return pa.Table.from_arrays(columns, schema=self._leaving)

    def _found(self, left: pa.Table, right: pa.Table) -> tuple[Ids, Ids]:
        """Return the rows of all pairs of these tuples."""
        ours, others = self._sides
        keys = [one_chunk(encode_keys(left.select(ours.keys))), one_chunk(encode_keys(right.select(others.keys)))]
        numbers = pc.dictionary_encode(pa.concat_arrays(keys)).indices.to_numpy().astype(np.int64)
        return pairs(
            Rows(ours.times(left), numbers[: left.num_rows]),
            Rows(others.times(right), numbers[left.num_rows :]),
            self._joining.lower,
            self._joining.upper,
        )

    def _partners(self, number: int, asking: pa.Table, stored: Stored) -> pa.Table:
        """Return the tuples of stream `number` in the state that tuples of the other stream may match."""
        side, other = self._sides[number], self._sides[1 - number]
        if not asking.num_rows:
            return side.schema.empty_table()
        times, joining = other.times(asking), self._joining
        lower, upper = (joining.lower, joining.upper) if number == RIGHT else (-joining.upper, -joining.lower)
        first, last = int(times.min()) + lower, int(times.max()) + upper
        held, bucket = self._held[number], joining.bucket
        keys = held.whole(start for start in held.starts() if first < start + bucket and start <= last)
        wanted = pc.is_in(encode_keys(keys.select(self._key_names)), value_set=encode_keys(asking.select(other.keys)))
        return self._read(number, keys.filter(wanted), stored)

    def _alone(self, number: int, new: Sequence[pa.Table], stored: Stored, clock: Clock) -> pa.Table:
        """Return the tuples of stream `number` whose bucket closes with this batch and that have no partner."""
        bucket, held, side = self._joining.bucket, self._held[number], self._sides[number]

        def closes(starts: Ids) -> npt.NDArray[np.bool_]:
            ends = starts + bucket + self._horizon.closes[number]
            return (clock.before < ends) & (ends <= clock.after)

        old = np.asarray(held.starts(), np.int64)
        closing = self._read(number, held.whole(old[closes(old)].tolist()), stored)
        own = new[number].filter(pa.array(closes(side.times(new[number]) // bucket * bucket)))
        closing = pa.concat_tables([closing, own])
        others = pa.concat_tables([self._partners(1 - number, closing, stored), new[1 - number]])
        both = (closing, others) if number == LEFT else (others, closing)
        alone = np.ones(closing.num_rows, np.bool_)
        alone[self._found(*both)[number]] = False
        closing = closing.filter(pa.array(alone))
        columns = []
        for field, of in zip(self._leaving, self._origins, strict=True):
            name = next((name for at, name in of if at == number), None)
            columns.append(pa.nulls(closing.num_rows, field.type) if name is None else closing.column(name))
        return pa.Table.from_arrays(columns, schema=self._leaving)

    # --- the state -------------------------------------------------------------------------------------------------

    def _read(self, number: int, keys: pa.Table, stored: Stored) -> pa.Table:
        """Return the tuples in entries of the state. `keys` are as in the index, without the number of the stream."""
        if not keys.num_rows:
            return self._sides[number].schema.empty_table()
        return self._sides[number].unpacked(stored.read(self._with_side(number, keys)))

    def _with_side(self, number: int, keys: pa.Table) -> pa.Table:
        side = pa.array(np.full(keys.num_rows, number), self._keys.types[0])
        return pa.Table.from_arrays([side, *keys.columns], schema=self._keys)

    def _entered(self, number: int, new: pa.Table, clock: Clock, txid: int) -> pa.Table:
        """Return the entries for a batch's tuples of stream `number`: the tuples that a later batch may need."""
        side, bucket = self._sides[number], self._joining.bucket
        starts = side.times(new) // bucket * bucket
        needed = starts + bucket + self._horizon.held[number] > clock.after
        new, starts = new.filter(pa.array(needed)), starts[needed]
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

    def _gone(self, number: int, clock: Clock) -> pa.Table:
        """Return the changes that remove those entries of stream `number` that no later batch needs."""
        held, kept = self._held[number], self._joining.bucket + self._horizon.held[number]
        over = [start for start in held.starts() if start + kept <= clock.after]
        keys = held.whole(over)
        for start in over:
            held.drop(start)
        return removals(self._with_side(number, keys), self._puts)

    @property
    def _key_names(self) -> list[str]:
        return list(self._keys.names[2:-1])


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
