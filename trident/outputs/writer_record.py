"""The record of an output in its target: the last batch there, and the driver that wrote it.

A target with transactions holds the record beside the rows, and changes both at once. So the target has a batch
exactly if the record says so, and a driver whose lease is not in the record has been replaced, or runs on a copy of
the log.
"""

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from trident.base.attempt import Lease
from trident.base.errors import OutputConflictError
from trident.outputs.run_identity import RunIdentity
from trident.plan.nodes import Sink

_log = logging.getLogger("trident.outputs")


class WriterRecord(NamedTuple):
    """The last batch of an output in its target (txid 0 before the first), and its writer.

    `log` is the uuid of the log. `lease` is the lease of the driver that wrote the record. `digest` is the digest of
    the batch's rows.
    """

    txid: int
    digest: str
    log: str
    lease: Lease


class RecordRules:
    """Decides, from the record of an output, whether this run may write and whether the target already has a batch.

    `place` names the record in messages, such as "the row 'shop/orders' of public._trident_outputs".
    """

    def __init__(self, sink: Sink, run: RunIdentity, place: str) -> None:
        self._sink, self._run, self._place = sink, run, place
        self._reached = run.memory.progress(sink.name).last
        """The last batch with rows that the output took, as far as the log or this run knows."""

    def claim(self, record: WriterRecord | None) -> WriterRecord:
        """Return the record by which this driver takes over the output. Raises OutputConflictError or FencedError."""
        run = self._run
        if record is None:
            self._check_reached(0)
            return WriterRecord(0, "", run.log, run.lease)
        self._check_writer(record)
        if record.txid > run.last_frozen:
            raise self.conflict(
                f"says that batch {record.txid} is there, but the last batch in the log is {run.last_frozen}: the log "
                f"is an old copy. Restore the newest log, or give the output another name="
            )
        return record._replace(lease=run.lease)

    def warn_of_namesakes(self, target: str, outputs: Mapping[str, int]) -> None:
        """Warn if an output of this name, of another topology, has written into a target without a record of this one.

        The topology may be that one under another name: then its rows come a second time. `outputs` are the records of
        the target: the last batch of each output, by "topology/output".
        """
        for output, txid in sorted(outputs.items()):
            topology, _, name = output.partition("/")
            if name == self._sink.name and topology != self._run.topology and txid:
                _log.warning(
                    "%s: %s has the rows of output %r of topology %r up to its batch %d. If this is the same topology "
                    "under another name, its rows come a second time: start it under its former name, or empty the "
                    "table",
                    self._sink.step, target, name, topology, txid,
                )  # fmt: skip

    def has(self, record: WriterRecord | None, txid: int, digest: Callable[[], str]) -> bool:
        """Return whether the target has a batch. The record was read in the transaction that would write the batch.

        Raises OutputConflictError if the target has other rows under this txid, or a record that this driver did not
        leave there, and FencedError if a later driver did.
        """
        if record is None:
            raise self.conflict("was deleted while the topology was running. Start the topology again")
        self._check_writer(record)
        if record.lease != self._run.lease:
            raise self.conflict(
                f"names the driver of epoch {record.lease.epoch} again, after the driver of epoch {self._run.epoch}: "
                f"the target was restored from an older copy while the topology was running. Start the topology again"
            )
        if record.txid == txid and record.digest != digest():
            raise self.conflict(
                f"says that the rows of batch {txid} there differ from those in the log: one of the two does not "
                f"belong to this topology. Restore the newest log, or give the output another name="
            )
        return txid <= record.txid

    def written(self, txid: int, digest: str) -> WriterRecord:
        """Return the record to write with a batch."""
        return WriterRecord(txid, digest, self._run.log, self._run.lease)

    def took(self, txid: int) -> None:
        """Remember that the output has a batch."""
        self._reached = max(self._reached, txid)

    def _check_writer(self, record: WriterRecord) -> None:
        run = self._run
        if record.log != run.log:
            raise self.conflict(
                f"belongs to another log (uuid {record.log}), not to this one (uuid {run.log}), up to batch "
                f"{record.txid}: its batches have other txids. Start with the checkpointLocation that belongs to it; "
                f"or, to write the stream there again from its beginning, give the output another name="
            )
        run.check_writer(record.lease, self._sink.step, self.conflict)
        self._check_reached(record.txid)

    def _check_reached(self, txid: int) -> None:
        if txid >= self._reached:
            return
        holds = f"says that batch {txid} is the last one there" if txid else "does not have a batch"
        raise self.conflict(
            f"{holds}, but the output has written batch {self._reached}: the target was restored from an older copy, "
            f"or the record was deleted, or the output wrote to another place since. Restore the newest copy of the "
            f"target; or give the output another name=: it then continues after the last committed batch, without the "
            f"batches that are missing. Nothing was written"
        )

    def conflict(self, problem: str) -> OutputConflictError:
        """Return the error for a record that contradicts the log."""
        return OutputConflictError(f"{self._sink.step}: the record of the output, {self._place}, {problem}")
