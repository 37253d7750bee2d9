"""Signs that a driver with another copy of a log holds a state. Such copies have the same uuid but other batches."""

from trident.base.attempt import Lease
from trident.base.errors import StateAheadError
from trident.log.protocol import NO_LEASE, LogReading
from trident_state.store_messages import StoreReport


def not_issued(report: StoreReport, log: LogReading, last: Lease) -> Lease | None:
    """Return a lease of a state that the log, whose last lease is `last`, did not issue; None if there is none."""
    return next((held for held in report.leases if held.epoch > last.epoch or not log.issued(held)), None)


def check_no_other_copy(state: str, report: StoreReport, log: LogReading, log_at: str, way_out: str) -> None:
    """Raise StateAheadError if a driver with another copy of the log holds the state, or wrote it after the copy."""
    last = log.lease() or NO_LEASE
    held, birth = not_issued(report, log, last), log.births().get(state)
    if held is not None:
        sign = f"was held by a driver of epoch {held.epoch} that the log {log_at} did not start"
    elif birth is not None and report.reached > (frozen := log.history(birth.group).last_frozen):
        sign = f"is at txid {report.reached}, but the log {log_at} has only the batches up to {frozen}"
    else:
        return
    raise StateAheadError(
        f"state {state!r} {sign}: this log is an old copy, or a copy of it was started elsewhere, and the state "
        f"belongs to that copy. Give the newest log, and remove the copy by hand; {way_out} if the other log is gone. "
        f"Nothing was dropped"
    )
