"""Where a state that lives inside the driver keeps its snapshots: a folder, and its line in the log."""

from dataclasses import dataclass
from pathlib import Path

from trident.base.attempt import Lease
from trident.base.crash_points import reach
from trident.log.protocol import TransactionLog


@dataclass(frozen=True, slots=True)
class LogHome:
    """The home that a topology's log and folder give to one of its states."""

    log: TransactionLog
    state: str
    folder: Path | None

    def manifest(self) -> bytes | None:
        return self.log.manifest(self.state)

    def publish(self, manifest: bytes, lease: Lease) -> None:
        reach("snapshot.before")
        self.log.publish(lease, self.state, manifest)
        reach("snapshot.published")


@dataclass(frozen=True, slots=True)
class NoHome:
    """The home of a state that publishes nothing: it lives elsewhere, or is only opened to be dropped."""

    folder: Path | None = None

    def manifest(self) -> bytes | None:
        return None

    def publish(self, manifest: bytes, lease: Lease) -> None:
        if not manifest:  # that nothing is published any more, which is so
            return
        raise AssertionError("a state that is only read or dropped publishes nothing")
