"""A savepoint of a run: all groups pause between two batches, at a committed txid each, and their states are copied.

Most of a large state is copied before the pause, page by page, while batches are committed. During the pause only the
keys that these batches changed are read again, which the log names. So the pause takes as long as the batches in flight
and these keys (docs/decisions/0073).
"""

import contextlib
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from trident.base.crash_points import reach
from trident.base.errors import (
    LogError,
    SavepointError,
    SnapshotMovedError,
    StateUnavailableError,
    TopologyConditionError,
)
from trident.base.names import check_name
from trident.batches.group_run import GroupRun
from trident.batches.run_context import RunContext
from trident.files.disk import DiskFiles
from trident.files.store import FileStore
from trident.frozen.files import write_frozen
from trident.frozen.results import FrozenFile
from trident.log.frozen_batches import FrozenBatches, keys_and_values
from trident.plan.nodes import StateWriter
from trident.recovery.fork_origin import saved_output, sinks_of_program
from trident.recovery.savepoint import (
    SAVEPOINTS,
    SavedState,
    SavedStream,
    Savepoint,
    names_of,
    publish,
    remove_remains,
    taken,
)
from trident.run.switches import Switches
from trident.user_calls.watched_store import unwatched
from trident_spouts.forking import held_by, is_forkable
from trident_state.keys import encode_keys
from trident_state.memory.store import MemoryStore
from trident_state.state_shape import StateKind, StateShape
from trident_state.store import Paged, Store, ttl_of_factory

_PAGE_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class _Pages:
    """The files of a state that were written before the pause: all entries, each as of `since` or a later batch."""

    since: int
    files: tuple[FrozenFile, ...]


@dataclass(frozen=True)
class Saving:
    """Takes savepoints of a run, one at a time."""

    context: RunContext
    runs: Mapping[str, GroupRun]
    switches: Switches
    _one: threading.Lock = field(default_factory=threading.Lock)

    def take(self, name: str, limit: float | None) -> Savepoint:
        """Take a savepoint, and return its manifest; see `RunningTopology.savepoint`."""
        check_name("savepoint", name)
        place = self._place()
        # One at a time: the second of one name would delete the files of the first as remains.
        if not self._one.acquire(blocking=False):
            raise TopologyConditionError(f"topology {self.context.settings.name!r} takes another savepoint now")
        try:
            return self._take(name, place, limit)
        finally:
            self._one.release()

    def _take(self, name: str, place: FileStore, limit: float | None) -> Savepoint:
        if name in names_of(place):
            raise taken(place, name)
        remove_remains(place, name)
        copying = _Copying(self.context, place, f"{name}-{secrets.token_hex(8)}")
        try:
            before = {state: pages for state in copying.steps if (pages := copying.pages(state, self._last(state)))}
            reach("savepoint.pages")
            with self.switches.paused("savepoint", limit, "no savepoint was taken, and it continues"):
                savepoint = self._at_rest(name, copying, before)
            publish(place, savepoint)
        except BaseException:
            with contextlib.suppress(Exception):  # the next savepoint of this name deletes the rest
                place.remove(copying.folder)
            raise
        return savepoint

    def _place(self) -> FileStore:
        settings = self.context.settings
        if settings.objects is not None:
            return settings.objects.below(SAVEPOINTS)
        if not settings.lasting:
            raise SavepointError(
                f"topology {settings.name!r} has no place for a savepoint: start it with a checkpointLocation or a "
                f"filesLocation"
            )
        return DiskFiles(settings.folder / SAVEPOINTS, private=True)

    def _last(self, state: str) -> int:
        return self.runs[self.context.begun.births[state].group].committed

    def _at_rest(self, name: str, copying: "_Copying", before: Mapping[str, _Pages]) -> Savepoint:
        """Return the manifest of a savepoint, when its files are written. No batch is in flight now."""
        context, log, program = self.context, self.context.log, self.context.begun.program
        groups = {group: self._rested(group) for group in log.groups()}
        states = {state: copying.state(state, groups, before.get(state)) for state in copying.steps}
        spouts = {spout.stream: spout.spout for group in program.groups for spout in group.spouts}
        streams = {
            stream: SavedStream(
                record,
                repr(spouts[stream]) if stream in spouts else record.source,
                # A stream that this program lacks is only kept in mind.
                is_forkable(spouts[stream]) if stream in spouts else True,
                held_by(spouts[stream]) if stream in spouts else "",
            )
            for stream, record in log.members().streams.items()
        }
        outputs = tuple(map(saved_output, sinks_of_program(program)))
        # The lease comes last: if another driver had taken the log since the run began, its batches could be in parts
        # of the copy (guard "savepoint, fence").
        log.sync(context.begun.lease)
        return Savepoint(
            name,
            context.settings.name,
            log.uuid,
            context.settings.clock.time(),
            copying.folder,
            groups,
            streams,
            outputs,
            states,
        )

    def _rested(self, group: str) -> int:
        """Return the last txid of a group. Raises SavepointError if the group has ended before it committed a batch."""
        history = self.context.log.history(group)
        if history.frozen:
            raise SavepointError(
                f"batch {history.frozen[0]} of group {group!r} is frozen but not committed, because the group has "
                f"ended or is not in this program: start the program that commits it, and take the savepoint then"
            )
        return history.committed


@dataclass(frozen=True)
class _Copying:
    """Writes the files of one savepoint."""

    context: RunContext
    place: FileStore
    folder: str

    @property
    def steps(self) -> dict[str, StateWriter]:
        """The steps that write states, by state."""
        return {step.state.name: step for group in self.context.begun.program.groups for step in group.states}

    def pages(self, state: str, since: int) -> _Pages | None:
        """Write the entries of a state while batches are committed; None if it can only be copied at rest.

        Values that expire, and those without a txid, cannot be corrected afterwards. Neither can those of a store that
        may fall back and be healed while it is read.
        """
        step, store = self.steps[state], unwatched(self.context.begun.stores)[state]
        factory, shape = step.state.factory, self._shape(state)
        if factory.kind is StateKind.NON_TRANSACTIONAL or ttl_of_factory(factory) is not None or not shape.keys.names:
            return None
        if isinstance(store, Paged):
            tables: Iterator[pa.Table] = _not_before(since, store.scan_by_page(_PAGE_ROWS))
        elif isinstance(store, MemoryStore):
            tables = store.scan(None, _PAGE_ROWS)
        else:
            return None
        try:
            return _Pages(since, self._write(shape, tables))
        except (SnapshotMovedError, StateUnavailableError):
            return None

    def state(self, state: str, groups: Mapping[str, int], before: _Pages | None) -> SavedState:
        """Write the rest of a state, at rest."""
        step, shape, group = self.steps[state], self._shape(state), self.context.begun.births[state].group
        store = self.context.begun.stores[state]
        later = None if before is None else self._later(state, store, before.since, groups[group])
        if before is None or later is None:
            files, later = self._write(shape, store.scan(groups[group], _PAGE_ROWS)), ()
        else:
            files = before.files
        reach("savepoint.state")
        schema = _schema(shape).serialize().to_pybytes()
        return SavedState(group, shape.fingerprint, schema, files, later, ttl_of_factory(step.state.factory))

    def _later(self, state: str, store: Store, since: int, upto: int) -> tuple[FrozenFile, ...] | None:
        """Write the keys that the batches after `since` changed; None if the log no longer has all of them."""
        shape, birth = self._shape(state), self.context.begun.births[state]
        frozen = FrozenBatches(self.context.log, birth.group, self.context.settings.place)
        keys = [shape.keys.empty_table()]
        try:
            for txid in range(since + 1, upto + 1):
                result = frozen.of_state(txid, state)
                if result is None:
                    return None
                keys.append(keys_and_values(frozen.whole(result))[0].select(shape.keys.names).cast(shape.keys))
        except (LookupError, LogError, OSError):  # the batch was trimmed, or its files
            return None
        changed = _distinct(pa.concat_tables(keys))

        def tables() -> Iterator[pa.Table]:
            for at in range(0, changed.num_rows, _PAGE_ROWS):
                some = changed.slice(at, _PAGE_ROWS).combine_chunks()
                yield some.append_column("value", store.read(some, upto).values)

        return self._write(shape, tables())

    def _write(self, shape: StateShape, tables: Iterable[pa.Table]) -> tuple[FrozenFile, ...]:
        schema = _schema(shape)
        batches = (batch for table in tables for batch in table.combine_chunks().to_batches())
        file = write_frozen(batches, self.place, self.folder, "state", schema)
        return () if file is None else (file,)

    def _shape(self, state: str) -> StateShape:
        return self.context.begun.program.shapes[state]


def _schema(shape: StateShape) -> pa.Schema:
    return pa.schema([*shape.keys, pa.field("value", shape.value)])


def _not_before(since: int, pages: Iterable[tuple[int, pa.Table]]) -> Iterator[pa.Table]:
    """Yield tables. Raises SnapshotMovedError for one that was read before a batch: the server lost its last writes."""
    for txid, table in pages:
        if txid < since:
            raise SnapshotMovedError(f"the state fell back to batch {txid}, before batch {since}, while it was copied")
        yield table


def _distinct(keys: pa.Table) -> pa.Table:
    if not keys.num_rows:
        return keys
    rows = pa.table({"key": encode_keys(keys.combine_chunks()), "row": pa.array(range(keys.num_rows), pa.int64())})
    return keys.take(rows.group_by("key").aggregate([("row", "min")]).column("row_min"))
