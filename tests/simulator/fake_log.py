"""A transaction log in memory, with the contract of the real one: its leases, its conditions, and what a power loss
takes from it. ``test_fake_log.py`` holds it against the SQLite log."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from tests.simulator.scheduler import Scheduler
from trident.base.attempt import Holder, Lease
from trident.base.errors import FencedError, LogCorruptError, LogError
from trident.log.frozen_results import FrozenOutput, folder_of
from trident.log.group_records import AttemptRecord, History, Positions
from trident.log.protocol import BatchRecord, Birth, Members, OutputProgress, Restoration

Outputs = dict[str, FrozenOutput]
Undo = Callable[[], None]
"""Takes a write back."""


@dataclass
class Group:
    committed: int = 0
    frozen: int = 0
    kept: int = 0


@dataclass
class State:
    birth: Birth
    manifest: bytes | None = None
    content: FrozenOutput | None = None


@dataclass
class LogDisk:
    """What the log's file holds. `unsynced`: how to take back each write that no fsync followed."""

    uuid: str = "log"
    epoch: int = 0
    token: str = ""
    takes: int = 0
    writes: int = 0
    holder: Holder | None = None
    origin: bytes | None = None
    leases: dict[int, str] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    members: Members = Members()
    attempts: dict[tuple[str, int], AttemptRecord] = field(default_factory=dict)
    batches: dict[tuple[str, int], BatchRecord] = field(default_factory=dict)
    frozen: dict[tuple[str, int, int], Outputs] = field(default_factory=dict)
    times: dict[tuple[str, int], float] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)
    outputs: dict[str, OutputProgress] = field(default_factory=dict)
    readings: dict[str, bytes] = field(default_factory=dict)
    handed: dict[str, tuple[int, int]] = field(default_factory=dict)
    unsynced: list[Undo] = field(default_factory=list)

    def copy(self) -> "LogDisk":
        """As a copy of the file holds it."""
        groups = {name: replace(group) for name, group in self.groups.items()}
        states = {name: replace(state) for name, state in self.states.items()}
        return replace(
            self,
            groups=groups,
            states=states,
            attempts=dict(self.attempts),
            batches=dict(self.batches),
            frozen=dict(self.frozen),
            times=dict(self.times),
            outputs=dict(self.outputs),
            readings=dict(self.readings),
            handed=dict(self.handed),
            unsynced=[],
        )

    def put_back(self, copy: "LogDisk") -> None:
        """The file is replaced by an older copy of it; tokens stay random."""
        takes = self.takes
        self.__dict__.update(copy.copy().__dict__)
        self.takes = takes

    def lose(self, count: int) -> None:
        """Take back the last writes, at most those that no fsync followed."""
        for _ in range(min(count, len(self.unsynced))):
            self.unsynced.pop()()
        self.unsynced.clear()


class FakeLog:
    """One driver's handle of the log. `faulty` says of each write whether it fails, before or after it is done."""

    def __init__(self, disk: LogDisk, scheduler: Scheduler, faulty: Callable[[str], str | None]) -> None:
        self._disk, self._scheduler, self._faulty = disk, scheduler, faulty
        self.frozen_heard: Callable[[str, int], None] = lambda group, txid: None
        self.committed_heard: Callable[[str, int], None] = lambda group, txid: None
        self.founded_heard: Callable[[Collection[str]], None] = lambda states: None
        self.uuid = disk.uuid
        self._written, self._wrote = 0, False
        """How often this handle wrote; whether it did since the last `renew`."""

    def at_once(self) -> nullcontext[None]:
        return nullcontext()

    def size(self) -> int | None:
        return None

    def files_address(self) -> str:
        return ""

    def origin(self) -> bytes | None:
        return self._disk.origin

    def keep_origin(self, lease: Lease, origin: bytes) -> None:
        def write(disk: LogDisk) -> Undo:
            disk.origin = origin
            return _nothing

        self._write(lease, "log.keep_origin", write, durable=True)

    def keep_files_at(self, lease: Lease, address: str) -> None:
        raise AssertionError("no file of the simulator lies on an object store")

    # --- lease ---------------------------------------------------------------------------------------------------

    def take(self, holder: Holder | None = None, after: Lease | None = None) -> Lease:
        taken: list[Lease] = []

        def write(disk: LogDisk) -> Undo:
            if after is not None and after != Lease(disk.epoch, disk.token):
                raise FencedError(f"the log was taken meanwhile by another driver (epoch {disk.epoch})")
            disk.epoch += 1
            disk.holder = holder and msgspec.structs.replace(holder, epoch=disk.epoch)
            disk.takes += 1
            disk.token = f"token{disk.takes}"
            disk.leases = {**disk.leases, disk.epoch: disk.token}
            taken.append(Lease(disk.epoch, disk.token))
            return _nothing

        self._write(None, "take", write, durable=True)
        return taken[0]

    def lease(self) -> Lease | None:
        return Lease(self._disk.epoch, self._disk.token) if self._disk.epoch else None

    def holder(self) -> Holder | None:
        return self._disk.holder if self._disk.token else None

    def renew(self, lease: Lease) -> None:
        if not self._wrote:
            self._write(lease, "log.renew", lambda disk: _nothing)
        self._wrote = False

    def renewals(self) -> object:
        return self._disk.writes - self._written

    def issued(self, lease: Lease) -> bool:
        return self._disk.leases.get(lease.epoch) == lease.token

    def give_back(self, lease: Lease) -> None:
        def write(disk: LogDisk) -> Undo:
            disk.token = ""
            return _nothing  # a power loss that takes it back leaves a lease that nobody has any more

        self._write(lease, "log.give_back", write)

    # --- batches -------------------------------------------------------------------------------------------------

    def groups(self) -> list[str]:
        return sorted(self._disk.groups)

    def history(self, group: str) -> History:
        disk, found = self._disk, self._disk.groups.get(group) or Group()
        waiting = tuple(range(found.committed + 1, found.frozen + 1))
        frozen = {txid for name, txid, _ in disk.frozen if name == group}
        if not frozen.issuperset(waiting):
            raise LogCorruptError(f"group {group!r} lacks the frozen content of a batch")
        streams = disk.members.streams.items()
        positions = {name: stream.position for name, stream in streams if stream.group == group and stream.active}
        return History(found.committed, positions, waiting)

    def last_committed(self, group: str) -> int:
        return (self._disk.groups.get(group) or Group()).committed

    def members(self) -> Members:
        return self._disk.members

    def start_over(self, lease: Lease, origin: bytes) -> None:
        raise AssertionError("no fork of the simulator is reset by the library")

    def enroll(self, lease: Lease, members: Members) -> None:
        def write(disk: LogDisk) -> Undo:
            disk.members = replace(members, founded={})
            for group, txid in members.founded.items():
                disk.groups.setdefault(group, Group(txid, txid, txid))
            return _nothing

        self._write(lease, "log.enroll", write, durable=True)

    def restore(self, lease: Lease, restoration: Restoration) -> None:
        def write(disk: LogDisk) -> Undo:
            for group, txid in restoration.batches.items():
                known = disk.groups[group]
                if (known.committed, known.frozen) != (txid - 1, txid - 1):
                    raise LogError(f"group {group!r}: batch {txid} does not follow the last committed batch")
            for group, txid in restoration.batches.items():
                last = disk.batches.get((group, txid - 1))
                disk.groups[group].frozen = disk.groups[group].committed = txid
                disk.batches[group, txid] = BatchRecord({}, restoration.time, "" if last is None else last.outline)
                disk.frozen[group, txid, 1] = {}
                disk.times[group, txid] = restoration.time
                _drop(disk.attempts, lambda key, group=group, txid=txid: key[0] == group and key[1] <= txid)
            disk.members = replace(disk.members, streams=dict(restoration.streams))
            births, contents = restoration.births, restoration.contents
            for name, birth in births.items():
                disk.states[name] = State(replace(birth, epoch=lease.epoch), content=contents.get(name))
            disk.readings = dict(restoration.readings)
            return _nothing

        self._write(lease, "log.restore", write, durable=True)

    def outputs(self) -> dict[str, OutputProgress]:
        return dict(self._disk.outputs)

    def keep_outputs(self, lease: Lease, outputs: Mapping[str, OutputProgress]) -> None:
        def write(disk: LogDisk) -> Undo:
            disk.outputs = dict(outputs)
            return _nothing

        self._write(lease, "log.keep_outputs", write, durable=True)

    def readings(self) -> dict[str, bytes]:
        return dict(self._disk.readings)

    def keep_readings(self, lease: Lease, readings: Mapping[str, bytes]) -> None:
        def write(disk: LogDisk) -> Undo:
            disk.readings = dict(readings)
            return _nothing

        self._write(lease, "log.keep_readings", write, durable=True)

    def handing_over(self, lease: Lease, output: str, txid: int, least: int) -> int:
        last, number = self._disk.handed.get(output, (0, 0))
        attempt = max(least, number + 1) if last == txid else least

        def write(disk: LogDisk) -> Undo:
            before = dict(disk.handed)
            disk.handed[output] = txid, attempt
            return lambda: _restore(disk.handed, before)

        self._write(lease, "log.handing_over", write, durable=attempt > 0)
        return attempt

    def attempts(self, group: str) -> dict[int, AttemptRecord]:
        return {txid: record for (name, txid), record in self._disk.attempts.items() if name == group}

    def attempted(self, lease: Lease, group: str, txid: int, record: AttemptRecord) -> None:
        def write(disk: LogDisk) -> Undo:
            before = dict(disk.attempts)
            disk.attempts[group, txid] = record
            return lambda: _restore(disk.attempts, before)

        self._write(lease, "log.attempted", write)

    def batch(self, group: str, txid: int) -> BatchRecord | None:
        return self._disk.batches.get((group, txid))

    def freeze(
        self,
        lease: Lease,
        group: str,
        txid: int,
        batch: BatchRecord,
        positions: Positions,
        outputs: Mapping[str, FrozenOutput],
    ) -> None:
        def write(disk: LogDisk) -> Undo:
            known = disk.groups.get(group)
            if known is None or known.frozen != txid - 1:
                raise LogError(
                    f"group {group!r}: batch {txid} cannot be frozen: it does not follow the last frozen batch"
                )
            known.frozen = txid
            streams = {
                name: replace(stream, position=positions[name])
                if stream.group == group and name in positions
                else stream
                for name, stream in disk.members.streams.items()
            }
            disk.members = replace(disk.members, streams=streams)
            disk.batches[group, txid] = batch
            disk.frozen[group, txid, 1] = dict(outputs)
            _drop(disk.attempts, lambda key: key[0] == group and key[1] <= txid)
            self.frozen_heard(group, txid)
            return _nothing

        self._write(lease, "log.freeze", write, durable=True)

    def freeze_stage(
        self, lease: Lease, group: str, txid: int, stage: int, outputs: Mapping[str, FrozenOutput]
    ) -> None:
        def write(disk: LogDisk) -> Undo:
            disk.frozen[group, txid, stage] = {**outputs, **disk.frozen.get((group, txid, stage), {})}
            return _nothing

        self._write(lease, "log.freeze_stage", write, durable=True)

    def frozen(self, group: str, txid: int, stage: int) -> Outputs | None:
        return self._disk.frozen.get((group, txid, stage))

    def commit_time(self, group: str, txid: int) -> float | None:
        return self._disk.times.get((group, txid))

    def committed(
        self, lease: Lease, group: str, txid: int, time: float | None = None, took: Collection[str] = ()
    ) -> None:
        def write(disk: LogDisk) -> Undo:
            known = disk.groups.get(group)
            if known is None or known.committed != txid - 1 or known.frozen < txid:
                raise LogError(f"group {group!r}: batch {txid} cannot commit: it is not the next frozen batch")
            known.committed, before = txid, dict(disk.outputs)
            disk.outputs |= {name: replace(disk.outputs[name], last=txid) for name in took if name in disk.outputs}
            if time is not None:
                disk.times[group, txid] = time
            self.committed_heard(group, txid)

            def back() -> None:
                known.committed, disk.outputs = txid - 1, before
                disk.times.pop((group, txid), None)

            return back

        self._write(lease, "log.committed", write)

    # --- states --------------------------------------------------------------------------------------------------

    def births(self) -> dict[str, Birth]:
        return {name: state.birth for name, state in self._disk.states.items()}

    def content(self, state: str, txid: int) -> FrozenOutput | None:
        known = self._disk.states.get(state)
        return known.content if known is not None and known.birth.txid == txid else None

    def born(self, lease: Lease, state: str, birth: Birth, content: FrozenOutput | None = None) -> None:
        def write(disk: LogDisk) -> Undo:
            disk.states[state] = State(birth, content=content)
            return _nothing

        self._write(lease, "log.born", write, durable=True)

    def founded(self, lease: Lease, states: Collection[str]) -> None:
        def write(disk: LogDisk) -> Undo:
            for state in states:
                disk.states[state].birth = replace(disk.states[state].birth, founded=True)
            self.founded_heard(states)
            return _nothing

        self._write(lease, "log.founded", write, durable=True)

    def forget(self, lease: Lease, *states: str) -> None:
        def write(disk: LogDisk) -> Undo:
            for state in states:
                disk.states.pop(state, None)
            return _nothing

        self._write(lease, "log.forget", write, durable=True)

    def manifest(self, state: str) -> bytes | None:
        found = self._disk.states.get(state)
        return None if found is None else found.manifest

    def publish(self, lease: Lease, state: str, manifest: bytes) -> None:
        def write(disk: LogDisk) -> Undo:
            if state not in disk.states:
                raise LogError(f"state {state!r} cannot publish a snapshot: it is not in this log")
            disk.states[state].manifest = manifest
            return _nothing

        self._write(lease, "log.publish", write, durable=True)

    # --- what may go ---------------------------------------------------------------------------------------------

    def trim(self, lease: Lease, group: str, needed: int, keep_batches: int, keep_bytes: int) -> list[str]:
        def write(disk: LogDisk) -> Undo:
            sizes: dict[int, int] = {}
            for (name, txid, _), outputs in disk.frozen.items():
                if name == group and txid <= needed:
                    sizes[txid] = sizes.get(txid, 0) + sum(output.size for output in outputs.values())
            newest = sorted(sizes, reverse=True)
            until, total = needed - min(keep_batches, len(newest)), 0
            for txid in newest[:keep_batches]:
                total += sizes[txid]
                if total > keep_bytes:
                    until = max(until, txid)
                    break
            frozen, batches = dict(disk.frozen), dict(disk.batches)
            known = disk.groups.get(group) or Group()
            kept = known.kept
            gone.extend(_drop(disk.frozen, lambda key: key[0] == group and key[1] <= until))
            old = [s for s in disk.states.values() if s.birth.group == group and s.birth.txid < until and s.content]
            gone.extend({"": state.content} for state in old if state.content is not None)
            contents = [(state, state.content) for state in old]
            for state in old:
                state.content = None
            _drop(disk.batches, lambda key: key[0] == group and key[1] < until)
            known.kept = max(kept, until)

            def back() -> None:
                _restore(disk.frozen, frozen)
                _restore(disk.batches, batches)
                known.kept = kept
                for state, content in contents:
                    state.content = content

            return back

        gone: list[Outputs] = []
        self._write(lease, "log.trim", write)
        return [*_folders(gone)]

    def folders(self, group: str) -> set[str]:
        contents = [s.content for s in self._disk.states.values() if s.birth.group == group and s.content is not None]
        of_batches = [outputs for key, outputs in self._disk.frozen.items() if key[0] == group]
        return _folders([*of_batches, *({"": content} for content in contents)])

    def kept_since(self, group: str) -> int:
        found = self._disk.groups.get(group)
        return 0 if found is None else found.kept

    def sync(self, lease: Lease) -> None:
        self._write(lease, "log.sync", lambda disk: _nothing, durable=True)

    def close(self) -> None:
        pass

    # --- how -----------------------------------------------------------------------------------------------------

    def _write(self, lease: Lease | None, what: str, write: Callable[[LogDisk], Undo], durable: bool = False) -> None:
        self._scheduler.point(what, still=what == "log.publish")
        fault = self._faulty(what)
        if fault == "before":
            raise LogError(f"the log cannot be used: {what}: disk I/O error")
        disk = self._disk
        if disk.uuid != self.uuid:
            raise LogError("the log was removed or replaced while this driver runs")
        if lease is not None and (disk.epoch, disk.token) != (lease.epoch, lease.token):
            raise FencedError(f"the log was taken over by another driver (epoch {disk.epoch}, ours is {lease.epoch})")
        back = write(disk)
        disk.writes += 1
        self._written += 1
        self._wrote = True
        if durable:
            disk.unsynced.clear()
        else:
            disk.unsynced.append(back)
        if fault == "after":
            raise LogError(f"the log cannot be used: {what}: disk I/O error after it was done")
        self._scheduler.point(what, "done", still=what == "log.publish")


def _nothing() -> None:
    """Nothing to take back."""


def _drop(rows: dict[Any, Any], gone: Callable[[Any], bool]) -> list[Any]:
    return [rows.pop(key) for key in [key for key in rows if gone(key)]]


def _folders(frozen: Iterable[Outputs]) -> set[str]:
    """The folders of large results."""
    outputs = [output for each in frozen for output in each.values() if output.files]
    return {getattr(output, "folder", None) or folder_of(output) for output in outputs}


def _restore(rows: dict[Any, Any], before: dict[Any, Any]) -> None:
    rows.clear()
    rows.update(before)
