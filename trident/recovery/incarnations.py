"""Detect a state of an earlier incarnation in a store: a store can fall back to a time before a drop or a reset."""

from trident.base.errors import LogMismatchError, StateLostError
from trident.configuration.settings import Settings
from trident.log.protocol import Birth
from trident_state.messages import StoreReport


def of_another_life(report: StoreReport, birth: Birth) -> bool:
    """Return whether the last driver that held a group of the store did so before the state's birth.

    The data of that driver was dropped, so the store fell back to a time before the drop. A state that a run evolves
    is born again under the lease that holds it; then its types show that the store is older.
    """
    if birth.filled and report.fingerprint not in (None, birth.filled):
        return True
    return any(group.lease is not None and group.lease.epoch < birth.epoch for group in report.groups)


def check_incarnation(name: str, report: StoreReport, birth: Birth, committed: int, settings: Settings) -> None:
    """Raise StateLostError if the store holds the contents of a state that was dropped, and lacks committed batches.

    Before the first commit it lacks only batches that wait, and is created again. It may also hold a creation that was
    interrupted, of a state that nobody dropped.
    """
    if committed > birth.txid and of_another_life(report, birth):
        raise StateLostError(
            f"state {name!r} was dropped and recreated after txid {birth.txid}, or its first creation was interrupted, "
            f"but its store still has the state from before that: the store was restored from an older copy. Restore "
            f"it from a newer copy, or drop it again with dropState({settings.name!r}, {name!r}, ...)"
        )


def check_this_log(name: str, report: StoreReport, uuid: str) -> None:
    """Raise LogMismatchError if drivers of another log wrote the state: txids of two logs mean different batches."""
    if report.identity is not None and report.identity.log != uuid:
        raise LogMismatchError(
            f"the store of state {name!r} has the state of another log (uuid {report.identity.log}), while a driver "
            f"of this log (uuid {uuid}) runs: the store was restored to a time before a reset, or was replaced by "
            f"another store. Restore it from a newer copy, or discard log and states with topology.reset(name, "
            f"checkpointLocation)"
        )
