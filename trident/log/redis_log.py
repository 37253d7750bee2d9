"""The transaction log as a few hashes in Redis, for a driver that may move to another machine.

All keys have one hash tag, so that a cluster keeps them on one server::

    prefix:{topology}:log:m                 format, uuid, lease, its holder, the last write's number, the groups, the
                                            token of every lease (lease:<epoch>), the URL
                                            of the topology's files on an object store (files), and the
                                            savepoint from which the log was forked (origin)
    prefix:{topology}:log:t                 streams (stream:<name>, position:<name>) and outputs (output:<name>)
    prefix:{topology}:log:g:<group>         committed, frozen, kept, batches (b:<txid>), times of commits (c:<txid>),
                                            attempts (a:<txid>), sizes (s:<txid>:<stage>)
    prefix:{topology}:log:f:<group>:<txid>  what a batch froze: for each stage an index (<stage>), and for each output a
                                            body (<stage>/<output>)
    prefix:{topology}:log:c                 the contents with which states began
    prefix:{topology}:log:s                 the states' births, manifests and facts about the content with
                                            which they began (content:<state>); founding:<state> until a store is
                                            made; the rows that states and outputs are made of
                                            (reading:<name>); of outputs how far they came (served:<output>,
                                            took:<output>), and the last attempt to hand a batch over
                                            (handed:<output>)

Every write is one script. The script refuses a write under another lease, or if a field differs from what this driver
knows; otherwise it makes the whole write. Writes are numbered under each lease: a write that arrives twice, or after a
newer one, changes nothing. The server writes and fsyncs each write before it answers.
"""

import json
import secrets
import threading
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from trident.base.attempt import Holder, Lease
from trident.base.discard_advice import reset_with
from trident.base.errors import LogError
from trident.base.forked_child import free_in_child
from trident.base.names import check_name
from trident.base.redis_address import Address
from trident.log.base import LogBase, batch_checksum, compact, holder_text, trim_until
from trident.log.frozen_results import FrozenOutput, folder_of
from trident.log.group_records import AttemptRecord, History, Positions
from trident.log.log_server import CREATE, TAKE, LogServer
from trident.log.protocol import (
    BatchRecord,
    Birth,
    LogAbsentError,
    Members,
    OutputProgress,
    Restoration,
    StreamRecord,
)
from trident.log.redis_write_request import WriteRequest
from trident_state.redis.wire import bulks, call, command

FORMAT = "trident log 5"
MOST_BYTES = 256 << 20
"""The most bytes that one stage of a batch may freeze. A server accepts 512 MB in one argument, and holds a write twice
in memory."""

_OF_STATE = ("birth", "manifest", "founding", "content")
"""The kinds of fields that each state has."""

_AT_ONCE = 500
"""The number of batches that one write of a trim deletes. Other clients wait while a script runs."""

Fields = dict[str, bytes]


class RedisTransactionLog(LogBase):
    """A topology's log on a server. It is created if it is missing. Thread-safe.

    See `TransactionLog` for its promises. Here every write is durable before it returns, as far as the server makes its
    writes durable.

    `reading`: open the log read-only; raise LogError if it is missing. `dropping`: open it only to take and drop
    it; raise LogError if it is missing, but accept any format and any settings of the server.
    """

    def __init__(
        self,
        address: Address,
        prefix: str,
        topology: str,
        durable: bool,
        patience: float,
        reading: bool = False,
        dropping: bool = False,
    ) -> None:
        check_name("topology", topology)
        super().__init__(f"the log of topology {topology!r}", "log=...", reading)
        self._topology = topology
        self._base = f"{prefix}:{{{topology}}}:log"
        self._meta, self._states, self._members = self._key("m"), self._key("s"), self._key("t")
        self._contents = self._key("c")
        self._lock = free_in_child(threading.RLock())
        self._last_frozen: dict[str, int] = {}
        """The last frozen txid of each group, as this driver knows it. Each freeze asks the server to compare it. So a
        server that lost its last writes is noticed, and no batch freezes after a gap."""
        self._writes = 0
        """The number of the last write under this lease. `log_write.lua` compares it. The lock makes sure that
        writes are sent in the order of their numbers."""
        self._renewed = 0
        """The number of the last write at the time of the last `renew`."""
        self._server = LogServer(address, self._where, reading)
        try:
            if not reading and not dropping:
                self._server.check(durable)
            if dropping:
                self._uuid = str(self._identity()[2] or b"", "ascii", "replace")
            else:
                self._uuid = self._checked_uuid(self._identity(), topology) if reading else self._create(topology)
        except BaseException:
            self._server.close()
            raise
        # Not before, because a start reports at once that its server does not answer, and sends CREATE only once: a
        # late copy could create a log after a reset, with the uuid of the dropped one.
        self._server.patience = patience

    # --- identity and lease ------------------------------------------------------------------------------------

    def _create(self, topology: str) -> str:
        """Create the log unless it exists, and return its uuid."""
        fields = [word.encode() for word in (FORMAT, topology, uuid.uuid4().hex)]
        (identity,) = self._server.ask(call(CREATE, [bulks([self._meta])], *fields))
        return self._checked_uuid(identity, topology)

    def _identity(self) -> list[bytes]:
        """Return the log's format, topology and uuid. Raises LogAbsentError if there is no log."""
        (identity,) = self._server.ask(command(b"HMGET", self._meta, b"format", b"topology", b"uuid"))
        if identity == [None, None, None]:
            raise LogAbsentError(f"{self._where} does not exist (no key {self._meta.decode()!r})")
        return list(identity)

    def _checked_uuid(self, identity: Sequence[bytes], topology: str) -> str:
        format = str(identity[0] or b"", "utf-8", "replace")
        if format.startswith("trident log ") and format != FORMAT:
            raise self._other_format(format, FORMAT)
        if list(identity[:2]) != [FORMAT.encode(), topology.encode()] or not identity[2]:
            raise self._corrupt(f"{self._meta.decode()} does not identify it (this version reads {FORMAT!r})")
        return str(identity[2], "ascii")

    @property
    def uuid(self) -> str:
        if self._reading:  # after a reset, another log has the same keys
            return str(self._identity()[2], "ascii")
        return self._uuid

    def take(self, holder: Holder | None = None, after: Lease | None = None) -> Lease:
        token = secrets.token_hex(8)
        self._check_writable()
        # The script adds the epoch, which only it knows, to the holder's text.
        words = [token, self._uuid, holder_text(holder, 0).removeprefix('{"epoch":0')]
        if after is not None:
            words += [str(after.epoch), after.token]
        with self._lock:
            (reply,) = self._server.ask(call(TAKE, [bulks([self._meta])], *(word.encode() for word in words)))
        if reply[0] == b"TAKEN":
            raise self._overtaken(int(reply[1]))
        if reply[0] != b"OK":
            raise LogError(f"{self._where} is gone from its server, or another log replaced it; start again")
        return Lease(int(reply[1]), token)

    def lease(self) -> Lease | None:
        ((epoch, token),) = self._server.ask(command(b"HMGET", self._meta, b"epoch", b"token"))
        if epoch is None:
            raise self._gone()
        return Lease(int(epoch), token.decode()) if int(epoch) else None

    def at_once(self) -> AbstractContextManager[None]:
        return nullcontext()  # the connection stays open

    def size(self) -> int | None:
        return None  # Redis returns the memory of a key only if the user may call MEMORY, and there are many keys

    def holder(self) -> Holder | None:
        ((epoch, token, text),) = self._server.ask(command(b"HMGET", self._meta, b"epoch", b"token", b"holder"))
        if epoch is None:
            raise self._gone()
        return self._holder(text or b"", Lease(int(epoch), token.decode()))

    def renew(self, lease: Lease) -> None:
        with self._lock:
            if self._writes == self._renewed:
                # A standby looks at the number of this write. The write is not repeated: other writes wait for it, and
                # the next renewal follows.
                self._write(lease, WriteRequest(self._meta), patience=0.0)
            self._renewed = self._writes

    def renewals(self) -> object:
        (reply,) = self._server.ask(command(b"HMGET", self._meta, b"epoch", b"token", b"last"))
        if reply[0] is None:
            raise self._gone()
        return tuple(reply)

    def issued(self, lease: Lease) -> bool:
        (token,) = self._server.ask(command(b"HGET", self._meta, b"lease:%d" % lease.epoch))
        return token is not None and bool(token == lease.token.encode())

    def give_back(self, lease: Lease) -> None:
        self._server.patience = 0.0  # do not wait for a server that hangs; an unreturned lease counts as a death
        self._write(lease, WriteRequest(self._meta).set(self._meta, {"token": ""}))

    def files_address(self) -> str:
        (address,) = self._server.ask(command(b"HGET", self._meta, b"files"))
        return "" if address is None else str(address, "utf-8", "replace")

    def keep_files_at(self, lease: Lease, address: str) -> None:
        self._write(lease, WriteRequest(self._meta).set(self._meta, {"files": address}))

    def origin(self) -> bytes | None:
        (origin,) = self._server.ask(command(b"HGET", self._meta, b"origin"))
        return None if origin is None else bytes(origin)

    def keep_origin(self, lease: Lease, origin: bytes) -> None:
        self._write(lease, WriteRequest(self._meta).set(self._meta, {"origin": origin}))

    # --- batches -----------------------------------------------------------------------------------------------

    def groups(self) -> list[str]:
        meta = self._hash(self._meta)
        return sorted(name.removeprefix("group:") for name in meta if name.startswith("group:"))

    def history(self, group: str) -> History:
        fields = self._hash(self._group_key(group))
        committed, frozen = self._number(fields, "committed"), self._number(fields, "frozen")
        waiting = tuple(range(committed + 1, frozen + 1))
        present = self._server.ask(*[command(b"HEXISTS", self._frozen_key(group, txid), b"1") for txid in waiting])
        self._check_complete(group, waiting, present)
        self._last_frozen[group] = frozen
        streams = self.members().streams.items()
        positions = {name: stream.position for name, stream in streams if stream.group == group and stream.active}
        return History(committed, positions, waiting)

    def last_committed(self, group: str) -> int:
        (text,) = self._server.ask(command(b"HGET", self._group_key(group), b"committed"))
        return self._number({} if text is None else {"committed": text}, "committed")

    def members(self) -> Members:
        fields = self._hash(self._members)
        streams = dict[str, StreamRecord]()
        for name in _names(fields, "stream:"):
            group, source, active, *others = self._json(fields[f"stream:{name}"])
            position = self._json(fields.get(f"position:{name}", b"null"))
            streams[name] = self._stream_record(group, position, source, active, others)
        return Members(streams, {name: fields[f"output:{name}"].decode() for name in _names(fields, "output:")})

    def restore(self, lease: Lease, restoration: Restoration) -> None:
        write, outputs = WriteRequest(self._meta), self.members().outputs
        with self._lock:
            for group, txid in restoration.batches.items():
                history, last = self.history(group), self.batch(group, txid - 1)
                if history.committed != txid - 1 or history.frozen:
                    self.sync(lease)
                    raise LogError(f"group {group!r}: batch {txid} does not follow the last committed batch")
                key = self._group_key(group)
                write.must(key, "frozen", b"%d" % (txid - 1)).must(key, "committed", b"%d" % (txid - 1))
                batch = BatchRecord({}, restoration.time, "" if last is None else last.outline)
                self._add_batch(write, group, txid, batch, {})
                write.set(key, {"committed": txid, f"c:{txid}": repr(restoration.time)})
            self._add_members(write, Members(restoration.streams, outputs))
            write.drop(self._states, self._readings_beside(restoration.readings))
            for state, birth in restoration.births.items():
                self._add_birth(write, lease, state, birth, restoration.contents.get(state))
            write.set(self._states, _reading_fields(restoration.readings))
            self._write(lease, write)
            self._last_frozen |= restoration.batches

    def enroll(self, lease: Lease, members: Members) -> None:
        write = WriteRequest(self._meta)
        self._add_members(write, members)
        known = self.groups()
        for group, txid in members.founded.items():
            if group not in known:
                write.set(self._group_key(group), {"committed": txid, "frozen": txid, "kept": txid})
                write.set(self._meta, {f"group:{group}": 1})
                self._last_frozen[group] = txid
        self._write(lease, write)

    def _add_members(self, write: WriteRequest, members: Members) -> None:
        """Add requests to a write, by which these streams and outputs replace all others."""
        fields: dict[str, bytes | str | int] = {f"output:{name}": group for name, group in members.outputs.items()}
        for name, s in members.streams.items():
            fields[f"stream:{name}"] = _text([s.group, s.source, s.active, s.began, s.feeds, s.parted, s.former])
            fields[f"position:{name}"] = _text(s.position)
        write.delete(self._members).set(self._members, fields)

    def outputs(self) -> dict[str, OutputProgress]:
        fields, progress = self._hash(self._states), dict[str, OutputProgress]()
        for output in _names(fields, "served:"):
            until, missed = self._json(fields[f"served:{output}"])
            progress[output] = OutputProgress(self._number(fields, f"took:{output}"), until, missed)
        return progress

    def keep_outputs(self, lease: Lease, outputs: Mapping[str, OutputProgress]) -> None:
        fields = self._hash(self._states)
        gone = [name for name in _names(fields, "served:") if name not in outputs]
        kept: dict[str, bytes | str | int]
        kept = {f"served:{name}": _text([progress.until, progress.missed]) for name, progress in outputs.items()}
        kept |= {f"took:{name}": progress.last for name, progress in outputs.items()}
        write = WriteRequest(self._meta).drop(
            self._states, [f"{kind}:{n}" for n in gone for kind in ("served", "took")]
        )
        self._write(lease, write.set(self._states, kept))

    def readings(self) -> dict[str, bytes]:
        fields = self._hash(self._states)
        return {name: fields[f"reading:{name}"] for name in _names(fields, "reading:")}

    def keep_readings(self, lease: Lease, readings: Mapping[str, bytes]) -> None:
        write = WriteRequest(self._meta).drop(self._states, self._readings_beside(readings))
        self._write(lease, write.set(self._states, _reading_fields(readings)))

    def _readings_beside(self, readings: Mapping[str, bytes]) -> list[str]:
        """Return the fields of the records that `readings` does not replace."""
        return [f"reading:{name}" for name in self.readings() if name not in readings]

    def handing_over(self, lease: Lease, output: str, txid: int, least: int) -> int:
        with self._lock:
            (text,) = self._server.ask(command(b"HGET", self._states, f"handed:{output}".encode()))
            last, attempt = (0, 0) if text is None else self._json(text)
            attempt = max(least, attempt + 1) if last == txid else least
            self._write(lease, WriteRequest(self._meta).set(self._states, {f"handed:{output}": _text([txid, attempt])}))
        return attempt

    def attempts(self, group: str) -> dict[int, AttemptRecord]:
        fields = self._hash(self._group_key(group))
        return {txid: AttemptRecord(*self._json(fields[f"a:{txid}"])) for txid in _txids(fields, "a:")}

    def attempted(self, lease: Lease, group: str, txid: int, record: AttemptRecord) -> None:
        text = _text([record.number, record.epoch, record.deaths, dict(record.digests)])
        self._write(lease, WriteRequest(self._meta).set(self._group_key(group), {f"a:{txid}": text}))

    def batch(self, group: str, txid: int) -> BatchRecord | None:
        (text,) = self._server.ask(command(b"HGET", self._group_key(group), b"b:%d" % txid))
        if text is None:
            return None
        try:
            plan, time, outline, checksum = self._json(text)
        except (TypeError, ValueError):
            raise self._corrupt(f"group {group!r}: the record of batch {txid} is invalid") from None
        return self._batch_record(group, txid, plan, time, outline, checksum)

    def commit_time(self, group: str, txid: int) -> float | None:
        (text,) = self._server.ask(command(b"HGET", self._group_key(group), b"c:%d" % txid))
        return None if text is None else float(self._json(text))

    def freeze(
        self,
        lease: Lease,
        group: str,
        txid: int,
        batch: BatchRecord,
        positions: Positions,
        outputs: Mapping[str, FrozenOutput],
    ) -> None:
        key = self._group_key(group)
        with self._lock:
            if self._last_frozen.get(group) != txid - 1:
                self.sync(lease)  # a fenced driver gets FencedError first, because that explains the other errors
                raise LogError(
                    f"group {group!r}: batch {txid} cannot be frozen: it does not follow the last frozen batch"
                )
            write = WriteRequest(self._meta).must(key, "frozen", b"%d" % (txid - 1))
            self._add_batch(write, group, txid, batch, outputs)
            for name, position in positions.items():
                write.set(self._members, {f"position:{name}": _text(position)})
            self._write(lease, write)
            self._last_frozen[group] = txid

    def _add_batch(
        self, write: WriteRequest, group: str, txid: int, batch: BatchRecord, outputs: Mapping[str, FrozenOutput]
    ) -> None:
        """Add to a write the frozen results of stage 1 of a batch."""
        key = self._group_key(group)
        write.set(self._frozen_key(group, txid), self._content(group, txid, 1, outputs))
        fields: dict[str, bytes | str | int]
        fields = {"frozen": txid, f"b:{txid}": _batch_text(txid, batch), f"s:{txid}:1": _size_text(outputs)}
        write.set(key, fields).drop(key, [f"a:{txid}"])

    def freeze_stage(
        self, lease: Lease, group: str, txid: int, stage: int, outputs: Mapping[str, FrozenOutput]
    ) -> None:
        key = self._frozen_key(group, txid)
        with self._lock:
            if self._server.ask(command(b"HEXISTS", key, b"%d" % stage))[0]:
                self.sync(lease)
                return
            write = WriteRequest(self._meta).must(key, str(stage), b"")
            write.set(key, self._content(group, txid, stage, outputs))
            self._write(lease, write.set(self._group_key(group), {f"s:{txid}:{stage}": _size_text(outputs)}))

    def _content(
        self, group: str, txid: int, stage: int, outputs: Mapping[str, FrozenOutput]
    ) -> dict[str, bytes | str | int]:
        """Return the fields that hold a stage's frozen results. Raises LogError if they are too large."""
        size = sum(len(output.body) for output in outputs.values())
        if size > MOST_BYTES:
            raise self._too_large(
                f"batch {txid} of group {group!r} froze {size} bytes", "Make batches smaller, or give"
            )
        index = {name: [int(o.files), o.rows, o.checksum] for name, o in outputs.items()}
        bodies: dict[str, bytes | str | int] = {f"{stage}/{name}": o.body for name, o in outputs.items()}
        return bodies | {str(stage): json.dumps(index)}

    def _too_large(self, what: str, advice: str) -> LogError:
        return LogError(
            f"{self._where}: {what}; the limit of a log in Redis is {MOST_BYTES}. {advice} a checkpointLocation that "
            f"all executors reach"
        )

    def frozen(self, group: str, txid: int, stage: int) -> dict[str, FrozenOutput] | None:
        key = self._frozen_key(group, txid)
        (text,) = self._server.ask(command(b"HGET", key, b"%d" % stage))
        if text is None:
            return None
        index: dict[str, list[int]] = self._json(text)
        if not index:
            return {}
        (bodies,) = self._server.ask(command(b"HMGET", key, *[f"{stage}/{name}".encode() for name in index]))
        if None in bodies:
            raise self._corrupt(f"group {group!r}: some frozen results of batch {txid} are missing")
        return {
            name: FrozenOutput(body, bool(files), rows, checksum)
            for (name, (files, rows, checksum)), body in zip(index.items(), bodies, strict=True)
        }

    def committed(
        self, lease: Lease, group: str, txid: int, time: float | None = None, took: Collection[str] = ()
    ) -> None:
        key = self._group_key(group)
        with self._lock:
            (last,) = self._server.ask(command(b"HGET", key, b"committed"))
            frozen = self._last_frozen.get(group, 0)
            if last != b"%d" % (txid - 1) or frozen < txid:
                self.sync(lease)
                raise LogError(f"group {group!r}: batch {txid} cannot commit: it is not the next frozen batch")
            write = WriteRequest(self._meta).must(key, "committed", last).must(key, "frozen", b"%d" % frozen)
            times = {} if time is None else {f"c:{txid}": repr(time)}
            write.set(key, {"committed": txid, **times})
            self._write(lease, write.set(self._states, {f"took:{output}": txid for output in took}))

    # --- states ------------------------------------------------------------------------------------------------

    def births(self) -> dict[str, Birth]:
        fields = self._hash(self._states)
        births = dict[str, Birth]()
        for name in _names(fields, "birth:"):
            group, txid, epoch, filled = self._json(fields[f"birth:{name}"])
            births[name] = Birth(group, txid, epoch, f"founding:{name}" not in fields, filled)
        return births

    def content(self, state: str, txid: int) -> FrozenOutput | None:
        (text,) = self._server.ask(command(b"HGET", self._states, f"content:{state}".encode()))
        if text is None:
            return None
        _, birth, _, files, rows, checksum = self._json(text)
        if birth != txid:
            return None
        (body,) = self._server.ask(command(b"HGET", self._contents, state.encode()))
        return None if body is None else FrozenOutput(body, bool(files), rows, checksum)

    def born(self, lease: Lease, state: str, birth: Birth, content: FrozenOutput | None = None) -> None:
        write = WriteRequest(self._meta)
        self._add_birth(write, lease, state, birth, content)
        self._write(lease, write)

    def _add_birth(
        self, write: WriteRequest, lease: Lease, state: str, birth: Birth, content: FrozenOutput | None
    ) -> None:
        text = json.dumps([birth.group, birth.txid, lease.epoch, birth.filled])
        fields: dict[str, bytes | str | int] = {f"birth:{state}": text}
        gone = [f"{kind}:{state}" for kind in _OF_STATE]
        if not birth.founded:
            fields[f"founding:{state}"] = ""
        if content is not None:
            if len(content.body) > MOST_BYTES:
                raise self._too_large(f"the first content of state {state!r} has {len(content.body)} bytes", "Give")
            folder = folder_of(content) if content.files else ""
            about = [birth.group, birth.txid, folder, int(content.files), content.rows, content.checksum]
            fields[f"content:{state}"] = json.dumps(about)
        write.drop(self._states, [name for name in gone if name not in fields])
        write.set(self._states, fields).drop(self._contents, [state])
        if content is not None:
            write.set(self._contents, {state: content.body})

    def founded(self, lease: Lease, states: Collection[str]) -> None:
        self._write(lease, WriteRequest(self._meta).drop(self._states, [f"founding:{state}" for state in states]))

    def forget(self, lease: Lease, *states: str) -> None:
        fields = [f"{kind}:{state}" for state in states for kind in _OF_STATE]
        self._write(lease, WriteRequest(self._meta).drop(self._states, fields).drop(self._contents, states))

    def manifest(self, state: str) -> bytes | None:
        (manifest,) = self._server.ask(command(b"HGET", self._states, f"manifest:{state}".encode()))
        return None if manifest is None else bytes(manifest)

    def publish(self, lease: Lease, state: str, manifest: bytes) -> None:
        (birth,) = self._server.ask(command(b"HGET", self._states, f"birth:{state}".encode()))
        if birth is None:
            self.sync(lease)
            raise LogError(f"state {state!r} cannot publish a snapshot: it is not in this log")
        write = WriteRequest(self._meta).must(self._states, f"birth:{state}", birth)
        self._write(lease, write.set(self._states, {f"manifest:{state}": manifest}))

    # --- retention ---------------------------------------------------------------------------------------------

    def trim(self, lease: Lease, group: str, needed: int, keep_batches: int, keep_bytes: int) -> list[str]:
        key = self._group_key(group)
        with self._lock:
            fields = self._hash(key)
            sizes, folders = self._frozen_batches(fields)
            newest = sorted(((txid, size) for txid, size in sizes.items() if txid <= needed), reverse=True)
            until = trim_until(newest, needed, keep_batches, keep_bytes)
            dropped = sorted(txid for txid, _ in newest if txid <= until)
            batches = [txid for txid in _txids(fields, "b:") if txid < until]
            kept = max(self._number(fields, "kept"), until)
            for at in range(0, max(1, len(dropped), len(batches)), _AT_ONCE):
                # `kept` changes with the first chunk, so that no start relies on batches that later chunks delete
                write = WriteRequest(self._meta).set(key, {"kept": kept} if "frozen" in fields else {})
                self._drop_frozen(write, group, dropped[at : at + _AT_ONCE], fields)
                write.drop(key, [f"{kind}:{txid}" for txid in batches[at : at + _AT_ONCE] for kind in "bc"])
                self._write(lease, write)
            of_contents = self._drop_contents(lease, group, until)
        return [*(folder for txid in dropped for folder in folders[txid]), *of_contents]

    def _drop_contents(self, lease: Lease, group: str, until: int) -> list[str]:
        """Drop the initial contents of a group's states that began before a txid, and return their folders of files."""
        old = [content for content in self._contents_of(group) if content[1] < until]
        if old:
            write = WriteRequest(self._meta).drop(self._states, [f"content:{state}" for state, *_ in old])
            self._write(lease, write.drop(self._contents, [state for state, *_ in old]))
        return [folder for *_, folder in old if folder]

    def _contents_of(self, group: str) -> list[tuple[str, int, str]]:
        """Return the states of a group whose initial content is kept, each with its txid and its folder of files."""
        fields = self._hash(self._states)
        about = {state: self._json(fields[f"content:{state}"]) for state in _names(fields, "content:")}
        return [(state, birth, folder) for state, (of, birth, folder, *_) in about.items() if of == group]

    def _frozen_batches(self, fields: dict[str, bytes]) -> tuple[dict[int, int], dict[int, list[str]]]:
        """Return the size of each frozen batch, and its folders."""
        sizes, folders = dict[int, int](), dict[int, list[str]]()
        for txid, (size, names) in self._sizes(fields):
            sizes[txid] = sizes.get(txid, 0) + size
            folders.setdefault(txid, []).extend(names)
        return sizes, folders

    def _drop_frozen(self, write: WriteRequest, group: str, txids: list[int], fields: dict[str, bytes]) -> None:
        """Add to a write the deletion of these frozen batches."""
        key = self._group_key(group)
        write.drop(key, [name for name in fields for txid in txids if name.startswith(f"s:{txid}:")])
        for txid in txids:
            write.delete(self._frozen_key(group, txid))

    def folders(self, group: str) -> set[str]:
        of_batches = {name for _, (_, names) in self._sizes(self._hash(self._group_key(group))) for name in names}
        return of_batches | {folder for *_, folder in self._contents_of(group) if folder}

    def _sizes(self, fields: Fields) -> Iterator[tuple[int, tuple[int, list[str]]]]:
        """Yield, for each frozen stage, its txid, its bytes and its folders."""
        for name, text in fields.items():
            if name.startswith("s:"):
                yield int(name.split(":")[1]), self._json(text)

    def kept_since(self, group: str) -> int:
        return self._number(self._hash(self._group_key(group)), "kept")

    def sync(self, lease: Lease) -> None:
        self._write(lease, WriteRequest(self._meta))

    def start_over(self, lease: Lease, origin: bytes) -> None:
        identity = {"format": FORMAT, "topology": self._topology, "uuid": uuid.uuid4().hex}
        begun: dict[str, bytes | str | int]
        begun = {**identity, "epoch": lease.epoch, "token": "", "last": "", "origin": origin}
        write = self._deleting().set(self._meta, begun)
        self._check_writable()
        with self._lock:
            self._writes += 1
            (reply,) = self._server.ask(write.packed(lease, self._writes))
            # otherwise the first send did it, and its reply was lost
            if self._identity()[2] != identity["uuid"].encode():
                self._check_reply(lease, reply)
        self._uuid = identity["uuid"]

    def drop(self, lease: Lease) -> None:
        """Delete the whole log in one write: a start must never continue from the rest of a partial deletion."""
        write = self._deleting()
        self._check_writable()
        with self._lock:
            self._writes += 1
            (reply,) = self._server.ask(write.packed(lease, self._writes))
            if reply[0] != b"GONE":  # GONE: the first send deleted the log, and its reply was lost
                self._check_reply(lease, reply)

    def _deleting(self) -> WriteRequest:
        """Return a write that deletes the whole log."""
        write = WriteRequest(self._meta)
        for group in self.groups():
            fields = self._hash(self._group_key(group))
            for txid in sorted({int(name.split(":")[1]) for name in fields if name.startswith("s:")}):
                write.delete(self._frozen_key(group, txid))
            write.delete(self._group_key(group))
        for key in (self._members, self._states, self._contents, self._meta):
            write.delete(key)
        return write

    def close(self) -> None:
        self._server.close()

    # --- commands ----------------------------------------------------------------------------------------------

    def _write(self, lease: Lease, write: WriteRequest, patience: float | None = None) -> None:
        """Carry out a write once, even if it is sent several times."""
        self._check_writable()
        with self._lock:
            self._writes += 1
            (reply,) = self._server.ask(write.packed(lease, self._writes), patience=patience)
            self._check_reply(lease, reply)

    def _check_reply(self, lease: Lease, reply: Sequence[bytes]) -> None:
        status, detail = str(reply[0], "ascii"), str(reply[1], "utf-8", "replace")
        if status == "GONE":
            raise self._gone()
        if status == "FENCED":
            raise self._taken_over(detail, lease)
        if status != "OK":
            what = f"it went back to epoch {detail}" if status == "REWOUND" else f"{detail!r} has another value"
            raise LogError(
                f"{self._where}: the server lost its last writes ({what}). This driver stops; the next start checks "
                f"whether the states can continue; if not, restore a newer copy of the log"
            )

    def _hash(self, key: bytes) -> Fields:
        (reply,) = self._server.ask(command(b"HGETALL", key))
        return {str(name, "utf-8"): value for name, value in zip(reply[::2], reply[1::2], strict=True)}

    def _key(self, part: str) -> bytes:
        return f"{self._base}:{part}".encode()

    def _group_key(self, group: str) -> bytes:
        return self._key(f"g:{group}")

    def _frozen_key(self, group: str, txid: int) -> bytes:
        return self._key(f"f:{group}:{txid}")

    def _number(self, fields: Fields, field: str) -> int:
        value = fields.get(field, b"0")
        if not value.isdigit():
            raise self._corrupt(f"{field} is not a number")
        return int(value)

    def _gone(self) -> LogError:
        return LogError(
            f"{self._where} is gone from its server, which was emptied or lost its data. Restore it from a copy, "
            f"or discard log and states together with {reset_with('name, log=...')}"
        )


def _reading_fields(readings: Mapping[str, bytes]) -> dict[str, bytes | str | int]:
    return {f"reading:{name}": body for name, body in readings.items()}


def _names(fields: Fields, prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in fields if name.startswith(prefix)]


def _txids(fields: Fields, prefix: str) -> set[int]:
    return {int(name) for name in _names(fields, prefix)}


def _text(value: object) -> bytes:
    return compact(value).encode()


def _size_text(outputs: Mapping[str, FrozenOutput]) -> bytes:
    """Return, as JSON, how many bytes a stage froze and the folders of its files."""
    size = sum(output.size for output in outputs.values())
    return _text([size, [folder_of(output) for output in outputs.values() if output.files]])


def _batch_text(txid: int, batch: BatchRecord) -> bytes:
    plan = compact(batch.plan)
    return _text([plan, batch.time, batch.outline, batch_checksum(txid, plan, batch.time, batch.outline)])
