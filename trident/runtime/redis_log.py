"""The transaction log as a few hashes in Redis, for a driver that may move to another machine.

Under one hash tag, so that a cluster keeps all of it on one server::

    prefix:{topology}:log:m                 format, uuid, lease, the last write's name, the groups
    prefix:{topology}:log:g:<group>         committed, frozen, kept, positions, plans (p:<txid>), sizes (s:<txid>)
    prefix:{topology}:log:f:<group>:<txid>  what a batch froze: an index a stage (<stage>), a body an output
    prefix:{topology}:log:s                 the states' births and manifests

Every write is one script: refused under another lease, or where a field is not what this driver knows it to be, done
as a whole else, and done once however often it is sent. The server writes and fsyncs it before it answers.
"""

import json
import secrets
import threading
import uuid
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from trident.base.attempt import Lease, TransactionAttempt
from trident.base.errors import FencedError, LogCorruptError, LogError
from trident.base.names import check_name
from trident.runtime.coordinator import History
from trident.runtime.events import BatchPlan, Positions
from trident.runtime.frozen import FrozenOutput, folder_of
from trident.runtime.log import Birth
from trident.runtime.log_server import FOUND, TAKE, LogServer
from trident.runtime.log_write import Write
from trident_state.redis.address import Address
from trident_state.redis.wire import bulks, call, command

FORMAT = "trident log 1"
MOST_BYTES = 256 << 20
"""What one batch may freeze; a server takes 512 MB in one argument, and holds a write twice while it does it."""

_AT_ONCE = 500
"""Batches that one write deletes."""

Fields = dict[str, bytes]


class RedisTransactionLog:
    """A topology's log on a server, made if it is not there. Thread-safe. See `TransactionLog` for what it promises;
    everything here is durable before it returns, as far as the server is.

    `reading`: only look; a log that is not there is a LogError.
    """

    def __init__(
        self, address: Address, prefix: str, topology: str, durable: bool, patience: float, reading: bool = False
    ) -> None:
        check_name("topology", topology)
        self._where = f"the log of topology {topology!r}"
        self._base = f"{prefix}:{{{topology}}}:log"
        self._meta, self._states = self._key("m"), self._key("s")
        self._lock = threading.RLock()
        self._reading = reading
        self._images: dict[str, Fields] = {}
        """What stands in the hash of each group, as this driver wrote it."""
        self._writes = 0
        self._server = LogServer(address, self._where, reading)
        try:
            if not reading:
                self._server.check(durable)
            self._uuid = self._look(topology) if reading else self._found(topology)
        except BaseException:
            self._server.close()
            raise
        self._server.patience = patience

    # --- identity and lease ------------------------------------------------------------------------------------

    def _found(self, topology: str) -> str:
        fields = [word.encode() for word in (FORMAT, topology, uuid.uuid4().hex)]
        (found,) = self._server.ask(call(FOUND, [bulks([self._meta])], *fields))
        return self._checked(found, topology)

    def _look(self, topology: str) -> str:
        (found,) = self._server.ask(command(b"HMGET", self._meta, b"format", b"topology", b"uuid"))
        if found == [None, None, None]:
            raise LogError(f"{self._where} is not there (no key {self._meta.decode()!r})")
        return self._checked(found, topology)

    def _checked(self, found: Sequence[bytes], topology: str) -> str:
        if list(found[:2]) != [FORMAT.encode(), topology.encode()] or not found[2]:
            raise self._corrupt(f"{self._meta.decode()} is not its beginning (this version reads {FORMAT!r})")
        return str(found[2], "ascii")

    @property
    def uuid(self) -> str:
        return self._uuid

    def take(self) -> Lease:
        token = secrets.token_hex(8)
        self._demand_writing()
        with self._lock:
            self._images.clear()
            (told,) = self._server.ask(call(TAKE, [bulks([self._meta])], token.encode(), self._uuid.encode()))
        if told[0] != b"OK":
            raise LogError(f"{self._where} is gone from its server, or another one stands there; start again")
        return Lease(int(told[1]), token)

    def lease(self) -> Lease | None:
        (found,) = self._server.ask(command(b"HMGET", self._meta, b"epoch", b"token"))
        if found[0] is None:
            raise self._gone()
        return Lease(int(found[0]), found[1].decode()) if int(found[0]) else None

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
        planned: list[tuple[int, BatchPlan]] = []
        for txid in sorted(txid for txid in _txids(fields, "p:") if txid > frozen):
            if txid != frozen + 1 + len(planned):
                raise self._corrupt(f"group {group!r} lacks the plan of batch {frozen + 1 + len(planned)}")
            attempt, plan, _ = self._plan_of(group, txid, fields[f"p:{txid}"])
            planned.append((attempt, plan))
        waiting = tuple(range(committed + 1, frozen + 1))
        there = self._server.ask(*[command(b"HEXISTS", self._frozen(group, txid), b"1") for txid in waiting])
        missing = [txid for txid, found in zip(waiting, there, strict=True) if not found]
        if missing:
            raise self._corrupt(f"group {group!r} lacks the frozen content of batch {missing[0]}")
        return History(committed, self._json(fields.get("positions", b"{}")), waiting, tuple(planned))

    def planned(self, lease: Lease, group: str, attempt: TransactionAttempt, plan: BatchPlan, time: float) -> None:
        text, txid, key = json.dumps(plan, separators=(",", ":")), attempt.txid, self._group(group)
        record = json.dumps([attempt.attempt, text, time, _plan_checksum(txid, text, time)]).encode()
        with self._lock:
            image = self._image(group)
            write, old = Write(self._meta), image.get(f"p:{txid}", b"")
            write.must(key, "frozen", image.get("frozen", b""))  # in one that fell back it would stand behind a gap
            write.must(key, f"p:{txid}", old).set(key, {f"p:{txid}": record})
            void = set[int]()
            if old and self._plan_of(group, txid, old)[1] != plan:  # as the coordinator compares: order means nothing
                void = {later for later in _txids(image, "p:") if later > txid}
            self._write(lease, write.drop(key, [f"p:{later}" for later in void]))
            image[f"p:{txid}"] = record
            for later in void:
                del image[f"p:{later}"]

    def unplanned(self, lease: Lease, group: str, txid: int) -> None:
        with self._lock:
            image, key = self._image(group), self._group(group)
            void = [f"p:{later}" for later in _txids(image, "p:") if later >= txid]
            self._write(lease, Write(self._meta).drop(key, void))
            for field in void:
                del image[field]

    def plan(self, group: str, txid: int) -> tuple[BatchPlan, float] | None:
        (found,) = self._server.ask(command(b"HGET", self._group(group), b"p:%d" % txid))
        return None if found is None else self._plan_of(group, txid, found)[1:]

    def freeze(
        self,
        lease: Lease,
        group: str,
        attempt: TransactionAttempt,
        positions: Positions,
        outputs: Mapping[str, FrozenOutput],
    ) -> None:
        txid, key = attempt.txid, self._group(group)
        with self._lock:
            image = self._image(group)
            if self._number(image, "frozen") != txid - 1:
                self.sync(lease)
                raise LogError(f"group {group!r}: batch {txid} cannot freeze, it does not follow the last one")
            fields = {
                "frozen": b"%d" % txid,
                "positions": json.dumps(positions, separators=(",", ":")).encode(),
                f"s:{txid}": _size_record(outputs),
            }
            write = Write(self._meta).must(key, "frozen", image.get("frozen", b""))
            write.set(self._frozen(group, txid), self._content(group, txid, 1, outputs)).set(key, fields)
            self._write(lease, write.set(self._meta, {f"group:{group}": 1}))
            image.update(fields)

    def freeze_stage(
        self, lease: Lease, group: str, txid: int, stage: int, outputs: Mapping[str, FrozenOutput]
    ) -> None:
        place, key = self._frozen(group, txid), self._group(group)
        with self._lock:
            if self._server.ask(command(b"HEXISTS", place, b"%d" % stage))[0]:
                self.sync(lease)
                return
            image = self._image(group)
            old = image.get(f"s:{txid}", b"[0,[]]")
            fields = {f"s:{txid}": _size_record(outputs, self._json(old))}
            write = Write(self._meta).must(place, str(stage), b"")
            write.set(place, self._content(group, txid, stage, outputs)).set(key, fields)
            self._write(lease, write)
            image.update(fields)

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
            image = self._image(group)
            if self._number(image, "committed") != txid - 1 or self._number(image, "frozen") < txid:
                self.sync(lease)
                raise LogError(f"group {group!r}: batch {txid} cannot commit, it is not the next frozen one")
            write = Write(self._meta).must(key, "committed", image.get("committed", b""))
            write.must(key, "frozen", image["frozen"])
            self._write(lease, write.set(key, {"committed": txid}))
            image["committed"] = b"%d" % txid

    # --- states ------------------------------------------------------------------------------------------------

    def births(self) -> dict[str, Birth]:
        fields = self._all(self._states)
        births = {name.removeprefix("birth:"): text for name, text in fields.items() if name.startswith("birth:")}
        return {name: Birth(*self._json(text)) for name, text in births.items()}

    def born(self, lease: Lease, state: str, birth: Birth) -> None:
        text = json.dumps([birth.group, birth.txid, lease.epoch])
        write = Write(self._meta).set(self._states, {f"birth:{state}": text})
        self._write(lease, write.drop(self._states, [f"manifest:{state}"]))

    def forget(self, lease: Lease, state: str) -> None:
        write = Write(self._meta).drop(self._states, [f"birth:{state}", f"manifest:{state}"])
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
            image = self._image(group)
            txids = sorted((txid for txid in _txids(image, "s:") if txid <= needed), reverse=True)
            records = {txid: self._json(image[f"s:{txid}"]) for txid in txids}
            until, total = needed - min(keep_batches, len(txids)), 0
            for txid in txids[:keep_batches]:
                total += records[txid][0]
                if total > keep_bytes:
                    until = max(until, txid)
                    break
            kept = max(self._number(image, "kept"), until)
            gone = sorted(txid for txid in txids if txid <= until)
            plans = [txid for txid in _txids(image, "p:") if txid < until]
            for at in range(0, max(1, len(gone), len(plans)), _AT_ONCE):
                now = gone[at : at + _AT_ONCE]
                fields = [f"s:{txid}" for txid in now] + [f"p:{txid}" for txid in plans[at : at + _AT_ONCE]]
                write = Write(self._meta).set(key, {"kept": kept}) if self._known(image) else Write(self._meta)
                write.drop(key, fields)
                for txid in now:
                    write.delete(self._frozen(group, txid))
                self._write(lease, write)
                for field in fields:
                    del image[field]
            if self._known(image):
                image["kept"] = b"%d" % kept
        return [folder for txid in gone for folder in records[txid][1]]

    def folders(self, group: str) -> set[str]:
        fields = self._all(self._group(group))
        return {folder for txid in _txids(fields, "s:") for folder in self._json(fields[f"s:{txid}"])[1]}

    def kept_since(self, group: str) -> int:
        return self._number(self._all(self._group(group)), "kept")

    def sync(self, lease: Lease) -> None:
        self._write(lease, Write(self._meta))

    def drop(self) -> None:
        """Delete all of it; whoever holds it then stops. Its beginning goes last, so that this can be repeated."""
        self._demand_writing()
        with self._lock:
            for group in self.groups():
                key = self._group(group)
                names = [self._frozen(group, txid) for txid in sorted(_txids(self._all(key), "s:"))]
                for at in range(0, len(names), _AT_ONCE):
                    self._server.ask(command(b"UNLINK", *names[at : at + _AT_ONCE]))
                self._server.ask(command(b"UNLINK", key))
            self._server.ask(command(b"UNLINK", self._states), command(b"UNLINK", self._meta))
            self._images.clear()

    def close(self) -> None:
        self._server.close()

    # --- how ---------------------------------------------------------------------------------------------------

    def _write(self, lease: Lease, write: Write) -> None:
        """Do a write, once."""
        self._demand_writing()
        with self._lock:
            self._writes += 1
            try:
                (told,) = self._server.ask(write.packed(lease, f"{lease.token}.{self._writes}"))
                self._demand(lease, told)
            except BaseException:
                self._images.clear()  # whether it was done is not known
                raise

    def _demand_writing(self) -> None:
        if self._reading:
            raise LogError(f"{self._where} was opened to be read, and cannot be written")

    def _demand(self, lease: Lease, told: Sequence[bytes]) -> None:
        status, detail = str(told[0], "ascii"), str(told[1], "utf-8", "replace")
        if status == "GONE":
            raise self._gone()
        if status == "FENCED":
            raise FencedError(
                f"{self._where} was taken over by another driver (epoch {detail}, ours is {lease.epoch}); "
                f"this one stops without writing"
            )
        if status != "OK":
            what = f"it fell back to epoch {detail}" if status == "REWOUND" else f"{detail!r} is not what it was"
            raise LogError(
                f"{self._where}: the server lost its last writes ({what}). This driver stops; the next start tells "
                f"whether the states can go on, else restore a newer copy of the log"
            )

    def _image(self, group: str) -> Fields:
        if group not in self._images:
            self._images[group] = self._all(self._group(group))
        return self._images[group]

    def _all(self, key: bytes) -> Fields:
        (found,) = self._server.ask(command(b"HGETALL", key))
        return {str(name, "utf-8"): value for name, value in zip(found[::2], found[1::2], strict=True)}

    @staticmethod
    def _known(image: Fields) -> bool:
        return "frozen" in image

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

    def _plan_of(self, group: str, txid: int, record: bytes) -> tuple[int, BatchPlan, float]:
        try:
            attempt, text, time, checksum = self._json(record)
        except (TypeError, ValueError):
            raise self._corrupt(f"group {group!r}: the plan of batch {txid} is no plan") from None
        if _plan_checksum(txid, text, time) != checksum:
            raise self._corrupt(f"group {group!r}: the checksum of the plan of batch {txid} does not fit")
        return attempt, self._json(text), time

    def _json(self, text: bytes | str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise self._corrupt(f"a field is not JSON: {error}") from error

    def _gone(self) -> LogError:
        return LogError(
            f"{self._where} is gone from its server, which was emptied or lost everything. Restore it from a copy, or "
            f"give up log and states together with topology.reset(name, log=...)"
        )

    def _corrupt(self, what: str) -> LogCorruptError:
        return LogCorruptError(
            f"{self._where} is damaged: {what}. Nothing was written. Restore it from a copy, "
            f"or give up log and states together with topology.reset(name, log=...)"
        )


def _txids(fields: Fields, prefix: str) -> set[int]:
    return {int(name.removeprefix(prefix)) for name in fields if name.startswith(prefix)}


def _size_record(outputs: Mapping[str, FrozenOutput], before: Sequence[Any] = (0, ())) -> bytes:
    """How many bytes a batch froze, and the folders of its files."""
    size = before[0] + sum(output.size for output in outputs.values())
    folders = [*before[1], *(folder_of(output) for output in outputs.values() if output.files)]
    return json.dumps([size, folders], separators=(",", ":")).encode()


def _plan_checksum(txid: int, plan: str, time: float) -> int:
    return zlib.crc32(f"{txid}|{time!r}|{plan}".encode())
