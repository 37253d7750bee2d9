"""What the runtime asks of a transaction log: the one durable record of what each batch is and how far it came."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from trident.base.attempt import Lease, TransactionAttempt
from trident.runtime.coordinator import History
from trident.runtime.events import BatchPlan, Positions
from trident.runtime.frozen import FrozenOutput


@dataclass(frozen=True, slots=True)
class Birth:
    """When a state began: it has seen every batch of its group after `txid`. `epoch`: of the driver that wrote this
    down; what earlier ones held under the state's name was dropped before (0: not known)."""

    group: str
    txid: int
    epoch: int = field(default=0, compare=False)


def there_before(births: Mapping[str, Birth], txid: int) -> Callable[[str], bool]:
    """Whether a state was there before this batch; what was born after it gets nothing of it."""
    return lambda state: state in births and births[state].txid < txid


class LogReading(Protocol):
    """What a log tells to whoever only looks; beside a driver that writes, too."""

    @property
    def uuid(self) -> str:
        """This log's own identity: states remember it."""
        ...

    def lease(self) -> Lease | None:
        """The lease in force. Without a token: it was given back, and no driver has this log."""
        ...

    def groups(self) -> list[str]:
        """The groups that ever froze a batch."""
        ...

    def history(self, group: str) -> History:
        """How far this group came."""
        ...

    def plan(self, group: str, txid: int) -> tuple[BatchPlan, float] | None:
        """The plan and the time of a batch, while it is kept."""
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

    Durable before it returns: `freeze`, `freeze_stage`, `born`, `forget`, `publish`, `sync`. The others survive a
    killed process at once, and a power loss with the next durable write.
    """

    def take(self) -> Lease:
        """A new lease, one epoch later; every earlier one is void from here on."""
        ...

    def give_back(self, lease: Lease) -> None:
        """The driver is done: nobody has this log until the next `take`."""
        ...

    def planned(self, lease: Lease, group: str, attempt: TransactionAttempt, plan: BatchPlan, time: float) -> None:
        """Record a plan. Another plan than the one recorded for this txid voids the plans of later ones."""
        ...

    def unplanned(self, lease: Lease, group: str, txid: int) -> None:
        """Forget the plans from `txid` on (none of them is frozen)."""
        ...

    def freeze(
        self,
        lease: Lease,
        group: str,
        attempt: TransactionAttempt,
        positions: Positions,
        outputs: Mapping[str, FrozenOutput],
    ) -> None:
        """The first stage's results of the batch after the last frozen one. Refused for any other txid."""
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
        """A state is about to be created."""
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
