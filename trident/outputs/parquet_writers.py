"""The drivers that write a Parquet output: a record of each in the output itself, which fences out the previous one.

    _trident/writers/00000000000000000003.json   the driver with the lease of epoch 3

A copy of a checkpoint has the uuid of the log, but its leases have other tokens. So a record of a driver that the log
did not start shows that a driver on a copy of the log wrote the output. Records are created, never replaced, and the
newest record counts.
"""

import json
from dataclasses import dataclass
from typing import Any

from trident.base.attempt import Lease
from trident.base.errors import FencedError, OutputConflictError
from trident.files.lease_records import create_record, newest_epoch, newest_record
from trident.files.store import FileStore
from trident.outputs.parquet_folder import FORMAT, OWN_FOLDER, record_in
from trident.outputs.run_identity import RunIdentity

_WRITERS = f"{OWN_FOLDER}/writers"


@dataclass(frozen=True, slots=True)
class Writer:
    """A driver that took the output. `since`: the txid after which the output's batches are in this folder."""

    lease: Lease
    since: int


def last_writer(place: FileStore) -> Writer | None:
    """Return the driver that took the output last; None if no driver did."""
    newest = newest_record(place, _WRITERS)
    if newest is None:
        return None
    path = place.path(newest[0])
    return _writer_in(path, record_in(path, newest[1]))


def check_no_copy(where: str, output: str, last: Writer | None, run: RunIdentity) -> None:
    """Raise OutputConflictError if a driver took the output that the run's log did not start.

    Raises FencedError if a later driver of the log took it.
    """
    if last is None:
        return
    if not run.memory.issued(last.lease):
        raise OutputConflictError(
            f"{where} of output {output!r} was taken by a driver of epoch {last.lease.epoch} that this log did not "
            f"start (this driver's epoch is {run.epoch}): the log is an old copy, or a copy of it was started "
            f"elsewhere. Start with the newest log and stop the copy; or give the output another path. Nothing was "
            f"written"
        )
    if last.lease.epoch > run.epoch:
        raise _taken(where, output, last.lease.epoch, run)


def take_over(place: FileStore, output: str, since: int, run: RunIdentity) -> None:
    """Record that this driver takes the output. From now on `check_taken` refuses earlier drivers."""
    record = {"format": FORMAT, "epoch": run.epoch, "token": run.token, "since": since}
    if not create_record(place, _WRITERS, run.epoch, json.dumps(record).encode()):
        check_no_copy(place.address, output, last_writer(place), run)
        raise FencedError(f"another driver of epoch {run.epoch} has taken over output {output!r} at {place.address}")


def check_taken(place: FileStore, output: str, run: RunIdentity) -> None:
    """Raise FencedError if another driver took the output since; OutputConflictError if there is no record."""
    epoch = newest_epoch(place, _WRITERS)
    if epoch is None or epoch < run.epoch:
        raise OutputConflictError(
            f"{place.address} no longer belongs to output {output!r}: it has no record of this driver, so it was "
            f"removed or restored from an older copy; restart the topology"
        )
    if epoch > run.epoch:
        raise _taken(place.address, output, epoch, run)


def _taken(where: str, output: str, epoch: int, run: RunIdentity) -> FencedError:
    return FencedError(
        f"another driver (epoch {epoch}; this driver has {run.epoch}) has taken over output {output!r} at {where}: "
        f"this driver stops. If you started no other driver, a copy of the checkpoint was started elsewhere"
    )


def _writer_in(path: str, record: dict[str, Any]) -> Writer:
    try:
        return Writer(Lease(int(record["epoch"]), str(record["token"])), int(record["since"]))
    except (KeyError, ValueError, TypeError):
        raise OutputConflictError(
            f"{path} was changed after it was written: {record!r:.100}. Restore it from a copy"
        ) from None
