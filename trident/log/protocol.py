"""The protocol of a transaction log: the one durable record of what each batch is and how far it came."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from trident.base.attempt import Lease
from trident.log.frozen_results import FrozenOutput
from trident.log.history import AttemptRecord, BatchPlan, History, Positions
from trident_spouts.executor import Metadata


@dataclass(frozen=True, slots=True)
class Birth:
    """The beginning of a state: it has every batch of its group after `txid`.

    `epoch`: of the driver that recorded the birth; what drivers of earlier epochs held under the state's name was
    dropped before (0: not known). `founded`: its store was made. No batch is written to a state that is not founded.
    """

    group: str
    txid: int
    epoch: int = field(default=0, compare=False)
    founded: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A stream that the log knows.

    `group` is the one that last had it, `position` its spout's position after that group's last frozen batch. `source`
    names the kind of spout ("" where it is not known). `active`: the last program that started had the stream.
    """

    group: str
    position: Metadata = None
    source: str = ""
    active: bool = True
    began: Metadata = None
    """The position when `source` was recorded. While the stream still stands there, nothing was frozen of it."""
    feeds: tuple[str, ...] | None = ()
    """The states that its tuples entered in the last program that started; None where they are not known."""
    parted: Mapping[str, Metadata] = field(default_factory=dict)
    """The states that its tuples entered in earlier programs, each with the stream's position at the end of that.
    Such a state lacks what the stream brought since."""


@dataclass(frozen=True, slots=True)
class Members:
    """Every stream and every output that the log knows, with its group, and the new groups.

    `founded`: groups without a batch yet, each with the txid that its first batch follows.
    """

    streams: Mapping[str, StreamRecord] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    founded: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A frozen batch without its content.

    `time`: when it was planned, in seconds since 1970. `outline`: the program that froze it (`compiler.outline`).
    """

    plan: BatchPlan
    time: float
    outline: str = ""


class LogReading(Protocol):
    """The read-only part of a log. It may be used beside a driver that writes."""

    @property
    def uuid(self) -> str:
        """The identity of the log, which every state stores."""
        ...

    def lease(self) -> Lease | None:
        """Return the lease in force. One without a token was given back: no driver has this log."""
        ...

    def issued(self, lease: Lease) -> bool:
        """Return whether this log issued this lease.

        A copy of the log that was started elsewhere counts the same epochs but draws other tokens. True for the leases
        of version 0.1.0, which kept no tokens.
        """
        ...

    def groups(self) -> list[str]:
        """Return the names of the groups; each group is a sequence of txids."""
        ...

    def history(self, group: str) -> History:
        """Return how far a group came."""
        ...

    def members(self) -> Members:
        """Return every stream and output of every program that was started on this log."""
        ...

    def attempts(self, group: str) -> dict[int, AttemptRecord]:
        """Return the last attempt at each batch after the last frozen one."""
        ...

    def batch(self, group: str, txid: int) -> BatchRecord | None:
        """Return the record of a frozen batch; None where it is not kept any more."""
        ...

    def frozen(self, group: str, txid: int, stage: int) -> dict[str, FrozenOutput] | None:
        """Return a stage's frozen results; None where they are not there (not yet, or no longer)."""
        ...

    def births(self) -> dict[str, Birth]:
        """Return the births of the states that this log knows."""
        ...

    def manifest(self, state: str) -> bytes | None:
        """Return the last manifest that a memory state published."""
        ...

    def kept_since(self, group: str) -> int:
        """Return the txid after which all batches are kept, frozen ones with their content."""
        ...

    def close(self) -> None: ...


class TransactionLog(LogReading, Protocol):
    """One topology's log. Every write is refused with FencedError unless its lease is the last one issued.

    These writes are durable before they return: `enroll`, `freeze`, `freeze_stage`, `born`, `founded`, `forget`,
    `publish`, `sync`. The others survive a killed process at once, and a power loss with the next durable write.
    """

    def take(self) -> Lease:
        """Issue a new lease, one epoch later; every earlier one is void from here on."""
        ...

    def give_back(self, lease: Lease) -> None:
        """End a lease in good order: no driver has this log until the next `take`."""
        ...

    def enroll(self, lease: Lease, members: Members) -> None:
        """Replace the streams and outputs that the log knows, and found the new groups."""
        ...

    def attempted(self, lease: Lease, group: str, txid: int, record: AttemptRecord) -> None:
        """Record an attempt at a batch. The caller does so before it emits anything of the batch."""
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
        """Record the first stage's results of the next batch, and where its streams stand after it.

        Refused for any txid but the one after the last frozen batch. The record of the batch's attempts is dropped.
        """
        ...

    def freeze_stage(
        self, lease: Lease, group: str, txid: int, stage: int, outputs: Mapping[str, FrozenOutput]
    ) -> None:
        """Record a later stage's results, unless some are there already: the first freeze of a stage stays."""
        ...

    def committed(self, lease: Lease, group: str, txid: int) -> None:
        """Record that every state of the group holds the batch."""
        ...

    def born(self, lease: Lease, state: str, birth: Birth) -> None:
        """Record the birth of a state that is about to be created: not founded, and without a manifest."""
        ...

    def founded(self, lease: Lease, states: Collection[str]) -> None:
        """Record that the stores of these states were made."""
        ...

    def forget(self, lease: Lease, state: str) -> None:
        """Drop the record of a state that was dropped, so that another one may begin under its name."""
        ...

    def publish(self, lease: Lease, state: str, manifest: bytes) -> None:
        """Replace the manifest of a memory state."""
        ...

    def trim(self, lease: Lease, group: str, needed: int, keep_batches: int, keep_bytes: int) -> list[str]:
        """Drop batches that no store needs, and return the folders of files that nothing refers to any more.

        Of the batches up to `needed`, the last `keep_batches` or `keep_bytes` stay, whichever is less.
        """
        ...

    def folders(self, group: str) -> set[str]:
        """Return the folders of files that frozen batches refer to."""
        ...

    def sync(self, lease: Lease) -> None:
        """Make everything written so far durable."""
        ...
