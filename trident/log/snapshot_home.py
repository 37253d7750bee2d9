"""The snapshot home of a memory state: a store for its files, and its manifest in the log."""

from dataclasses import dataclass

from trident.base.attempt import Lease
from trident.base.crash_points import reach
from trident.files.store import FileStore
from trident.log.protocol import TransactionLog


@dataclass(frozen=True, slots=True)
class SnapshotHome:
    """The `Home` of one state's snapshots. The files are in `files`, the manifest is in the topology's log."""

    log: TransactionLog
    state: str
    files: FileStore | None

    def manifest(self) -> bytes | None:
        return self.log.manifest(self.state)

    def publish(self, manifest: bytes, lease: Lease) -> None:
        reach("snapshot.before")
        self.log.publish(lease, self.state, manifest)
        reach("snapshot.published")


@dataclass(frozen=True, slots=True)
class NoHome:
    """The `Home` of a state without snapshots.

    The state is stored elsewhere, or is opened only to be read or dropped.
    """

    files: FileStore | None = None

    def manifest(self) -> bytes | None:
        return None

    def publish(self, manifest: bytes, lease: Lease) -> None:
        if not manifest:  # a drop publishes an empty manifest, which changes nothing here
            return
        raise AssertionError("a state that was opened for reading or dropping publishes no snapshot")
