"""The removal of duplicates: the first tuple of each key is passed on, and the state remembers the key.

All of it works on whole columns: one read of the state for the distinct keys of a batch, and one filter of the batch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.spark_types import arrow_schema
from trident.base.value_conversion import conform
from trident.compiler.states.overlay import Stored
from trident.compiler.states.shapes import nullable, shape_of
from trident.compiler.states.update_types import RunWindow, WindowBatch
from trident.compiler.states.updates import Updated
from trident.compiler.windows.open_windows import OpenWindows, removals
from trident.compiler.windows.time_windows import NEVER, clock_of, latest_of, on_time
from trident.compiler.windows.tuple_lists import Ids, microseconds, timestamps
from trident.operations.first_of_key import FirstOfKey
from trident.operations.windows import EventTime
from trident.plan.nodes import PartitionPersist
from trident_state.binary_arrays import one_chunk
from trident_state.keys import encode_keys

_BUCKET = "__trident_bucket"
_BUCKETS = 64
"""The number of parts of the time for which a key is remembered. Keys are forgotten one part at a time."""

_ROUNDS = 16
"""The most passes over a batch in which several tuples of one key are passed on. The rest is checked row by row."""


def first_of_key(node: PartitionPersist) -> RunWindow:
    """Return the function that passes on only the first tuple of each key."""
    assert isinstance(node.updating, FirstOfKey)
    config = node.updating.config
    return _ByState(node) if config is None else _ByTime(node, node.updating, config)


class _Tables:
    """The schemas of a step that removes duplicates."""

    def __init__(self, node: PartitionPersist) -> None:
        shape = shape_of(node)
        self.keys = shape.keys
        self.puts = shape.keys.append(pa.field(node.schema.names[-1], shape.value))
        self.tuples = nullable(arrow_schema(node.outputs))

    def entering(self, table: pa.Table) -> pa.Table:
        """Return the tuples that enter. The table may have more fields, which only other steps read."""
        return conform(table.select(self.tuples.names), self.tuples)


@dataclass(frozen=True, slots=True)
class _Keys:
    """The distinct keys of some tuples, in the order of their first occurrence, and the number of each tuple's key."""

    numbers: Ids
    first: Ids
    """The row of the first tuple of each key; the rows ascend."""
    table: pa.Table

    @classmethod
    def of(cls, keys: pa.Table) -> "_Keys":
        encoded = pc.dictionary_encode(one_chunk(encode_keys(keys)))
        numbers = encoded.indices.to_numpy().astype(np.int64)
        first = _first_rows(np.arange(len(numbers)), numbers, len(encoded.dictionary))
        return cls(numbers, first, keys.take(pa.array(first)))


def _first_rows(rows: Ids, numbers: Ids, count: int) -> Ids:
    """Return the first of these rows for each key. `numbers` are the numbers of the rows' keys."""
    first = np.full(count, -1, np.int64)
    first[numbers[::-1]] = rows[::-1]  # the last assignment of a key is kept, which here is its first row
    return first[first >= 0]


class _ByState:
    """The update without event time: a key that is in the state has occurred before. The value is the batch's txid."""

    def __init__(self, node: PartitionPersist) -> None:
        self._tables = _Tables(node)

    def __call__(self, table: pa.Table, stored: Stored, batch: WindowBatch) -> Updated:
        tables, tuples = self._tables, self._tables.entering(table)
        keys = _Keys.of(tuples.select(tables.keys.names))
        unseen = stored.read(keys.table).is_null() if keys.table.num_rows else pa.array([], pa.bool_())
        new = keys.table.filter(unseen)
        txids = pa.array(np.full(new.num_rows, batch.txid, np.int64))
        puts = pa.Table.from_arrays([*new.columns, txids], schema=tables.puts)
        return Updated(puts, _filtered(tuples, keys.first[unseen.to_numpy(zero_copy_only=False)]))


class _ByTime:
    """The update by event time: a key is forgotten when the watermark passes the time until which it is remembered.

    After that the key would drop no tuple, because any such tuple would be late. So forgetting changes no result, and
    it does not matter when it happens. An index of the keys by that time is kept beside the state, for this process
    only.
    """

    def __init__(self, node: PartitionPersist, updating: FirstOfKey, config: EventTime) -> None:
        self._tables, self._config, self._within = _Tables(node), config, updating.within
        self._time = self._tables.puts.types[-1]
        self._bucket = max(1, updating.within // _BUCKETS)
        self._remembered = OpenWindows(pa.schema([pa.field(_BUCKET, pa.int64()), *self._tables.keys]))

    def __call__(self, table: pa.Table, stored: Stored, batch: WindowBatch) -> Updated:
        field, tuples = self._config.timestampField, self._tables.entering(table)
        clock = clock_of(self._config, latest_of(tuples, field), batch)
        self._remembered.begin(batch.txid, _ByBucket(stored, self._in_buckets))
        tuples = tuples.filter(on_time(self._config, tuples.column(field), clock.before))
        keys = _Keys.of(tuples.select(self._tables.keys.names))
        until = self._until(stored.read(keys.table)) if keys.table.num_rows else np.zeros(0, np.int64)
        before = until.copy()
        rows = admitted(keys.numbers, microseconds(tuples.column(field)), until, self._within)
        changed = until != before
        new = keys.table.filter(pa.array(changed))
        times = timestamps(until[changed] - self._within, self._time)
        puts = pa.Table.from_arrays([*new.columns, times], schema=self._tables.puts)
        gone = self._forgotten(new, stored, clock.after)
        self._remembered.add(self._in_buckets(puts))
        self._remembered.end(batch.txid)
        return Updated(pa.concat_tables([puts, removals(gone, self._tables.puts)]), _filtered(tuples, rows))

    def _until(self, times: pa.Array) -> Ids:
        """Return the time until which each key is remembered, from its value in the state; NEVER for unknown keys."""
        micros = microseconds(times.cast(pa.int64()).fill_null(0)) + self._within
        return np.where(times.is_null().to_numpy(zero_copy_only=False), NEVER, micros)

    def _forgotten(self, new: pa.Table, stored: Stored, watermark: int) -> pa.Table:
        """Return the keys that the state forgets with this batch. `new` are the keys that this batch adds."""
        names = self._tables.keys.names
        due = [bucket for bucket in self._remembered.starts() if (bucket + 1) * self._bucket <= watermark]
        if not due:
            return self._tables.keys.empty_table()
        keys = _Keys.of(self._remembered.whole(due).select(names)).table
        for bucket in due:
            self._remembered.drop(bucket)
        keys = keys.filter(pc.invert(pc.is_in(encode_keys(keys), value_set=encode_keys(new))))
        # A key that was seen again is in a later bucket too, and its stored time is later. A key without a stored value
        # was removed earlier.
        until = self._until(stored.read(keys)) if keys.num_rows else np.zeros(0, np.int64)
        return keys.filter(pa.array((until != NEVER) & (until < watermark)))

    def _in_buckets(self, entries: pa.Table) -> pa.Table:
        """Return the keys of entries of the state, each with the number of its bucket before it."""
        until = self._until(one_chunk(entries.column(entries.num_columns - 1)))
        keys = entries.select(self._tables.keys.names)
        return keys.add_column(0, pa.field(_BUCKET, pa.int64()), pa.array(until // self._bucket))


@dataclass(frozen=True, slots=True)
class _ByBucket:
    """A state whose entries are listed by bucket, in the form in which an index of open windows reads them."""

    stored: Stored
    in_buckets: Callable[[pa.Table], pa.Table]

    def read(self, keys: pa.Table) -> pa.Array:
        return self.stored.read(keys)

    def scan(self) -> Iterator[pa.Table]:
        return map(self.in_buckets, self.stored.scan())


def admitted(numbers: Ids, times: Ids, until: Ids, within: int) -> Ids:
    """Return the rows to emit, ascending: those later than the time until which their key is remembered.

    `numbers` are the keys of the rows, in the order of the batch. A row that is emitted sets the `until` of its key to
    its time plus `within`, for the rows after it; the array is changed in place.
    """
    rows: list[Ids] = []
    waiting = np.flatnonzero(times > until[numbers])
    for _ in range(_ROUNDS):
        if not len(waiting):
            break
        chosen = _first_rows(waiting, numbers[waiting], len(until))
        rows.append(chosen)
        until[numbers[chosen]] = times[chosen] + within
        waiting = waiting[times[waiting] > until[numbers[waiting]]]
    others: list[int] = []
    for row, key, time in zip(waiting.tolist(), numbers[waiting].tolist(), times[waiting].tolist(), strict=True):
        if time > until[key]:
            others.append(row)
            until[key] = time + within
    return np.sort(np.concatenate([*rows, np.asarray(others, np.int64)]))


def _filtered(tuples: pa.Table, rows: Ids) -> pa.Table:
    """Return these rows of the tuples. A mask is cheaper than positions if most rows stay."""
    mask: npt.NDArray[np.bool_] = np.zeros(tuples.num_rows, np.bool_)
    mask[rows] = True
    return tuples.filter(pa.array(mask))
