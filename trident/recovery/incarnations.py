"""Detect a state of an earlier incarnation in a store: a store can fall back to a time before a drop or a reset."""

from trident.base.discard_advice import RESET
from trident.base.errors import LogMismatchError, StateLostError
from trident.configuration.settings import Settings
from trident.log.protocol import Birth
from trident.plan.nodes import StateWriter
from trident.plan.watermark_names import dropped_by
from trident_state.store_messages import StoreReport


def of_another_life(report: StoreReport, birth: Birth) -> bool:
    """Return whether the last driver that held a group of the store did so before the state's birth.

    The data of that driver was dropped, so the store fell back to a time before the drop. A state that evolves during a
    run is recreated under the same lease; then only its types show that the store is older.
    """
    if birth.filled and report.fingerprint not in (None, birth.filled):
        return True
    return any(group.lease is not None and group.lease.epoch < birth.epoch for group in report.groups)


def of_earlier_life(node: StateWriter, birth: Birth, kept: int, settings: Settings) -> StateLostError:
    """Return the error for a store with the contents of a state that was dropped, which the log cannot replace.

    The store may also hold an interrupted creation of a state that was not dropped. The log keeps the batches after
    `kept`.
    """
    drop = settings.drop(dropped_by(node), node.state.factory.survives)
    return StateLostError(
        f"state {node.state.name!r} was dropped and recreated after txid {birth.txid}, or its first creation was "
        f"interrupted, but its store still has the state from before that: the store was restored from an older copy, "
        f"and the log keeps only the batches after {kept}. Restore the store from a newer copy; or drop the state "
        f"again with {drop}, so that it starts empty with the next batch; or {settings.way_out}"
    )


def check_this_log(name: str, report: StoreReport, uuid: str) -> None:
    """Raise LogMismatchError if drivers of another log wrote the state: txids of two logs mean different batches."""
    if report.identity is not None and report.identity.log != uuid:
        raise LogMismatchError(
            f"the store of state {name!r} has the state of another log (uuid {report.identity.log}), while a driver "
            f"of this log (uuid {uuid}) runs: the store was restored to a time before a reset, or was replaced by "
            f"another store. Restore it from a newer copy, or discard log and states with {RESET}"
        )
