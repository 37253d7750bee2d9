"""The copies of states for a savepoint: most entries before the pause, the rest during it.

A copy before the pause has its entries as of different batches. The log names the keys that later batches changed;
these keys are read again, in a few rounds before the pause and once during it, and the last value of a key counts.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trident.base.crash_points import reach
from trident.base.errors import LogError, SnapshotMovedError, StateRecoveringError, StateUnavailableError
from trident.batches.run_context import RunContext
from trident.files.store import FileStore
from trident.frozen.files import write_frozen
from trident.frozen.results import FrozenFile
from trident.log.frozen_batches import FrozenBatches, keys_and_values
from trident.plan.nodes import StateWriter
from trident.recovery.savepoint import SavedState
from trident.user_calls.watched_store import unwatched
from trident_state.keys import encode_keys
from trident_state.memory.store import MemoryStore
from trident_state.state_shape import StateKind, StateShape
from trident_state.store import Paged, ttl_of_factory

_PAGE_ROWS = 10_000

FEW_KEYS = 5_000
"""The number of changed keys that may remain for the pause."""

_ROUNDS = 8
"""The most rounds before the pause. Each reads the keys that changed in the round before it."""

_TRIES = 5

_MOVED = (SnapshotMovedError, StateRecoveringError, StateUnavailableError)
"""The errors of a store that cannot be read at present because of its writer."""


@dataclass(frozen=True, slots=True)
class Pages:
    """The files of a state that were written before the pause.

    `files` has all entries, `later` the keys that changed meanwhile. Keys that no batch after `since` changed have
    their present value in these files.
    """

    since: int
    files: tuple[FrozenFile, ...]
    later: tuple[FrozenFile, ...] = ()


@dataclass(frozen=True)
class SavepointStates:
    """Writes the files of one savepoint into `folder` of `place`."""

    context: RunContext
    place: FileStore
    folder: str

    @property
    def steps(self) -> dict[str, StateWriter]:
        """The steps that write states, by state."""
        return {step.state.name: step for group in self.context.begun.program.groups for step in group.states}

    def pages(self, state: str, since: int) -> Pages | None:
        """Write the entries of a state while batches are committed; None if the state can only be copied in the pause.

        Batch `since` is committed. Values that expire, values without a txid, and those of a store that may be rewound
        and healed during the read cannot be corrected later.
        """
        step, store = self.steps[state], unwatched(self.context.begun.stores)[state]
        factory, shape = step.state.factory, self._shape(state)
        if factory.kind is StateKind.NON_TRANSACTIONAL or ttl_of_factory(factory) is not None or not shape.keys.names:
            return None
        if isinstance(store, Paged):
            tables: Iterator[pa.Table] = (page for _, page in store.scan_by_page(since, _PAGE_ROWS))
        elif isinstance(store, MemoryStore):
            tables = store.scan(None, _PAGE_ROWS)
        else:
            return None
        try:
            return Pages(since, self._write(shape, tables))
        except _MOVED:
            return None

    def caught_up(self, state: str, pages: Pages, last: Callable[[], int]) -> Pages:
        """Write the keys that changed during the copy, in rounds, until only a few remain for the pause.

        `last` returns the last committed txid.
        """
        for _ in range(_ROUNDS):
            upto = last()
            keys = self._changed(state, pages.since, upto)
            if keys is None or keys.num_rows <= FEW_KEYS:
                return pages
            try:
                later = self._write(self._shape(state), self._beside(state, keys, last))
            except _MOVED:
                return pages
            pages = Pages(upto, pages.files, (*pages.later, *later))
        return pages

    def state(self, state: str, groups: Mapping[str, int], before: Pages | None) -> SavedState:
        """Write the rest of a state during the pause. `groups` has the last txid of each group."""
        step, shape, group = self.steps[state], self._shape(state), self.context.begun.births[state].group
        store, txid = self.context.begun.stores[state], groups[group]
        changed = None if before is None else self._changed(state, before.since, txid)
        later: tuple[FrozenFile, ...] = ()
        if before is None or changed is None:
            files = self._write(shape, store.scan(txid, _PAGE_ROWS))
        else:
            rest = (_with_values(keys, store.read(keys, txid).values) for keys in _pieces(changed))
            files, later = before.files, (*before.later, *self._write(shape, rest))
        reach("savepoint.state")
        schema = _schema(shape).serialize().to_pybytes()
        return SavedState(group, shape.fingerprint, schema, files, later, ttl_of_factory(step.state.factory))

    def _beside(self, state: str, keys: pa.Table, last: Callable[[], int]) -> Iterator[pa.Table]:
        """Yield keys with their values, each page as of a committed batch, beside the running driver."""
        for some in _pieces(keys):
            yield _with_values(some, self._read(state, some, last))

    def _read(self, state: str, keys: pa.Table, last: Callable[[], int]) -> pa.Array:
        store = unwatched(self.context.begun.stores)[state]
        for _ in range(_TRIES):
            with contextlib.suppress(SnapshotMovedError):  # two batches were written during the read
                return store.read(keys, last()).values
        return store.read(keys, last()).values

    def _changed(self, state: str, since: int, upto: int) -> pa.Table | None:
        """Return the keys that the batches after `since` changed; None if the log no longer has all of them."""
        shape, birth = self._shape(state), self.context.begun.births[state]
        frozen = FrozenBatches(self.context.log, birth.group, self.context.settings.place)
        keys = [shape.keys.empty_table()]
        try:
            for txid in range(since + 1, upto + 1):
                result = frozen.of_state(txid, state)
                if result is None:
                    return None
                keys.append(keys_and_values(frozen.whole(result))[0].select(shape.keys.names).cast(shape.keys))
        except (LookupError, LogError, OSError):  # the batch or its files were trimmed
            return None
        return _distinct(pa.concat_tables(keys))

    def _write(self, shape: StateShape, tables: Iterable[pa.Table]) -> tuple[FrozenFile, ...]:
        batches = (batch for table in tables for batch in table.combine_chunks().to_batches())
        file = write_frozen(batches, self.place, self.folder, "state", _schema(shape))
        return () if file is None else (file,)

    def _shape(self, state: str) -> StateShape:
        return self.context.begun.program.shapes[state]


def _schema(shape: StateShape) -> pa.Schema:
    return pa.schema([*shape.keys, pa.field("value", shape.value)])


def _pieces(keys: pa.Table) -> Iterator[pa.Table]:
    for at in range(0, keys.num_rows, _PAGE_ROWS):
        yield keys.slice(at, _PAGE_ROWS).combine_chunks()


def _with_values(keys: pa.Table, values: pa.Array) -> pa.Table:
    return keys.append_column("value", values)


def _distinct(keys: pa.Table) -> pa.Table:
    if not keys.num_rows:
        return keys
    rows = pa.table({"key": encode_keys(keys.combine_chunks()), "row": np.arange(keys.num_rows)})
    return keys.take(rows.group_by("key").aggregate([("row", "min")]).column("row_min"))
