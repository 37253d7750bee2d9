"""Writing of one update, group by group: record the txid as open, write every key, then move the marker (commit).

There are two ways. Scripts in the server combine sums, minima and maxima of 64-bit numbers: then one round trip does
everything. Python combines everything else: one round trip opens the txid and reads the keys, a second writes them and
commits. Many keys go in slices, whose round trips overlap. Each group counts the keys that the open txid has moved: a
write carries this count, and is refused if another write has come in between. Processes that put parts of one batch at
the same time cannot know the count. Their writes carry the txid that was read for each key, and are refused if a key
has another txid by then.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.attempt import Lease
from trident.base.errors import StateUnavailableError, StateValueError
from trident.base.value_conversion import type_name
from trident_state.binary_arrays import (
    concatenate,
    framed,
    join_columns,
    lengths_of,
    one_chunk,
    spread_rows,
    with_lengths,
)
from trident_state.expiry import Expiry, without_expired
from trident_state.keys import decode_keys
from trident_state.records.documents import Documents
from trident_state.records.forms import FixedRecords, Records, null_flags, unpack_records
from trident_state.records.triples import Triples
from trident_state.redis.command_routing import Link, Pipeline, Reply
from trident_state.redis.due_scores import scores
from trident_state.redis.placement import PUT_KEYS, Chunk, Placement
from trident_state.redis.script_errors import ScriptAnswer, check_answer
from trident_state.redis.scripts import COMMIT, MERGE, OPEN, PUT
from trident_state.redis.wire import Arguments, Blob, call, hmget
from trident_state.state_shape import StateKind, StateShape
from trident_state.value_rules import TOO_LONG_HINT, combined, overflow_hint
from trident_state.write_checks import check_none_later

_MAX_RECORD = 256 * 1024 * 1024
_MAX_CONFLICTS = 10
SLICE_KEYS = 5000
"""The most keys that are combined at once."""
_AHEAD = 3
"""The number of slices that are requested before the first one is combined."""

Flags = npt.NDArray[np.bool_]


class Task(msgspec.Struct, frozen=True):
    """An update to write, or a part of one: the placement of its keys, and its `deltas` in the order of the placement.

    `wanted` says whether the caller needs the values after the update. `expiry` is the state's expiry as of this batch;
    None if no value of the state can have expired. `part` is None for a whole update. An update that is too long for
    one array, or that several processes put, is written in parts: then `part` is the first row of the part, and
    `Writer.commit` commits them all. `opened` are the groups that another process opened for this part; None if this
    writer opens them.
    """

    lease: Lease
    txid: int
    keys: Placement
    deltas: pa.Array
    wanted: bool
    expiry: Expiry | None = None
    part: int | None = None
    opened: frozenset[int] | None = None

    @property
    def fence(self) -> tuple[bytes, bytes, bytes]:
        """The token, epoch and txid that every script compares with the group's meta hash."""
        return self.lease.token.encode(), b"%d" % self.lease.epoch, b"%d" % self.txid

    @property
    def groups(self) -> range:
        return range(self.keys.layout.groups)

    def takes(self, group: int) -> bool:
        """Return whether the task puts keys into the group, as far as is known before the group is opened."""
        return self.opened is None or group in self.opened

    def slices(self) -> list["Task"]:
        """Return tasks of at most `SLICE_KEYS` keys each, which together are this one."""
        cut, start = list[Task](), 0
        for keys in self.keys.cut(SLICE_KEYS):
            cut.append(msgspec.structs.replace(self, keys=keys, deltas=self.deltas.slice(start, len(keys))))
            start += len(keys)
        return cut

    @property
    def counts(self) -> list[int]:
        """For each group, the number of the update's keys that are in it."""
        return [rows.stop - rows.start for rows in map(self.keys.group, self.groups)]


class WriteResult(msgspec.Struct, frozen=True):
    """The result of writing a Task: the number of keys that it moved to the txid, and the values after the update.

    The `values` come in the order of the placement, None if the caller does not need them. They are valid only in the
    rows marked in `known`: all but those of groups with a marker at or past the txid before the write. `removed` are
    the encoded keys that this write left without a value, as far as it knows them.
    """

    moved: int
    known: Flags
    values: pa.Array | None
    removed: pa.Array | None = None


class _Combined(msgspec.Struct, frozen=True):
    """The result of combining a slice: the `keys` to write, with the `txids` read for them, `records` and due scores.

    `values` are those of all keys of the slice after the update, None if the caller does not need them; the others are
    as in `WriteResult`.
    """

    known: Flags
    keys: Placement
    txids: npt.NDArray[np.int64]
    records: pa.Array
    dues: bytes | None
    values: pa.Array | None
    removed: pa.Array | None


class Writer:
    """Writes updates to one state, over one link."""

    def __init__(self, link: Link, where: str, shape: StateShape, kind: StateKind, records: Records) -> None:
        self._link, self._where, self._shape, self._records = link, where, shape, records
        self._bare = kind is StateKind.NON_TRANSACTIONAL

    def write(self, task: Task) -> WriteResult:
        """Write an update, or a part of one."""
        return self._link.with_scripts(lambda: self._write(task))

    def open(self, task: Task) -> frozenset[int]:
        """Open the task's txid in every group. Return the groups that do not hold it yet. `task` has no keys."""
        replies = self._link.call_scripts([self._open(task, group) for group in task.groups])
        return frozenset(g for g, reply in zip(task.groups, replies, strict=True) if self._is_open(task, reply))

    def commit(self, part: Task, counts: Sequence[int]) -> None:
        """Commit an update of which all parts were written.

        `counts` are the numbers of its keys by group; `part` is any of its parts.
        """
        replies = self._link.with_scripts(lambda: self._commits(part, part.groups, counts))
        self._check_committed(part, replies, counts)

    def _write(self, task: Task) -> WriteResult:
        if self._merges():
            return self._merge(task)
        for _ in range(_MAX_CONFLICTS):
            if (written := self._combine(task)) is not None:
                return written
        raise StateUnavailableError(
            f"{self._where}: another client keeps changing the keys of txid {task.txid}; the commit is repeated"
        )

    def _merges(self) -> bool:
        """Return whether a script combines: sums of longs and doubles, minima and maxima of all 8-byte types."""
        native = self._shape.combine.native
        if self._records.number is None or native in (None, "put"):
            return False
        return native != "sum" or self._shape.value in (pa.int64(), pa.float64())

    # --- combined by the server ----------------------------------------------------------------------------------

    def _merge(self, task: Task) -> WriteResult:
        assert isinstance(self._records, FixedRecords) and self._records.number is not None
        fields = Blob(with_lengths(task.keys.keys))
        slots = self._records.slots(task.deltas).tobytes()
        nulls = null_flags(task.deltas).tobytes() if task.deltas.null_count else b""
        native = str(self._shape.combine.native).encode()
        how: tuple[bytes, ...] = (native, self._records.number, b"%d" % task.wanted, b"%d" % self._bare)
        if task.expiry is not None and task.expiry.cutoff > 0:
            how += (b"%d" % task.expiry.cutoff, b"%d" % (task.expiry.before or -1))
        chunks = [
            list(task.keys.chunks(task.keys.group(group), PUT_KEYS, fields.ends)) if task.takes(group) else []
            for group in task.groups
        ]

        def commands() -> Iterator[bytes]:
            for group in task.groups:
                yield from self._opening(task, group)
                for chunk in chunks[group]:
                    a, b = chunk.start, chunk.stop
                    counts = np.array(chunk.counts, "<u4").tobytes()
                    parts = (counts, fields[a:b], slots[8 * a : 8 * b], nulls[a:b])
                    yield call(MERGE, _names(task, group, chunk), *task.fence, *parts, *how)
            # a single group commits in the same round trip; several commit only after all were written, because a
            # write that is refused must leave no group committed
            if len(task.groups) == 1 and task.part is None:
                yield self._commit(task, 0, task.counts[0])

        replies = iter(self._link.exchange(commands()))
        moved, known, rows = 0, np.ones(len(task.keys), np.bool_), list[bytes]()
        opened = list[int]()
        for group in task.groups:
            live = self._moved(task, group, replies) is not None
            puts = [next(replies) for _ in chunks[group]]
            if not live:
                known[task.keys.group(group)] = False
                continue
            opened.append(group)
            for chunk, reply in zip(chunks[group], puts, strict=True):
                done = self._merged(task, chunk, reply)
                moved += int(done[1])
                rows.append(done[2])
        self._commit_groups(task, opened, replies)
        values = None
        if task.wanted:
            values = spread_rows(known, self._records.unpack_rows(b"".join(rows)).values)
        return WriteResult(moved, known, values)

    def _merged(self, task: Task, chunk: Chunk, reply: Reply) -> list[bytes]:
        if isinstance(reply, list) and reply[0] == b"OVERFLOW":
            delta = task.deltas[chunk.start + int(reply[1]) - 1].as_py()
            raise StateValueError(
                f"{self._where}: {self._shape.combine.name} of the stored value and the batch's {delta!r} does not fit "
                f"its type {type_name(self._shape.value)}; the batch is not committed. "
                f"{overflow_hint(self._shape.combine)}"
            )
        return self._accepted(task, reply)

    # --- combined in Python --------------------------------------------------------------------------------------

    def _combine(self, task: Task) -> WriteResult | None:
        """Read, combine and write. Return None if the write was refused because another one came in between."""
        with self._link.pipeline() as pipeline:
            groups, done, values, answers = self._slice_by_slice(pipeline, task)
        puts = answers[:-1] if _commits_at_once(task, groups) else answers
        if any(isinstance(reply, list) and reply[0] == b"CONFLICT" for reply in puts):
            return None
        count = sum(int(self._accepted(task, reply)[1]) for reply in puts)
        self._commit_groups(task, list(groups), iter(answers[len(puts) :]))
        known = np.concatenate([part.known for part in done])
        return WriteResult(count, known, values, _joined([part.removed for part in done]))

    def _slice_by_slice(
        self, pipeline: Pipeline, task: Task
    ) -> tuple[dict[int, int], list[_Combined], pa.Array | None, list[Reply]]:
        """Read, combine and write the keys in slices. The server works on some of them while Python combines others.

        Keys of a non-transactional state do not go in slices: if a later slice failed, the keys before it would be put
        twice. Return the groups in which the txid is open, the combined slices, the values of all keys, and the replies
        to the puts. If `_commits_at_once`, the last reply is that to the commit.
        """
        slices, done, answers = [task] if self._bare else task.slices(), list[_Combined](), list[Reply]()
        for part in slices[:_AHEAD]:
            pipeline.send(chain(self._opens(task) if part is slices[0] else (), self._reads(part)))
        for number, part in enumerate(slices):
            if number >= _AHEAD:
                answers += pipeline.receive()  # to the puts of an earlier slice
            replies = iter(pipeline.receive())
            if number == 0:
                groups = self._opened(task, replies)
                moved = dict(groups)
            done.append(self._combined(part, groups, self._stored(part, replies)))
            calls = self._puts(part, done[-1], moved)
            if part is slices[-1]:
                values = _joined([each.values for each in done])  # before the commit, because it may raise TooLong
                if _commits_at_once(task, groups):
                    calls = chain(calls, [self._commit(task, group, task.counts[group]) for group in groups])
            pipeline.send(calls)
            for later in slices[number + _AHEAD : number + _AHEAD + 1]:
                pipeline.send(self._reads(later))
        for _ in slices[-_AHEAD:]:
            answers += pipeline.receive()
        return groups, done, values, answers

    def _reads(self, part: Task) -> Iterator[bytes]:
        """Yield the commands that read the keys of a slice.

        If another process opened the groups, the keys of all groups are read, too; the scripts refuse late writes.
        """
        fields, names = Arguments(part.keys.keys), part.keys.layout.packed_buckets
        for bucket, rows in _runs(part):
            yield hmget(names[bucket], fields[rows], rows.stop - rows.start)

    def _stored(self, part: Task, replies: Iterator[Reply]) -> Triples:
        """Return the triples of a slice's keys from the replies to `_reads`."""
        records = list[bytes | None]()
        for _ in _runs(part):
            records += self._link.check(next(replies))
        return unpack_records(self._records, records, self._where)

    def _combined(self, part: Task, groups: Iterable[int], stored: Triples) -> _Combined:
        """Combine the stored values of a slice's keys with its deltas. `groups` are those in which the txid is open."""
        live = np.zeros(len(part.keys), np.bool_)
        for group in groups:
            live[part.keys.group(group)] = True
        check_none_later(self._where, stored.txids[live], part.txid - 1, part.txid)
        moving = live if self._bare else live & (stored.txids < part.txid)
        keys, before, deltas = part.keys, stored, part.deltas
        if not (whole := bool(moving.all())):
            rows = np.flatnonzero(moving)
            keys, before, deltas = keys.filter(moving), before.take(rows), deltas.take(pa.array(rows))
        expiry = part.expiry or Expiry()
        base = without_expired(before.values, before.txids, expiry.cutoff)
        after = combined(self._shape.combine, base, deltas, self._where)
        records = self._records.pack(part.txid, after, without_expired(before.values, before.txids, expiry.before))
        lengths = lengths_of(records)
        if (longest := int(lengths.max(initial=0))) > _MAX_RECORD:
            key = decode_keys(keys.keys.slice(int(lengths.argmax()), 1), self._shape.keys).to_pylist()[0]
            raise StateValueError(
                f"{self._where}: batch {part.txid} makes a value of {longest} bytes (with the previous one) under "
                f"the key {key!r:.200}; at most {_MAX_RECORD} can be stored. Nothing was committed. {TOO_LONG_HINT}"
            )
        values = after if part.wanted else None
        if part.wanted and not whole:
            values = pc.if_else(pa.array(moving), spread_rows(moving, after), stored.values)
        dues = None if self._shape.due is None else scores(self._shape.due(after))
        removed = keys.keys.filter(after.is_null()) if after.null_count else None
        return _Combined(live, keys, before.txids, records, dues, values, removed)

    def _puts(self, part: Task, done: _Combined, moved: dict[int, int]) -> Iterable[bytes]:
        """Yield the calls that write the records of a slice.

        `moved` has the number of keys that each open group has moved by then; each call adds its number.
        """
        keys, pairs = done.keys, Blob(join_columns(*framed(done.keys.keys), *framed(done.records)))
        shared = part.opened is not None
        read = done.txids.astype("<i8").tobytes() if shared else b""
        form = b"json" if isinstance(self._records, Documents) else b"packed"
        for group in moved:
            for chunk in keys.chunks(keys.group(group), PUT_KEYS, pairs.ends):
                a, b = chunk.start, chunk.stop
                before = b"" if shared or self._bare else b"%d" % moved[group]
                moved[group] += b - a
                counts = np.array(chunk.counts, "<u4").tobytes()
                parts = [counts, pairs[a:b], read[8 * a : 8 * b], before, form]
                names = _names(part, group, chunk)
                if done.dues is not None:
                    names.append(keys.layout.packed_dues[group])
                    parts.append(done.dues[8 * a : 8 * b])
                yield call(PUT, names, *part.fence, *parts)

    # --- scripts and their answers -------------------------------------------------------------------------------

    def _open(self, task: Task, group: int) -> bytes:
        layout = task.keys.layout
        count_anew = self._bare and not task.part
        return call(OPEN, [layout.packed_metas[group]], *task.fence, b"%d" % layout.buckets, b"%d" % count_anew)

    def _opens(self, task: Task) -> Iterator[bytes]:
        """Yield the commands that open the txid in every group."""
        for group in task.groups:
            yield from self._opening(task, group)

    def _opened(self, task: Task, replies: Iterator[Reply]) -> dict[int, int]:
        """Return the number of keys that the open txid has moved, for each group in which it is open; see `_moved`."""
        found = {group: self._moved(task, group, replies) for group in task.groups}
        return {group: moved for group, moved in found.items() if moved is not None}

    def _opening(self, task: Task, group: int) -> Iterator[bytes]:
        """Yield the command that opens the txid in a group, unless another process has opened it."""
        if task.opened is None:
            yield self._open(task, group)

    def _moved(self, task: Task, group: int, replies: Iterator[Reply]) -> int | None:
        """Return the number of keys that the open txid has moved in the group; None if the group holds it.

        The number comes from the reply to `_opening`. If another process opened the group, it is unknown, and 0 is
        returned.
        """
        if task.opened is not None:
            return 0 if group in task.opened else None
        reply = next(replies)
        return int(ScriptAnswer.of(reply).detail or 0) if self._is_open(task, reply) else None

    def _commit(self, task: Task, group: int, keys: int) -> bytes:
        expiry = () if task.expiry is None else (msgspec.json.encode(task.expiry),)
        return call(COMMIT, [task.keys.layout.packed_metas[group]], *task.fence, b"%d" % keys, *expiry)

    def _is_open(self, task: Task, reply: Reply) -> bool:
        """Return whether the txid is now open in the group, by the script's reply; False if the group holds it.

        Raises the error that the script names if it refused the write.
        """
        if isinstance(reply, list) and reply[0] == b"DONE":
            return False
        self._accepted(task, reply)
        return True

    def _commit_groups(self, task: Task, groups: list[int], replies: Iterator[Reply]) -> None:
        """Commit the groups that were written.

        A single group has already committed, and its reply is still in `replies`.
        """
        if groups and task.part is None:
            counts = [task.counts[group] for group in groups]
            self._check_committed(task, list(replies) or self._commits(task, groups, task.counts), counts)

    def _commits(self, task: Task, groups: Iterable[int], counts: Sequence[int]) -> list[Reply]:
        return self._link.exchange([self._commit(task, group, counts[group]) for group in groups])

    def _check_committed(self, task: Task, replies: list[Reply], counts: Sequence[int]) -> None:
        for reply, keys in zip(replies, counts, strict=True):
            if isinstance(reply, list) and reply[0] == b"DONE":  # an earlier try committed it
                continue
            if task.opened is not None and isinstance(reply, list) and reply[0] == b"COUNT":
                moved = int(ScriptAnswer.of(reply).detail or 0)
                # The server may have been rewound between two puts, on separate connections that did not notice it.
                # Stored keys of the batch stay, and the other keys are put again.
                if moved < keys:
                    raise StateUnavailableError(
                        f"{self._where}: the server has only {moved} of the {keys} keys of txid {task.txid} in one "
                        f"group: it confirmed writes and then lost them; the writes are repeated"
                    )
            self._accepted(task, reply)

    def _accepted(self, task: Task, reply: Reply) -> list[bytes]:
        """Return the reply of a script that succeeded. Raises the state's error if the script did not."""
        check_answer(self._link, reply, task.lease, task.txid, self._where)
        parts: list[bytes] = reply
        return parts


def _commits_at_once(task: Task, groups: Collection[int]) -> bool:
    """Return whether the commit is sent with the last puts: all keys are in one group, and in this task."""
    return len(groups) == 1 and task.part is None


def _joined(arrays: Iterable[pa.Array | None]) -> pa.Array | None:
    """Return arrays as one; None if there are none. Raises TooLong."""
    given = [array for array in arrays if array is not None]
    return one_chunk(concatenate(given)) if given else None


def _runs(part: Task) -> list[tuple[int, slice]]:
    """Return the buckets of a slice, each with its rows, of at most `PUT_KEYS` keys each."""
    return [run for chunk in part.keys.chunks(slice(0, len(part.keys)), PUT_KEYS) for run in chunk.runs()]


def _names(task: Task, group: int, chunk: Chunk) -> list[bytes]:
    layout = task.keys.layout
    return [layout.packed_metas[group], *[layout.packed_buckets[bucket] for bucket in chunk.buckets]]
