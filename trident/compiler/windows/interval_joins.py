"""Interval joins: pairs of tuples of two streams with equal keys, whose times differ by no more than an interval.

A batch's tuples are paired with those that wait in the state: the entries with the batch's keys are read, from the
buckets of time that the batch's times can reach.

The state does not record which tuples have had a partner. When the watermark closes a bucket of a stream whose tuples
without a partner are emitted, its tuples are matched once more with those of the other stream. So the other stream's
tuples are kept until then.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.spark_types import arrow_schema
from trident.compiler.states.overlay import Stored
from trident.compiler.states.shapes import nullable
from trident.compiler.states.update_types import Clock, RunJoin, WindowBatch
from trident.compiler.states.updates import Updated
from trident.compiler.windows.tuple_lists import Ids
from trident.compiler.windows.waiting_tuples import (
    LEFT,
    RIGHT,
    Rows,
    WaitingTuples,
    clocks_of,
    columns_alone,
    key_numbers,
    late_rows,
    next_due,
    origins_of_fields,
    pairs,
)
from trident.operations.interval_joins import IntervalJoining
from trident.plan.nodes import IntervalJoin
from trident_state.keys import encode_keys


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


def interval_join(node: IntervalJoin) -> RunJoin:
    """Return the function that joins the tuples of two streams."""
    return _Join(node)


class _Join:
    """The update of the state of one join, batch after batch. It keeps an index of the entries of each stream."""

    def __init__(self, node: IntervalJoin) -> None:
        joining = node.joining
        self._node, self._joining, self._horizon = node, joining, Horizon.of(joining)
        self._leaving = nullable(arrow_schema(node.outputs))
        self._origins = origins_of_fields(node)
        self._waiting = WaitingTuples(node, joining.bucket)
        self._sides, self._held = self._waiting.sides, self._waiting.held

    def __call__(self, tables: Sequence[pa.Table], stored: Stored, batch: WindowBatch) -> Updated:
        sides, clocks = self._sides, clocks_of(self._node, tables, batch)
        clock = Clock(min(each.before for each in clocks), min(each.after for each in clocks))
        self._waiting.begin(batch.txid, stored)
        new = [sides[number].on_time(tables[number], clock.before) for number in (LEFT, RIGHT)]
        emitted = self._pairs(new, stored)
        for number in (LEFT, RIGHT):
            if self._joining.unmatched[number]:
                emitted.append(self._alone(number, new, stored, clock))
        puts = [self._entered(number, new[number], clock, batch.txid) for number in (LEFT, RIGHT)]
        gone = [self._gone(number, clock) for number in (LEFT, RIGHT)]
        self._waiting.end(batch.txid, puts)
        due, results = self._next_due(clock, clocks), pa.concat_tables(emitted)
        return Updated(pa.concat_tables([*puts, *gone]), results, late_rows(tables, new), due)

    def _next_due(self, clock: Clock, clocks: Sequence[Clock]) -> int | None:
        """Return when a tuple without a partner becomes due if no tuple arrives: when both clocks reach that time."""
        ends = [
            start + self._joining.bucket + self._horizon.closes[number]
            for number in (LEFT, RIGHT)
            if self._joining.unmatched[number]
            for start in self._held[number].starts()
        ]
        first = min((end for end in ends if end > clock.after), default=None)
        return next_due(first, clocks)

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
        (ours, others), (lefts, rights) = self._sides, key_numbers(self._sides, left, right)
        return pairs(
            Rows(ours.times(left), lefts),
            Rows(others.times(right), rights),
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
        wanted = pc.is_in(
            encode_keys(keys.select(self._waiting.key_names)), value_set=encode_keys(asking.select(other.keys))
        )
        return self._waiting.read(number, keys.filter(wanted), stored)

    def _alone(self, number: int, new: Sequence[pa.Table], stored: Stored, clock: Clock) -> pa.Table:
        """Return the tuples of stream `number` whose bucket closes with this batch and that have no partner."""
        bucket, held, side = self._joining.bucket, self._held[number], self._sides[number]

        def closes(starts: Ids) -> npt.NDArray[np.bool_]:
            ends = starts + bucket + self._horizon.closes[number]
            return (clock.before < ends) & (ends <= clock.after)

        old = np.asarray(held.starts(), np.int64)
        closing = self._waiting.read(number, held.whole(old[closes(old)].tolist()), stored)
        own = new[number].filter(pa.array(closes(side.times(new[number]) // bucket * bucket)))
        closing = pa.concat_tables([closing, own])
        others = pa.concat_tables([self._partners(1 - number, closing, stored), new[1 - number]])
        both = (closing, others) if number == LEFT else (others, closing)
        alone = np.ones(closing.num_rows, np.bool_)
        alone[self._found(*both)[number]] = False
        closing = closing.filter(pa.array(alone))
        columns = columns_alone(closing, number, self._leaving, self._origins)
        return pa.Table.from_arrays(columns, schema=self._leaving)

    # --- the state -------------------------------------------------------------------------------------------------

    def _entered(self, number: int, new: pa.Table, clock: Clock, txid: int) -> pa.Table:
        """Return the entries for a batch's tuples of stream `number`: the tuples that a later batch may need."""
        side, bucket = self._sides[number], self._joining.bucket
        starts = side.times(new) // bucket * bucket
        needed = starts + bucket + self._horizon.held[number] > clock.after
        return self._waiting.entered(number, new.filter(pa.array(needed)), starts[needed], txid)

    def _gone(self, number: int, clock: Clock) -> pa.Table:
        """Return the changes that remove those entries of stream `number` that no later batch needs."""
        held, kept = self._held[number], self._joining.bucket + self._horizon.held[number]
        over = [start for start in held.starts() if start + kept <= clock.after]
        return self._waiting.removed(number, over)
