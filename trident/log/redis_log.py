"""The transaction log as a few hashes in Redis, for a driver that may move to another machine.

Under one hash tag, so that a cluster keeps all of it on one server::

    prefix:{topology}:log:m                 format, uuid, lease, the last write's number, the groups, every lease given
                                            (lease:<epoch>) since an epoch (since)
    prefix:{topology}:log:t                 streams (stream:<name>, position:<name>) and outputs (output:<name>)
    prefix:{topology}:log:g:<group>         committed, frozen, kept, batches (b:<txid>), attempts (a:<txid>),
                                            sizes (s:<txid>:<stage>)
    prefix:{topology}:log:f:<group>:<txid>  what a batch froze: an index a stage (<stage>), a body an output
    prefix:{topology}:log:s                 the states' births and manifests; founding:<state> until a store is made

Every write is one script. It is refused under another lease, or where a field is not what this driver knows it to be;
else it is done as a whole. Writes are numbered under each lease: one that arrives twice, or late, after newer ones,
changes nothing. The server writes and fsyncs it before it answers.
"""

import json
import secrets
import threading
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence

from trident.base.attempt import Lease
from trident.base.errors import LogError
from trident.base.names import check_name
from trident.log.base import LogBase, compact, trim_until
from trident.log.frozen_results import FrozenOutput, folder_of
from trident.log.history import AttemptRecord, History, Positions
from trident.log.migration import FORMER_REDIS, batch_checksum, check_nothing_waits, migrated_group
from trident.log.protocol import BatchRecord, Birth, Members, StreamRecord
from trident.log.redis_server import FOUND, TAKE, LogServer
from trident.log.redis_write import Write
from trident_state.redis.address import Address
from trident_state.redis.wire import bulks, call, command

FORMAT = "trident log 2"
MOST_BYTES = 256 << 20
"""What one batch may freeze; a server takes 512 MB in one argument, and holds a write twice while it does it."""

_AT_ONCE = 500
"""Batches that one write deletes."""

Fields = dict[str, bytes]


class LogAbsentError(LogError):
    """There is no log in that place."""


class RedisTransactionLog(LogBase):
    """A topology's log on a server, made if it is not there. Thread-safe. See `TransactionLog` for what it promises;
    everything here is durable before it returns, as far as the server is.

    `reading`: only look; a log that is not there is a LogError. `dropping`: the same, and it is then taken and dropped,
    whatever its format and however its server is set.
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
        self._base = f"{prefix}:{{{topology}}}:log"
        self._meta, self._states, self._members = self._key("m"), self._key("s"), self._key("t")
        self._lock = threading.RLock()
        self._frozen_upto: dict[str, int] = {}
        """The last frozen txid of each group, as this driver knows it."""
        self._writes = 0
        self._server = LogServer(address, self._where, reading)
        try:
            if not reading and not dropping:
                self._server.check(durable)
            if dropping:
                self._uuid = str(self._beginning()[2] or b"", "ascii", "replace")
            else:
                self._uuid = self._look(topology) if reading else self._found(topology)
        except BaseException:
            self._server.close()
            raise
        self._server.patience = patience

    # --- identity and lease ------------------------------------------------------------------------------------

    def _found(self, topology: str) -> str:
        fields = [word.encode() for word in (FORMAT, topology, uuid.uuid4().hex)]
        (found,) = self._server.ask(call(FOUND, [bulks([self._meta])], *fields))
        if found[0] == FORMER_REDIS.encode():
            self._migrate()
            found = [FORMAT.encode(), *found[1:]]
        return self._checked(found, topology)

    def _migrate(self) -> None:
        """Bring a log of version 0.1.0 into today's format, in one write under whatever lease is in force: it ends with
        that, and so does a driver of that version that runs."""
        lease, hashes = self.lease(), {group: self._all(self._group(group)) for group in self.groups()}
        stands = [
            (g, self._number(fields, "committed"), self._number(fields, "frozen")) for g, fields in hashes.items()
        ]
        check_nothing_waits(self._where, stands)
        write = Write(self._meta).set(self._meta, {"format": FORMAT, "token": ""})
        for group, fields in hashes.items():
            key = self._group(group)
            write.must(key, "frozen", fields["frozen"])
            streams, new, gone = migrated_group(group, fields)
            write.drop(key, gone).set(key, new).set(self._members, streams)
        self._write(lease or Lease(0, ""), write)

    def _look(self, topology: str) -> str:
        return self._checked(self._beginning(), topology)

    def _beginning(self) -> list[bytes]:
        """Return its format, topology and uuid. Raises LogAbsentError where there is none."""
        (found,) = self._server.ask(command(b"HMGET", self._meta, b"format", b"topology", b"uuid"))
        if found == [None, None, None]:
            raise LogAbsentError(f"{self._where} is not there (no key {self._meta.decode()!r})")
        return list(found)

    def _checked(self, found: Sequence[bytes], topology: str) -> str:
        if found[0] == FORMER_REDIS.encode():
            raise self._former()
        if list(found[:2]) != [FORMAT.encode(), topology.encode()] or not found[2]:
            raise self._corrupt(f"{self._meta.decode()} is not its beginning (this version reads {FORMAT!r})")
        return str(found[2], "ascii")

    @property
    def uuid(self) -> str:
        return self._uuid

    def take(self) -> Lease:
        token = secrets.token_hex(8)
        self._check_writing()
        with self._lock:
            (told,) = self._server.ask(call(TAKE, [bulks([self._meta])], token.encode(), self._uuid.encode()))
        if told[0] != b"OK":
            raise LogError(f"{self._where} is gone from its server, or another one stands there; start again")
        return Lease(int(told[1]), token)

    def lease(self) -> Lease | None:
        (found,) = self._server.ask(command(b"HMGET", self._meta, b"epoch", b"token"))
        if found[0] is None:
            raise self._gone()
        return Lease(int(found[0]), found[1].decode()) if int(found[0]) else None

    def gave(self, lease: Lease) -> bool:
        (found,) = self._server.ask(command(b"HMGET", self._meta, b"lease:%d" % lease.epoch, b"since"))
        if found[0] is not None:
            return bool(found[0] == lease.token.encode())
        return found[1] is None or lease.epoch < int(found[1])

    def give_back(self, lease: Lease) -> None:
        self._server.patience = 0.0  # an end waits for no server
        self._write(lease, Write(self._meta).set(self._meta, {"token": ""}))

    # --- batches -----------------------------------------------------------------------------------------------

    def groups(self) -> list[str]:
        meta = self._all(self._meta)
        return sorted(name.removeprefix("group:") for name in meta if name.startswith("group:"))

    def history(self, group: str) -> History:
        fields = self._all(self._group(group))
        committed, frozen = self._number(fields, "committed"), self._number(fields, "frozen")
        waiting = tuple(range(committed + 1, frozen + 1))
        there = self._server.ask(*[command(b"HEXISTS", self._frozen(group, txid), b"1") for txid in waiting])
        self._check_complete(group, waiting, there)
        self._frozen_upto[group] = frozen
        streams = self.members().streams.items()
        positions = {name: stream.position for name, stream in streams if stream.group == group and stream.active}
        return History(committed, positions, waiting)

    def members(self) -> Members:
        fields = self._all(self._members)
        streams = dict[str, StreamRecord]()
        for name in _names(fields, "stream:"):
            group, *more = self._json(fields[f"stream:{name}"])
            streams[name] = self._stream(group, self._json(fields.get(f"position:{name}", b"null")), *more)
        return Members(streams, {name: fields[f"output:{name}"].decode() for name in _names(fields, "output:")})

    def enroll(self, lease: Lease, members: Members) -> None:
        fields = dict[str, bytes | str | int]()
        for name, stream in members.streams.items():
            fields[f"stream:{name}"] = _text(
                [stream.group, stream.source, stream.active, stream.began, stream.feeds, stream.parted]
            )
            fields[f"position:{name}"] = _text(stream.position)
        fields |= {f"output:{name}": group for name, group in members.outputs.items()}
        write = Write(self._meta).delete(self._members).set(self._members, fields)
        known = self.groups()
        for group, txid in members.founded.items():
            if group not in known:
                write.set(self._group(group), {"committed": txid, "frozen": txid, "kept": txid})
                write.set(self._meta, {f"group:{group}": 1})
                self._frozen_upto[group] = txid
        self._write(lease, write)

    def attempts(self, group: str) -> dict[int, AttemptRecord]:
        fields = self._all(self._group(group))
        return {txid: AttemptRecord(*self._json(fields[f"a:{txid}"])) for txid in _txids(fields, "a:")}

    def attempted(self, lease: Lease, group: str, txid: int, record: AttemptRecord) -> None:
        text = _text([record.number, record.epoch, record.deaths, dict(record.digests)])
        self._write(lease, Write(self._meta).set(self._group(group), {f"a:{txid}": text}))

    def batch(self, group: str, txid: int) -> BatchRecord | None:
        (found,) = self._server.ask(command(b"HGET", self._group(group), b"b:%d" % txid))
        if found is None:
            return None
        try:
            plan, time, outline, checksum = self._json(found)
        except (TypeError, ValueError):
            raise self._corrupt(f"group {group!r}: the plan of batch {txid} is no plan") from None
        return self._record(group, txid, plan, time, outline, checksum)

    def freeze(
        self,
        lease: Lease,
        group: str,
        txid: int,
        batch: BatchRecord,
        positions: Positions,
        outputs: Mapping[str, FrozenOutput],
    ) -> None:
        key = self._group(group)
        with self._lock:
            if self._frozen_upto.get(group) != txid - 1:
                self.sync(lease)
                raise LogError(f"group {group!r}: batch {txid} cannot freeze, it does not follow the last one")
            write = Write(self._meta).must(key, "frozen", b"%d" % (txid - 1))
            write.set(self._frozen(group, txid), self._content(group, txid, 1, outputs))
            fields: dict[str, bytes | str | int]
            fields = {"frozen": txid, f"b:{txid}": _batch_text(txid, batch), f"s:{txid}:1": _size_text(outputs)}
            write.set(key, fields).drop(key, [f"a:{txid}"])
            for name, position in positions.items():
                write.set(self._members, {f"position:{name}": _text(position)})
            self._write(lease, write)
            self._frozen_upto[group] = txid

    def freeze_stage(
        self, lease: Lease, group: str, txid: int, stage: int, outputs: Mapping[str, FrozenOutput]
    ) -> None:
        place = self._frozen(group, txid)
        with self._lock:
            if self._server.ask(command(b"HEXISTS", place, b"%d" % stage))[0]:
                self.sync(lease)
                return
            write = Write(self._meta).must(place, str(stage), b"")
            write.set(place, self._content(group, txid, stage, outputs))
            self._write(lease, write.set(self._group(group), {f"s:{txid}:{stage}": _size_text(outputs)}))

    def _content(
        self, group: str, txid: int, stage: int, outputs: Mapping[str, FrozenOutput]
    ) -> dict[str, bytes | str | int]:
        """The fields of what a stage froze."""
        size = sum(len(output.body) for output in outputs.values())
        if size > MOST_BYTES:
            raise LogError(
                f"{self._where}: batch {txid} of group {group!r} froze {size} bytes, and one in Redis takes at most "
                f"{MOST_BYTES}. Make batches smaller, or give a checkpointLocation that all executors reach"
            )
        index = {name: [int(o.files), o.rows, o.checksum] for name, o in outputs.items()}
        bodies: dict[str, bytes | str | int] = {f"{stage}/{name}": o.body for name, o in outputs.items()}
        return bodies | {str(stage): json.dumps(index)}

    def frozen(self, group: str, txid: int, stage: int) -> dict[str, FrozenOutput] | None:
        place = self._frozen(group, txid)
        (index,) = self._server.ask(command(b"HGET", place, b"%d" % stage))
        if index is None:
            return None
        found: dict[str, list[int]] = self._json(index)
        if not found:
            return {}
        (bodies,) = self._server.ask(command(b"HMGET", place, *[f"{stage}/{name}".encode() for name in found]))
        if None in bodies:
            raise self._corrupt(f"group {group!r}: a part of what batch {txid} froze is missing")
        return {
            name: FrozenOutput(body, bool(files), rows, checksum)
            for (name, (files, rows, checksum)), body in zip(found.items(), bodies, strict=True)
        }

    def committed(self, lease: Lease, group: str, txid: int) -> None:
        key = self._group(group)
        with self._lock:
            (stood,) = self._server.ask(command(b"HGET", key, b"committed"))
            frozen = self._frozen_upto.get(group, 0)
            if stood != b"%d" % (txid - 1) or frozen < txid:
                self.sync(lease)
                raise LogError(f"group {group!r}: batch {txid} cannot commit, it is not the next frozen one")
            write = Write(self._meta).must(key, "committed", stood).must(key, "frozen", b"%d" % frozen)
            self._write(lease, write.set(key, {"committed": txid}))

    # --- states ------------------------------------------------------------------------------------------------

    def births(self) -> dict[str, Birth]:
        fields = self._all(self._states)
        births = {name.removeprefix("birth:"): text for name, text in fields.items() if name.startswith("birth:")}
        found = dict[str, Birth]()
        for name, text in births.items():
            group, txid, epoch = self._json(text)
            found[name] = Birth(group, txid, epoch, founded=f"founding:{name}" not in fields)
        return found

    def born(self, lease: Lease, state: str, birth: Birth) -> None:
        text = json.dumps([birth.group, birth.txid, lease.epoch])
        write = Write(self._meta).set(self._states, {f"birth:{state}": text, f"founding:{state}": ""})
        self._write(lease, write.drop(self._states, [f"manifest:{state}"]))

    def founded(self, lease: Lease, states: Collection[str]) -> None:
        self._write(lease, Write(self._meta).drop(self._states, [f"founding:{state}" for state in states]))

    def forget(self, lease: Lease, state: str) -> None:
        kept = [f"{what}:{state}" for what in ("birth", "manifest", "founding")]
        write = Write(self._meta).drop(self._states, kept)
        self._write(lease, write)

    def manifest(self, state: str) -> bytes | None:
        (found,) = self._server.ask(command(b"HGET", self._states, f"manifest:{state}".encode()))
        return None if found is None else bytes(found)

    def publish(self, lease: Lease, state: str, manifest: bytes) -> None:
        (birth,) = self._server.ask(command(b"HGET", self._states, f"birth:{state}".encode()))
        if birth is None:
            self.sync(lease)
            raise LogError(f"state {state!r} cannot publish a snapshot: this log does not know it")
        write = Write(self._meta).must(self._states, f"birth:{state}", birth)
        self._write(lease, write.set(self._states, {f"manifest:{state}": manifest}))

    # --- what may go -------------------------------------------------------------------------------------------

    def trim(self, lease: Lease, group: str, needed: int, keep_batches: int, keep_bytes: int) -> list[str]:
        key = self._group(group)
        with self._lock:
            fields = self._all(key)
            sizes = dict[int, int]()
            folders = dict[int, list[str]]()
            for txid, (size, names) in self._sizes(fields):
                sizes[txid] = sizes.get(txid, 0) + size
                folders.setdefault(txid, []).extend(names)
            newest = sorted((each for each in sizes.items() if each[0] <= needed), reverse=True)
            until = trim_until(newest, needed, keep_batches, keep_bytes)
            gone = sorted(txid for txid, _ in newest if txid <= until)
            batches = [txid for txid in _txids(fields, "b:") if txid < until]
            kept = max(self._number(fields, "kept"), until)
            for at in range(0, max(1, len(gone), len(batches)), _AT_ONCE):
                now = gone[at : at + _AT_ONCE]
                write = Write(self._meta).set(key, {"kept": kept} if "frozen" in fields else {})
                write.drop(key, [name for name in fields for txid in now if name.startswith(f"s:{txid}:")])
                write.drop(key, [f"b:{txid}" for txid in batches[at : at + _AT_ONCE]])
                for txid in now:
                    write.delete(self._frozen(group, txid))
                self._write(lease, write)
        return [folder for txid in gone for folder in folders[txid]]

    def folders(self, group: str) -> set[str]:
        return {folder for _, (_, folders) in self._sizes(self._all(self._group(group))) for folder in folders}

    def _sizes(self, fields: Fields) -> Iterator[tuple[int, tuple[int, list[str]]]]:
        """Yield what the stages of batches froze: txid, bytes and folders."""
        for name, text in fields.items():
            if name.startswith("s:"):
                yield int(name.split(":")[1]), self._json(text)

    def kept_since(self, group: str) -> int:
        return self._number(self._all(self._group(group)), "kept")

    def sync(self, lease: Lease) -> None:
        self._write(lease, Write(self._meta))

    def drop(self, lease: Lease) -> None:
        """Delete all of it, in one write: a log of which only a part is gone would have a start go on from what is
        left."""
        write = Write(self._meta)
        for group in self.groups():
            fields = self._all(self._group(group))
            for txid in sorted({int(name.split(":")[1]) for name in fields if name.startswith("s:")}):
                write.delete(self._frozen(group, txid))
            write.delete(self._group(group))
        for key in (self._members, self._states, self._meta):
            write.delete(key)
        self._check_writing()
        with self._lock:
            self._writes += 1
            (told,) = self._server.ask(write.packed(lease, self._writes))
            if told[0] != b"GONE":  # then it was done, and its reply was lost
                self._check(lease, told)

    def close(self) -> None:
        self._server.close()

    # --- how ---------------------------------------------------------------------------------------------------

    def _write(self, lease: Lease, write: Write) -> None:
        """Do a write, once."""
        self._check_writing()
        with self._lock:
            self._writes += 1
            (told,) = self._server.ask(write.packed(lease, self._writes))
            self._check(lease, told)

    def _check(self, lease: Lease, told: Sequence[bytes]) -> None:
        status, detail = str(told[0], "ascii"), str(told[1], "utf-8", "replace")
        if status == "GONE":
            raise self._gone()
        if status == "FENCED":
            raise self._taken_over(detail, lease)
        if status != "OK":
            what = f"it fell back to epoch {detail}" if status == "REWOUND" else f"{detail!r} is not what it was"
            raise LogError(
                f"{self._where}: the server lost its last writes ({what}). This driver stops; the next start tells "
                f"whether the states can go on, else restore a newer copy of the log"
            )

    def _all(self, key: bytes) -> Fields:
        (found,) = self._server.ask(command(b"HGETALL", key))
        return {str(name, "utf-8"): value for name, value in zip(found[::2], found[1::2], strict=True)}

    def _key(self, part: str) -> bytes:
        return f"{self._base}:{part}".encode()

    def _group(self, group: str) -> bytes:
        return self._key(f"g:{group}")

    def _frozen(self, group: str, txid: int) -> bytes:
        return self._key(f"f:{group}:{txid}")

    def _number(self, fields: Fields, field: str) -> int:
        value = fields.get(field, b"0")
        if not value.isdigit():
            raise self._corrupt(f"{field} is no number")
        return int(value)

    def _gone(self) -> LogError:
        return LogError(
            f"{self._where} is gone from its server, which was emptied or lost everything. Restore it from a copy, or "
            f"give up log and states together with topology.reset(name, log=...)"
        )


def _names(fields: Fields, prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in fields if name.startswith(prefix)]


def _txids(fields: Fields, prefix: str) -> set[int]:
    return {int(name) for name in _names(fields, prefix)}


def _text(value: object) -> bytes:
    return compact(value).encode()


def _size_text(outputs: Mapping[str, FrozenOutput]) -> bytes:
    """Return how many bytes a stage froze, and the folders of its files."""
    size = sum(output.size for output in outputs.values())
    return _text([size, [folder_of(output) for output in outputs.values() if output.files]])


def _batch_text(txid: int, batch: BatchRecord) -> bytes:
    plan = compact(batch.plan)
    return _text([plan, batch.time, batch.outline, batch_checksum(txid, plan, batch.time, batch.outline)])
