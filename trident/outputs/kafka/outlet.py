"""The writer of a Kafka output.

    begin            init_transactions: fences out a former producer of the output, and ends its open transaction
    read the record  the txid of the last batch that is committed in Kafka
    claim            one transaction without messages: the same record, now with this driver's lease
    each batch       if its txid is not beyond the record: nothing
                     else one transaction: the messages, and the batch's txid as the new record

A producer can commit only while no later producer has begun. So the record that it read after it began, and has updated
since, is correct as long as it can write at all. Even after crashes, takeovers and repeated batches, the messages of
each batch are committed once. After an error the producer is dropped, and the next attempt begins with a new producer.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from trident.base.change_kinds import CHANGE
from trident.base.crash_points import reach
from trident.base.errors import TopologyError
from trident.frozen.results import Result
from trident.outputs.kafka.cluster import OutputCluster
from trident.outputs.kafka.errors import OutputErrors
from trident.outputs.kafka.messages import Message, messages
from trident.outputs.kafka.record import Place, Record, RecordKeeper
from trident.outputs.kafka.sender import Sender
from trident.outputs.last_changes import last_of_keys
from trident.outputs.run_identity import RunIdentity
from trident.plan.nodes import WriteKafka
from trident_spouts.kafka.cluster import kafka_client
from trident_spouts.kafka.options import client_options

_log = logging.getLogger("trident.outputs")

_TRANSACTION_MS = 300_000
"""The time after which Kafka ends a transaction that its producer left open. Until then, readers of the topic wait."""

ReadTables = Callable[[Result], Iterable[pa.Table]]
"""A function that returns the rows of a result as tables, file by file if the result is large."""


class KafkaOutlet:
    """Writes every batch once, or at least once. It connects when it is created.

    Raises OutputUnavailableError if no broker answers, OutputRefusedError if a broker refuses, and OutputConflictError
    if the record of the output does not belong to this run.
    """

    def __init__(self, sink: WriteKafka, run: RunIdentity, read: ReadTables) -> None:
        self._sink, self._run, self._read = sink, run, read
        self._target = sink.kafka
        self._output = f"{run.topology}/{sink.name}"
        self._kafka = kafka_client(sink.step)
        self._exactly_once = sink.kafka.guarantee == "exactly-once"
        self._topics: set[str] = set()
        """The topics that are known to exist."""
        self._sender: Sender | None = None
        self._doubtful = 0
        """If Kafka has no record of a batch: the last txid whose batch may have been written before."""
        self._last: Record | None = None
        self._place = Place()
        self._reached = run.memory.progress(sink.name).last
        """The last batch with rows that the output took, as far as the log or this run knows."""
        self._group: Any = None
        self._connect(run.last_frozen, first=True)

    def take(self, result: Result, txid: int) -> None:
        """Write the batch, unless Kafka already has it. An empty batch needs no transaction."""
        if not result.num_rows:
            return
        try:
            if self._sender is None:
                self._connect(txid)
            if not self._has(txid, result.num_rows):
                self._write(result, txid)
            self._reached = max(self._reached, txid)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Drop the producer, with everything that it has not committed."""
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.drop(self._exactly_once)

    # --- connecting ----------------------------------------------------------------------------------------------

    def _connect(self, tried: int, first: bool = False) -> None:
        """Create a producer. `tried` is the last batch that may already have been written."""
        config = self._config()
        errors = OutputErrors(self._sink.step, str(config["bootstrap.servers"]))
        self._cluster = OutputCluster(config, errors, self._sink.step)
        self._topics.clear()
        self._check_topics({self._target.topic})
        self._place = self._topic_now(Place(self._cluster.id()))
        name = str(config.pop("transactional.id", f"trident/{self._output}"))
        if not self._exactly_once:
            self._sender = self._make_sender({**config, "enable.idempotence": True}, errors)
            return
        keeper = RecordKeeper(self._cluster, self._sink, self._run, str(config.get("group.id", name)))
        # A start on a wrong checkpoint, or a driver that was taken over, must not fence out the right driver. This
        # check does not wait for a transaction that a dead driver left open, because only the next producer ends that
        # transaction. So the check may find an older record.
        self._check_record(keeper, keeper.read(stable=False), first, reached=0)
        sender = self._make_sender(
            {"transaction.timeout.ms": _TRANSACTION_MS, **config, "transactional.id": name}, errors
        )
        sender.call(f"begin as transactional.id {name!r}", "init_transactions")
        self._last = keeper.read()
        self._group = self._group_metadata(keeper.group)
        self._keeper, self._sender = keeper, sender
        self._check_record(keeper, self._last, first, self._reached)
        self._doubtful = tried if self._last is None else self._last.doubtful
        if self._last is not None and keeper.is_elsewhere(self._last, self._place):
            self._topic_anew(self._last.place.topic)
            # Messages in other topics may still exist.
            self._doubtful = 0 if self._target.topic_field is None else tried
            self._last = None
        if self._last is not None and self._holds_rows and self._last.place.partitions is not None:
            self._place = self._place._replace(partitions=self._last.place.partitions)
        if self._last is None and self._reached and first:
            _log.warning(
                "%s: the consumer group %r has no record of this output, although batch %s was written: Kafka deleted "
                "the record after offsets.retention.minutes, the group or the topic was deleted, or this is another "
                "cluster. The output continues after batch %s, and writes no earlier batch again",
                self._sink.step, keeper.group, self._reached, self._reached,
            )  # fmt: skip
        if self._last is None:
            # From now on there is a record: if it is missing at a later start, it was lost.
            self._claim(sender, keeper.first_record(self._reached, self._doubtful, self._place))
        elif self._last.lease != self._run.lease:
            # A driver on a copy of the log, or an earlier driver, that begins from now on finds this driver's record.
            self._claim(sender, self._last._replace(lease=self._run.lease))

    def _claim(self, sender: Sender, record: Record) -> None:
        """Commit a record of this driver, without messages."""
        sender.call("begin a transaction", "begin_transaction")
        self._send_record(sender, record)
        sender.call("commit the transaction", "commit_transaction")
        self._last = record

    def _check_record(self, keeper: RecordKeeper, record: Record | None, first: bool, reached: int) -> None:
        keeper.check(record, self._place, reached)
        if first and record is not None and record.txid > self._run.last_frozen:
            raise keeper.conflict(
                f"says that batch {record.txid} is in Kafka, but the last batch in the log is {self._run.last_frozen}: "
                f"the log is an old copy. Restore the newest log, or give the output another name="
            )

    def _topic_now(self, place: Place) -> Place:
        """Return a place with the present topic."""
        topic = self._cluster.describe_all([self._target.topic])[self._target.topic]
        return place._replace(topic=topic.id, partitions=topic.partitions if self._target.changes else None)

    @property
    def _holds_rows(self) -> bool:
        """Whether the topic may have rows of this output."""
        return self._last is None or bool(self._last.txid or self._last.since or self._doubtful)

    def _check_partitions(self) -> None:
        """Raise OutputRefusedError if the topic had a different number of partitions when its rows were written.

        A key would go to another partition, and its former row would stay in the old one.
        """
        before, now = self._place.partitions, self._topic_now(self._place).partitions
        if before != now:
            raise self._cluster.refused(
                "write",
                f"topic {self._target.topic!r} has {now} partitions, and had {before} when its rows were written: "
                f"keys would go to partitions other than those of their former rows, which Kafka would then neither "
                f"replace nor delete. Write to a new topic, and give the output another name=; to write all rows of a "
                f"state there, reset the topology",
            )

    def _topic_anew(self, former: str | None) -> None:
        _log.warning(
            "%s: topic %r was deleted and recreated (id %s before, %s now): the batches up to %s were deleted with "
            "it, and are not written again",
            self._sink.step, self._target.topic, former, self._place.topic, self._reached,
        )  # fmt: skip

    def _config(self) -> dict[str, Any]:
        def refused(problem: str) -> TopologyError:
            return TopologyError(f"{self._sink.step}: {problem}")

        # Java's producer, and so Spark's and Kafka Streams', finds the partition of a key by murmur2.
        return {"partitioner": "murmur2_random", **client_options(self._target.servers, self._target.options, refused)}

    def _make_sender(self, config: dict[str, Any], errors: OutputErrors) -> Sender:
        try:
            return Sender(self._kafka, config, errors)
        except self._kafka.KafkaException as error:
            raise TopologyError(f"{self._sink.step}: options: {error.args[0].str()}") from None

    def _group_metadata(self, group: str) -> Any:
        """Return the metadata that a producer needs to commit an offset of a group.

        Only a consumer can provide this metadata.
        """
        # It has no brokers, because it needs none, and a consumer that is closed while it connects may crash
        # (librdkafka 2.16).
        consumer = self._kafka.Consumer({"group.id": group, "log_level": 0})
        try:
            return consumer.consumer_group_metadata()
        finally:
            consumer.close()

    def _check_topics(self, names: set[str]) -> None:
        """Raise OutputRefusedError if a topic does not exist."""
        new = names - self._topics
        if not new:
            return
        missing = sorted(new - self._cluster.describe_all(new).keys())
        if missing:
            shown = ", ".join(map(repr, missing[:3]))
            raise self._cluster.refused("write", f"there is no topic {shown}; create it, or correct the topic's name")
        self._topics |= new

    # --- writing -------------------------------------------------------------------------------------------------

    def _has(self, txid: int, rows: int) -> bool:
        """Return whether Kafka has the batch.

        Raises OutputConflictError if that cannot be known, or if Kafka has another batch with this txid.
        """
        if not self._exactly_once:
            return False
        if txid <= self._doubtful:
            raise self._keeper.conflict(
                f"no longer has a record of this output (offsets.retention.minutes passed, or the group or the topic "
                f"was deleted; or the output has a new name), and batch {txid} may be in Kafka already. "
                f"Look into the topic (header trident.txid). To write the batch (possibly twice), start once with "
                f"guarantee='at-least-once'"
            )
        assert self._last is not None
        if self._last.txid == txid and self._last.rows != rows:
            raise self._keeper.conflict(
                f"says that batch {txid} has {self._last.rows} rows in Kafka, but the log has {rows}: one of the two "
                f"does not belong to this topology. Restore the newest log, or give the output another name="
            )
        return txid <= self._last.txid

    def _write(self, result: Result, txid: int) -> None:
        assert self._sender is not None
        self._sender.renew()
        if self._exactly_once:
            self._look_again()
            self._sender.call("begin a transaction", "begin_transaction")
        self._sender.send(messages(self._tuples(result), self._target, self._output, txid), self._prepare)
        if self._target.changes:
            self._check_partitions()
        if self._exactly_once:
            self._commit(self._sender, self._keeper.record(txid, result.num_rows, self._place))
        else:
            reach("output.published")

    def _tuples(self, result: Result) -> Iterable[pa.Table]:
        """Return the tuples that become messages: of changes, the last one of each key."""
        if not self._target.changes:
            return self._read(result)
        assert self._target.key is not None
        return last_of_keys(lambda: self._read(result), [self._target.key], CHANGE, self._target.consolidated)

    def _look_again(self) -> None:
        """Record the current id of the topic. It may have been re-created while the producer continues."""
        former, now = self._place, self._topic_now(self._place)
        if None in (former.topic, now.topic) or former.topic == now.topic:
            self._place = now._replace(partitions=former.partitions) if self._holds_rows else now
            return
        self._place = now
        self._topic_anew(former.topic)

    def _prepare(self, chunk: list[Message]) -> None:
        if self._target.topic_field is not None:
            self._check_topics({message.topic for message in chunk})

    def _commit(self, sender: Sender, record: Record) -> None:
        """Commit the open transaction, and the record with it."""
        self._send_record(sender, record)
        reach("output.staged")
        sender.call("commit the transaction", "commit_transaction")
        self._last = record
        reach("output.published")

    def _send_record(self, sender: Sender, record: Record) -> None:
        offsets = [self._kafka.TopicPartition(self._target.topic, 0, record.txid, record.encode())]
        sender.call("record the batch", "send_offsets_to_transaction", offsets, self._group)
