"""The run that an output works for, and the log's record of its outputs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from trident.base.attempt import Lease
from trident.base.errors import FencedError, OutputConflictError
from trident.log.protocol import OutputProgress


class OutputMemory(Protocol):
    """The memory of outputs in the run's log."""

    def issued(self, lease: Lease) -> bool:
        """Return whether the log issued a lease.

        A copy of the log that was started elsewhere generates other tokens.
        """
        ...

    def progress(self, output: str) -> OutputProgress:
        """Return the progress of an output before this run."""
        ...

    def attempt(self, output: str, txid: int, least: int) -> int:
        """Return the number of the next attempt to pass a batch to the output.

        It is at least `least`, and new at each call.

        `least` is 0 for a batch that this run froze, and 1 for others. Raises FencedError if another driver took the
        log. Call the output right after this.
        """
        ...


class ProcessMemory:
    """The progress of outputs that are not in the log, such as those of a best-effort branch: it ends with the run."""

    def __init__(self) -> None:
        self._tried: dict[str, tuple[int, int]] = {}

    def issued(self, lease: Lease) -> bool:
        return True

    def progress(self, output: str) -> OutputProgress:
        return OutputProgress()

    def attempt(self, output: str, txid: int, least: int) -> int:
        tried, last = self._tried.get(output, (0, 0))
        attempt = max(least, last + 1) if tried == txid else least
        self._tried[output] = txid, attempt
        return attempt


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """The run that writes.

    Its topology, the uuid of its log, its lease (epoch and token), and the last txid frozen before the run.
    """

    topology: str
    log: str
    epoch: int
    last_frozen: int
    token: str = ""
    memory: OutputMemory = field(default_factory=ProcessMemory)

    @property
    def lease(self) -> Lease:
        return Lease(self.epoch, self.token)

    def check_writer(self, lease: Lease, step: str, conflict: Callable[[str], OutputConflictError]) -> None:
        """Check the lease of the driver that wrote the record of an output.

        Raises the error of `conflict` if this log did not issue the lease, and FencedError for that of a later driver.
        """
        if not self.memory.issued(lease):
            raise conflict(
                f"was written by a driver of epoch {lease.epoch} that this log did not start (this driver's epoch is "
                f"{self.epoch}): the log is an old copy, or a copy of it was started elsewhere. Start with the newest "
                f"log and stop the copy, or give the output another name=. Nothing was written"
            )
        if lease.epoch > self.epoch:
            raise FencedError(
                f"{step}: another driver (epoch {lease.epoch}; this driver has {self.epoch}) has taken over this "
                f"output; this driver stops"
            )
