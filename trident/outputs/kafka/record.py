"""The progress record of an output, kept in Kafka: the txid of the last batch whose transaction was committed.

The record is the committed offset of a consumer group, which only this output uses, for partition 0 of the output's
topic. Kafka commits such an offset within the transaction of the messages, so both become durable together. Kafka keeps
only the last offset. The offset is the txid; its metadata names the owner and the topic. The group has no consumers.
"""

import json
from typing import NamedTuple

from trident.base.attempt import Lease
from trident.base.errors import OutputConflictError
from trident.outputs.kafka.cluster import OutputCluster
from trident.outputs.run_identity import RunIdentity
from trident.plan.nodes import WriteKafka

_FORMAT = 2


class OtherFormatError(ValueError):
    """A record has the number of another version. The message is the number."""


class Place(NamedTuple):
    """The ids of a cluster and of the output's topic; None if a broker has no id for it.

    `partitions` is the number of partitions among which the keys of rows are divided; None if the output writes tuples.
    """

    cluster: str | None = None
    topic: str | None = None
    partitions: int | None = None


class Record(NamedTuple):
    """The last committed batch: its txid (0 before the first), the number of its rows, and the uuid of its log.

    `lease` is the lease of the driver that wrote it. In a first record, the output's batches up to the txid `since` are
    not in this topic, or were in it before the record; for the batches after `since`, up to the txid `doubtful`, it was
    not known whether the topic has them.
    """

    txid: int
    rows: int
    log: str
    output: str
    place: Place
    lease: Lease
    since: int = 0
    doubtful: int = 0

    def encode(self) -> str:
        """Return the metadata to commit with the offset."""
        named: dict[str, object] = {"format": _FORMAT, "log": self.log, "output": self.output, "rows": self.rows}
        named |= {"cluster": self.place.cluster, "topic": self.place.topic}
        if self.place.partitions is not None:
            named["partitions"] = self.place.partitions
        named["lease"] = [self.lease.epoch, self.lease.token]
        if not self.txid:
            named |= {"since": self.since, "doubtful": self.doubtful}
        return json.dumps(named)

    @classmethod
    def decode(cls, txid: int, metadata: str) -> "Record":
        """Return the record that `encode` wrote.

        Raises OtherFormatError for the record of another version, and ValueError, KeyError or TypeError for anything
        else.
        """
        stored = json.loads(metadata)
        if stored["format"] != _FORMAT:
            raise OtherFormatError(stored["format"])
        place = Place(stored["cluster"], stored["topic"], stored.get("partitions"))
        lease = Lease(*stored["lease"])
        began = () if txid else (int(stored["since"]), int(stored["doubtful"]))
        return cls(txid, int(stored["rows"]), str(stored["log"]), str(stored["output"]), place, lease, *began)

    def falls_short_of(self, reached: int) -> bool:
        """Return whether the output got batches, up to `reached`, after the last batch in the record."""
        return max(self.txid, self.since) < reached


class RecordKeeper:
    """Reads the record of one output, and creates the next record.

    Raises OutputConflictError if the group holds something else.
    """

    def __init__(self, cluster: OutputCluster, sink: WriteKafka, run: RunIdentity, group: str) -> None:
        self._cluster, self._sink, self._run, self.group = cluster, sink, run, group
        self._output = f"{run.topology}/{sink.name}"

    def read(self, stable: bool = True) -> Record | None:
        """Return the record; None if there is no record.

        If `stable`, wait until no transaction is open that may replace it.
        """
        stored = self._cluster.committed(self.group, self._sink.kafka.topic, stable)
        return None if stored is None else self._decode(*stored)

    def record(self, txid: int, rows: int, place: Place) -> Record:
        """Return the record to commit with a batch."""
        return Record(txid, rows, self._run.log, self._output, place, self._run.lease)

    def first_record(self, since: int, doubtful: int, place: Place) -> Record:
        """Return the record to commit before the first batch, or if the record was lost."""
        return self.record(0, 0, place)._replace(since=since, doubtful=doubtful)

    def _decode(self, offset: int, metadata: str | None) -> Record:
        try:
            record = Record.decode(offset, metadata or "")
        except OtherFormatError as other:
            raise self.conflict(
                f"has a record of format {other}, and this version of the library reads {_FORMAT}: start with the "
                f"version that wrote it, or a later one. Nothing was written"
            ) from None
        except (ValueError, KeyError, TypeError):
            raise self.conflict(
                f"has offset {offset} with the metadata {metadata!r:.100}, which no output wrote; this group is "
                f"reserved for the output, and no consumer may use it"
            ) from None
        if record.output != self._output:
            raise self.conflict(f"is the record of output {record.output!r}; give this one another transactional.id")
        if record.log != self._run.log:
            raise self.conflict(
                f"belongs to another log (uuid {record.log}), not to this one (uuid {self._run.log}), up to batch "
                f"{record.txid}: its batches have other txids. Start with the checkpointLocation that belongs to it; "
                f"or, to write the stream to the topic again from its beginning, delete the group, or give the output "
                f"another name="
            )
        return record

    def check(self, record: Record | None, place: Place, reached: int) -> None:
        """Raise OutputConflictError if a record does not belong to this run, or is behind `reached`.

        `reached` is the last batch with rows that the output took, as this run or its log knows. Raises FencedError if
        a later driver has written.
        """
        run = self._run
        if record is None:
            return
        if None not in (record.place.cluster, place.cluster) and record.place.cluster != place.cluster:
            raise self.conflict(
                f"was written in the cluster {record.place.cluster}, but is now in the cluster {place.cluster} (a "
                f"mirror copies groups): its txid says nothing about this cluster. Correct the servers, or give the "
                f"output another name=: it then starts here after batch {reached}"
            )
        run.check_writer(record.lease, self._sink.step, self.conflict)
        if record.falls_short_of(reached) and not self.is_elsewhere(record, place):
            raise self.conflict(
                f"says that batch {max(record.txid, record.since)} is the last one in Kafka, but the output has "
                f"written batch {reached}: the brokers were restored from an older copy or have lost records, so later "
                f"batches are missing in the topic; or the output wrote to another topic= or with "
                f"guarantee='at-least-once' since. To continue after batch {reached}, without the missing batches, "
                f"delete the group (kafka-consumer-groups --delete --group {self.group}). Nothing was written"
            )

    @staticmethod
    def is_elsewhere(record: Record, place: Place) -> bool:
        """Return whether a record was written for a topic that was deleted and re-created since."""
        return None not in (record.place.topic, place.topic) and record.place.topic != place.topic

    def conflict(self, problem: str) -> OutputConflictError:
        """Return the error for a record that contradicts the log."""
        return OutputConflictError(f"{self._sink.step}: the consumer group {self.group!r} {problem}")
