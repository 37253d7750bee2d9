"""The protocol of a transaction log: the one durable record of each batch's content and progress."""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from trident.base.attempt import Holder, Lease
from trident.base.errors import LogError
from trident.log.frozen_results import FrozenOutput
from trident.log.group_records import AttemptRecord, BatchPlan, History, Positions
from trident_spouts.executor import Metadata

NO_LEASE = Lease(0, "")
"""The lease in force of a log that has issued no lease."""


class LogBusyError(LogError):
    """Another process holds the file's lock and does not release it. It may be suspended in the middle of a write."""


class LogAbsentError(LogError):
    """There is no log in this place: the topology was reset or never started, or the place is wrong."""


@dataclass(frozen=True, slots=True)
class Birth:
    """The beginning of a state: it has every batch of its group after `txid`.

    `epoch`: the epoch of the driver that recorded the birth (0: not known). All data that drivers of earlier epochs
    stored under the state's name has been dropped. `founded`: whether the state's store was created. No batch is
    written to a state that is not founded. `filled`: the fingerprint of the initial content; "" if the state began
    empty.
    """

    group: str
    txid: int
    epoch: int = field(default=0, compare=False)
    founded: bool = field(default=False, compare=False)
    filled: str = ""

    @property
    def created_at(self) -> int:
        """The txid of the empty store. The initial content of a state takes the place of the batch at its birth."""
        return self.txid - 1 if self.filled else self.txid

    @property
    def first(self) -> int:
        """The first txid as of which the state has values, if it has initial content; otherwise 0."""
        return self.txid if self.filled else 0


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """The log's record of a stream.

    `group`: the group that last had the stream. `position`: the position of its spout after that group's last frozen
    batch. `source`: the kind of spout ("" if it is not known). `active`: whether the last program that started had the
    stream.
    """

    group: str
    position: Metadata = None
    source: str = ""
    active: bool = True
    began: Metadata = None
    """The stream's position when `source` was recorded. If the position is still the same, no batch of the stream was
    frozen since."""
    feeds: tuple[str, ...] = ()
    """The states that the stream's tuples updated in the last started program."""
    parted: Mapping[str, Metadata] = field(default_factory=dict)
    """The states that the stream's tuples updated only in earlier programs, each with the stream's position at that
    end. Such a state lacks the stream's later tuples."""
    former: tuple[str, ...] = ()
    """The former names of the stream, oldest first."""


@dataclass(frozen=True, slots=True)
class Members:
    """All streams and outputs that the log knows, each with its group.

    `founded`: the new groups, which have no batch yet, each with the txid that its first batch follows.
    """

    streams: Mapping[str, StreamRecord] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    founded: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutputProgress:
    """The progress of an output of a group.

    `last`: the last txid with tuples that the output took. `until`: the last committed txid when a program left the
    output out; None while programs have it. `missed`: the last txid that was committed without the output (0: none).
    """

    last: int = 0
    until: int | None = None
    missed: int = 0

    @property
    def reached(self) -> int:
        """The txid that a complete output has reached: `last`, or the last missed batch, which it must still get."""
        return max(self.last, self.missed)


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A frozen batch without its content.

    `plan`: the metadata of its streams. `time`: when it was planned, in seconds since 1970. `outline`: the outline
    of the program that froze it (`compiler.outline`).
    """

    plan: BatchPlan
    time: float
    outline: str = ""


@dataclass(frozen=True, slots=True)
class Restoration:
    """The record of a return to a savepoint (docs/decisions/0107).

    `batches`: for each group that changes, the txid of an empty batch, which follows its last one. `time`: when the
    batches are committed. `streams`: all streams, with the positions after these batches. `births`: the states that are
    created with these batches; all others are unchanged. `contents`: the initial contents of these states; a state
    without one is created empty. `readings`: as for `keep_readings`.
    """

    batches: Mapping[str, int]
    time: float
    streams: Mapping[str, StreamRecord]
    births: Mapping[str, Birth]
    contents: Mapping[str, FrozenOutput]
    readings: Mapping[str, bytes]


class LogReading(Protocol):
    """The read-only part of a log. It can be used while a driver writes the log."""

    @property
    def uuid(self) -> str:
        """The identity of the log. Every state stores it.

        If the log is open read-only, this is the uuid of the log that exists now, which changes with a reset.
        """
        ...

    def at_once(self) -> AbstractContextManager[None]:
        """Speed up the reads of the log within this block, if the log can do that.

        Each read still sees all earlier writes. Other threads that read the log wait until the block ends.
        """
        ...

    def lease(self) -> Lease | None:
        """Return the lease in force; None before the first lease.

        A lease without a token was given back: no driver has this log.
        """
        ...

    def holder(self) -> Holder | None:
        """Return the holder of the lease in force; None if no driver has it."""
        ...

    def issued(self, lease: Lease) -> bool:
        """Return whether this log issued this lease.

        A copy of the log that was started elsewhere counts the same epochs but generates other tokens.
        """
        ...

    def files_address(self) -> str:
        """Return the URL of the topology's files on an object store; empty if they are in the checkpoint folder."""
        ...

    def origin(self) -> bytes | None:
        """Return the record of the savepoint from which this log was forked; None if it was not forked."""
        ...

    def size(self) -> int | None:
        """Return how many bytes the log occupies, without the files of large results; None if that is not known."""
        ...

    def groups(self) -> list[str]:
        """Return the names of the groups; each group is a sequence of txids."""
        ...

    def history(self, group: str) -> History:
        """Return the progress of a group: its last committed txid, its waiting batches, its positions."""
        ...

    def last_committed(self, group: str) -> int:
        """Return the last committed txid of a group, as `history` does, by a single read of the log."""
        ...

    def members(self) -> Members:
        """Return every stream and output of every program that was started on this log."""
        ...

    def attempts(self, group: str) -> dict[int, AttemptRecord]:
        """Return the last attempt at each batch after the last frozen batch."""
        ...

    def batch(self, group: str, txid: int) -> BatchRecord | None:
        """Return the record of a frozen batch; None if the log no longer keeps it."""
        ...

    def commit_time(self, group: str, txid: int) -> float | None:
        """Return when a batch was committed, in seconds since 1970 by its driver's clock.

        None if it is not committed, or the log no longer keeps its record.
        """
        ...

    def frozen(self, group: str, txid: int, stage: int) -> dict[str, FrozenOutput] | None:
        """Return a stage's frozen results by output; None if the log does not have them (not yet, or no longer)."""
        ...

    def births(self) -> dict[str, Birth]:
        """Return the births of the states that this log knows, by name."""
        ...

    def content(self, state: str, txid: int) -> FrozenOutput | None:
        """Return the initial content of a state that was born after batch `txid`.

        None if it began empty, or after another batch, or if the log no longer keeps the content.
        """
        ...

    def readings(self) -> dict[str, bytes]:
        """Return the records of the last program by name: inputs of states and outputs, and locations."""
        ...

    def manifest(self, state: str) -> bytes | None:
        """Return the last manifest that a memory state published; None if there is no manifest."""
        ...

    def kept_since(self, group: str) -> int:
        """Return the txid after which the log keeps all batches, with the content of frozen batches."""
        ...

    def close(self) -> None: ...


class TransactionLog(LogReading, Protocol):
    """One topology's log. Every write raises FencedError unless its lease is the last lease that the log issued.

    These writes are durable before they return: `keep_files_at`, `keep_origin`, `enroll`, `keep_outputs`,
    `keep_readings`, `start_over`, `restore`, `freeze`, `freeze_stage`, `born`, `founded`, `forget`, `publish`, `sync`.
    Any other write survives the death of the process at once, but a power loss only after the next durable write.
    """

    def take(self, holder: Holder | None = None, after: Lease | None = None) -> Lease:
        """Issue a new lease, with the next epoch. From then on every earlier lease is invalid.

        `holder`: the process that takes the log; the log sets the holder's epoch. `after`: raise FencedError, and issue
        no lease, unless this is still the lease in force (``NO_LEASE``: no lease was issued yet).
        """
        ...

    def renew(self, lease: Lease) -> None:
        """Show waiting standbys that this driver is alive, unless a write since the last call has shown it."""
        ...

    def renewals(self) -> object:
        """Return an opaque value that changes when another driver writes the log.

        Compare it only with other values of the same log object. Writes through this object do not change it.
        """
        ...

    def give_back(self, lease: Lease) -> None:
        """End a lease in good order. No driver has this log until the next `take`."""
        ...

    def keep_files_at(self, lease: Lease, address: str) -> None:
        """Record the URL at which the topology's files are from now on."""
        ...

    def keep_origin(self, lease: Lease, origin: bytes) -> None:
        """Record the savepoint from which this log is forked, or replace this record."""
        ...

    def start_over(self, lease: Lease, origin: bytes) -> None:
        """Delete everything in the log, in one write, and record `origin`. The log has a new uuid then, and no driver.

        The number of the last epoch stays.
        """
        ...

    def restore(self, lease: Lease, restoration: Restoration) -> None:
        """Replace streams, births and readings, and commit an empty batch in each group, in one write.

        The outputs and their progress stay. Raises LogError unless each batch follows the last committed batch of its
        group, and no batch waits.
        """
        ...

    def enroll(self, lease: Lease, members: Members) -> None:
        """Replace the recorded streams and outputs by those of `members`, and create new groups."""
        ...

    def outputs(self) -> dict[str, OutputProgress]:
        """Return the progress of each output, by name. An output without a batch may be missing."""
        ...

    def keep_outputs(self, lease: Lease, outputs: Mapping[str, OutputProgress]) -> None:
        """Replace the progress of all outputs."""
        ...

    def keep_readings(self, lease: Lease, readings: Mapping[str, bytes]) -> None:
        """Replace the records of the program."""
        ...

    def handing_over(self, lease: Lease, output: str, txid: int, least: int) -> int:
        """Record that an output is about to get a batch, and return the number of this attempt, `least` or more.

        Call this before the output is called. No number is returned twice for one txid, to whichever driver. A power
        loss may remove the record of number 0; other records are durable. Only the run that froze a batch can make
        attempt 0, because every other run begins with 1, so the run need not call this for attempt 0
        (`commits.output_memory`).
        """
        ...

    def attempted(self, lease: Lease, group: str, txid: int, record: AttemptRecord) -> None:
        """Record an attempt at a batch. Call it before any tuple of the batch is emitted."""
        ...

    def freeze(
        self,
        lease: Lease,
        group: str,
        txid: int,
        batch: BatchRecord,
        positions: Positions,
        outputs: Mapping[str, FrozenOutput],
    ) -> None:
        """Record the results of stage 1 of the next batch, and the positions of its streams after the batch.

        Raises LogError unless `txid` is the txid after the last frozen batch. Drops the record of attempts at the
        batch.
        """
        ...

    def freeze_stage(
        self, lease: Lease, group: str, txid: int, stage: int, outputs: Mapping[str, FrozenOutput]
    ) -> None:
        """Record a later stage's results, unless the log already has results of the stage.

        The first freeze is valid.
        """
        ...

    def committed(
        self, lease: Lease, group: str, txid: int, time: float | None = None, took: Collection[str] = ()
    ) -> None:
        """Record that every state of the group holds the batch, as of `time` (seconds since 1970).

        `took`: the outputs that took tuples of the batch.
        """
        ...

    def born(self, lease: Lease, state: str, birth: Birth, content: FrozenOutput | None = None) -> None:
        """Record the birth of a state that is about to be created, and its initial content.

        From then on the state has no manifest. The log keeps the content until it drops the batch after it.
        """
        ...

    def founded(self, lease: Lease, states: Collection[str]) -> None:
        """Record that the stores of these states were created."""
        ...

    def forget(self, lease: Lease, *states: str) -> None:
        """Delete the records of dropped states, all or none, so that new states may have their names."""
        ...

    def publish(self, lease: Lease, state: str, manifest: bytes) -> None:
        """Replace the manifest of a memory state."""
        ...

    def trim(self, lease: Lease, group: str, needed: int, keep_batches: int, keep_bytes: int) -> list[str]:
        """Drop batches that no store needs, and return the folders of files that no batch names any more.

        Of the batches up to `needed`, the last `keep_batches` batches or `keep_bytes` bytes stay, whichever is less.
        """
        ...

    def folders(self, group: str) -> set[str]:
        """Return the folders of files that frozen batches name."""
        ...

    def sync(self, lease: Lease) -> None:
        """Make everything written so far durable."""
        ...
