"""The progress record of an output, kept in Kafka: the txid of the last batch whose transaction was committed.

It is the committed offset of a consumer group of the output's own, for partition 0 of the output's topic. Kafka commits
such an offset within the transaction of the messages, so both become durable together, and keeps only the last one. The
offset is the txid; its metadata say whose it is. The group has no consumers.
"""

import json
from typing import NamedTuple

from trident.base.errors import OutputConflictError
from trident.outputs.kafka.cluster import OutputCluster
from trident.outputs.run_identity import RunIdentity
from trident.plan.nodes import WriteKafka

_FORMAT = 1


class Record(NamedTuple):
    """The last committed batch: its txid (0 before the first), the number of its rows, and the uuid of its log."""

    txid: int
    rows: int
    log: str
    output: str

    def encode(self) -> str:
        """Return the metadata of the offset, beside the txid."""
        return json.dumps({"format": _FORMAT, "log": self.log, "output": self.output, "rows": self.rows})


class RecordKeeper:
    """Reads the record of one output, and creates the next record.

    Raises OutputConflictError if the group holds something else.
    """

    def __init__(self, cluster: OutputCluster, sink: WriteKafka, run: RunIdentity, group: str) -> None:
        self._cluster, self._sink, self._log, self.group = cluster, sink, run.log, group
        self._output = f"{run.topology}/{sink.name}"

    def read(self, stable: bool = True) -> Record | None:
        """Return the record; None if there is none.

        If `stable`, wait until no transaction is open that may replace it.
        """
        stored = self._cluster.committed(self.group, self._sink.kafka.topic, stable)
        return None if stored is None else self._decode(*stored)

    def record(self, txid: int, rows: int) -> Record:
        """Return the record to commit with a batch."""
        return Record(txid, rows, self._log, self._output)

    def _decode(self, offset: int, metadata: str | None) -> Record:
        try:
            stored = json.loads(metadata or "")
            if stored["format"] != _FORMAT:
                raise ValueError(stored["format"])
            record = Record(offset, int(stored["rows"]), str(stored["log"]), str(stored["output"]))
        except (ValueError, KeyError, TypeError):
            raise self.conflict(
                f"holds offset {offset} with the metadata {metadata!r:.100}, which no output wrote; it may have no "
                f"consumers of its own"
            ) from None
        if record.output != self._output:
            raise self.conflict(f"is the record of output {record.output!r}; give this one another transactional.id")
        if record.log != self._log:
            raise self.conflict(
                f"was written under another log (uuid {record.log}) than this one (uuid {self._log}), up to batch "
                f"{record.txid}: its batches have other txids. Start with the checkpointLocation that belongs to it; "
                f"or, if the topic is to get the stream from its beginning once more, delete the group, or give the "
                f"output another name="
            )
        return record

    def conflict(self, problem: str) -> OutputConflictError:
        """Return the error for a record that contradicts the log."""
        return OutputConflictError(f"{self._sink.step}: the consumer group {self.group!r} {problem}")
