"""The transaction log as the runtime sees it: the one durable record of what each batch is and how far it came."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from trident.base.attempt import Lease
from trident.log.frozen_results import FrozenOutput
from trident.log.history import AttemptRecord, BatchPlan, History, Positions
from trident_spouts.executor import Metadata


@dataclass(frozen=True, slots=True)
class Birth:
    """When a state began: it has seen every batch of its group after `txid`. `epoch`: of the driver that wrote this
    down; what earlier ones held under the state's name was dropped before (0: not known). `founded`: whether its store
    was made then; until it is, no batch is written to it."""

    group: str
    txid: int
    epoch: int = field(default=0, compare=False)
    founded: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A stream that the log knows: the group that last had it, and its spout's position after that group's last frozen
    batch.

    `source` names the kind of spout ("" where it is not known). `active`: the last program that started had it.
    """

    group: str
    position: Metadata = None
    source: str = ""
    active: bool = True
    began: Metadata = None
    """Where the stream stood when `source` was written down: as long as it stands there, nothing was frozen of it."""
    feeds: tuple[str, ...] | None = ()
    """The states that its tuples enter in the last program that started; None where it is not known."""
    parted: Mapping[str, Metadata] = field(default_factory=dict)
    """The states that its tuples entered before, each with where the stream stood then: what it brought since, such a
    state lacks."""


@dataclass(frozen=True, slots=True)
class Members:
    """Every stream and every output that the log knows, with the group that has it, and the groups that are new.

    `founded` are groups without a batch yet, each with the txid that its first batch follows.
    """

    streams: Mapping[str, StreamRecord] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    founded: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """What a frozen batch is, beside its content. `time`: when it was planned, in seconds since 1970. `outline`: the
    program that froze it (`trident.compiler.outline`)."""

    plan: BatchPlan
    time: float
    outline: str = ""


class LogReading(Protocol):
    """What a log tells to whoever only looks; beside a driver that writes, too."""

    @property
    def uuid(self) -> str:
        """This log's own identity: states remember it."""
        ...

    def lease(self) -> Lease | None:
        """The lease in force. Without a token: it was given back, and no driver has this log."""
        ...

    def gave(self, lease: Lease) -> bool:
        """Whether this log gave out this lease: a copy that was started elsewhere gives others, of the same epochs.
        True for those that version 0.1.0 gave, which kept none."""
        ...

    def groups(self) -> list[str]:
        """The groups there are: each one a sequence of txids."""
        ...

    def history(self, group: str) -> History:
        """How far this group came."""
        ...

    def members(self) -> Members:
        """The streams and outputs that ever were started."""
        ...

    def attempts(self, group: str) -> dict[int, AttemptRecord]:
        """The batches after the last frozen one that were attempted."""
        ...

    def batch(self, group: str, txid: int) -> BatchRecord | None:
        """What a frozen batch is, while it is kept."""
        ...

    def frozen(self, group: str, txid: int, stage: int) -> dict[str, FrozenOutput] | None:
        """A stage's results; None where they are not there (not yet, or no longer)."""
        ...

    def births(self) -> dict[str, Birth]:
        """The states that this log knows."""
        ...

    def manifest(self, state: str) -> bytes | None:
        """The last manifest that an embedded state published."""
        ...

    def kept_since(self, group: str) -> int:
        """The batches after this txid are all kept, frozen ones with their content."""
        ...

    def close(self) -> None: ...


class TransactionLog(LogReading, Protocol):
    """One topology's log. Every write is refused with FencedError unless the lease is the one last given out.

    Durable before it returns: `enroll`, `freeze`, `freeze_stage`, `born`, `founded`, `forget`, `publish`, `sync`. The
    others survive a killed process at once, and a power loss with the next durable write.
    """

    def take(self) -> Lease:
        """A new lease, one epoch later; every earlier one is void from here on."""
        ...

    def give_back(self, lease: Lease) -> None:
        """The driver is done: nobody has this log until the next `take`."""
        ...

    def enroll(self, lease: Lease, members: Members) -> None:
        """Make these the streams and outputs that the log knows, and found the groups that are new."""
        ...

    def attempted(self, lease: Lease, group: str, txid: int, record: AttemptRecord) -> None:
        """Record an attempt at a batch, before anything of it is emitted. Survives a killed process."""
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
        """Record the first stage's results of the batch after the last frozen one, and where its streams stand after
        it. Refused for any other txid. The record of its attempts goes."""
        ...

    def freeze_stage(
        self, lease: Lease, group: str, txid: int, stage: int, outputs: Mapping[str, FrozenOutput]
    ) -> None:
        """A later stage's results. Keeps what is already there."""
        ...

    def committed(self, lease: Lease, group: str, txid: int) -> None:
        """Every state of the group holds the batch."""
        ...

    def born(self, lease: Lease, state: str, birth: Birth) -> None:
        """A state is about to be created. Its manifest is none, and it is not founded."""
        ...

    def founded(self, lease: Lease, states: Collection[str]) -> None:
        """The stores of these states were made."""
        ...

    def forget(self, lease: Lease, state: str) -> None:
        """The state was dropped: another one of its name begins anew."""
        ...

    def publish(self, lease: Lease, state: str, manifest: bytes) -> None:
        """Make this the state's manifest."""
        ...

    def trim(self, lease: Lease, group: str, needed: int, keep_batches: int, keep_bytes: int) -> list[str]:
        """Drop what nobody needs: batches up to `needed`, except the last `keep_batches` or `keep_bytes` of them,
        whichever is less. Returns the folders of files that nothing refers to any more."""
        ...

    def folders(self, group: str) -> set[str]:
        """The folders of files that frozen batches refer to."""
        ...

    def sync(self, lease: Lease) -> None:
        """Make everything written so far durable."""
        ...
