"""Ranges of offsets, read by confluent-kafka in the driver's process, for the embedded engine and for queries."""

import re
from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.errors import MalformedInputError, SourceUnreadableError
from trident.base.spark_types import arrow_schema, parse_schema
from trident.base.years import LAST
from trident_spouts.kafka.cluster import PATIENCE_SECS, kafka_client
from trident_spouts.kafka.last_messages import LastMessage, LastMessages, Partition, last_message
from trident_spouts.kafka.offset_ranges import OffsetRange
from trident_spouts.kafka.options import Option

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_T = TypeVar("_T")

Message = Any
"""A message of confluent-kafka. The type is Any because confluent-kafka's class declares every part as optional."""

FIELDS: StructType = parse_schema(
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)
"""The fields of a message, with the names and types that they have in Spark's source."""

_SCHEMA = arrow_schema(FIELDS)
LAST_MILLISECOND = LAST // 1000
"""The last time of a message that a datetime can hold."""

WRONG_TIME = (
    "expected milliseconds since 1970, up to the year 9999, the times that Python knows. Correct the program that "
    "gives messages microseconds or nanoseconds. To leave out the messages up to this one, delete them "
    "(kafka-delete-records), and start once with onDataLoss='earliest'"
)
"""The reason why the time of a message is not accepted, and the way out."""

_CHUNK = 10_000
_EPOCH_END = re.compile(r"log truncation detected .*broker end offset is (\d+)")
"""The error of librdkafka for a position after the end of its epoch."""

_LOOK = 16
"""The number of offsets in which a last message is searched first.

The next search covers 16 times as many, and so on.
"""
_REFUSALS = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "TOPIC_AUTHORIZATION_FAILED")


class RangeReader:
    """Reads ranges of offsets. Consumers are kept between two batches; several threads may read at a time."""

    def __init__(self, config: Mapping[str, Option], isolation: str, lasts: LastMessages) -> None:
        self._lasts = lasts
        self._kafka = kafka_client()
        self._config = {
            # A batch ends with its ranges, so the broker must not delay a small answer to make it larger, and a full
            # queue is refilled at once.
            "fetch.wait.max.ms": 10,
            "fetch.queue.backoff.ms": 10,
            "group.id": "trident-pyspark",  # required, but it has no meaning for assigned partitions
            **config,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",  # a deleted offset must be an error, not a jump to another offset
        }
        self._free: list[Consumer] = []
        self._closed = False

    def read(self, ranges: tuple[OffsetRange, ...]) -> pa.Table:
        """Return all messages in the ranges, and record the last messages before the starts and ends of the ranges.

        Raises SourceUnreadableError if Kafka does not answer, or no longer has an offset, and DataLossError if the
        message before a range is not the one that was read there.
        """
        if not ranges:
            return _SCHEMA.empty_table()
        batches, reading = self._pass(ranges, _batch)
        for range_ in ranges:
            reading.note(range_, self._lasts)
        return pa.Table.from_batches(batches, _SCHEMA)

    def last_before(self, looks: Mapping[Partition, tuple[int, int]]) -> dict[Partition, LastMessage]:
        """Return the last message of each partition between two offsets, a floor and an end.

        Raises SourceUnreadableError as `read` does.
        """
        lasts: dict[Partition, LastMessage] = {}
        left, size = {each: look for each, look in looks.items() if look[0] < look[1]}, _LOOK
        while left:
            ranges = tuple(OffsetRange(*each, max(floor, end - size), end) for each, (floor, end) in left.items())
            reading = self._pass(ranges, len)[1]  # without their times, which may be invalid
            for each, message in reading.last.items():
                lasts[each] = last_message(message)
                self._lasts.saw_epoch(each, message.leader_epoch())
            left = {(each.topic, each.partition): (left[each.topic, each.partition][0], each.start) for each in ranges}
            left = {each: look for each, look in left.items() if each not in lasts and look[0] < look[1]}
            size *= _LOOK
        return {each: LastMessage(floor, -1, "") for each, (floor, _) in looks.items()} | lasts

    def cut_off(self, positions: Mapping[Partition, tuple[int, int]]) -> dict[Partition, int]:
        """Return the partitions that have lost records of a leader's epoch before an offset, with the end of the rest.

        `positions` are pairs (offset, epoch). The broker knows the end of each epoch, even if later epochs followed.
        """
        cut: dict[Partition, int] = {}
        left, until = set(positions), monotonic() + PATIENCE_SECS
        consumer = self._kafka.Consumer(self._config)
        try:
            of = self._kafka.TopicPartition
            consumer.assign([of(*each, at, leader_epoch=epoch) for each, (at, epoch) in positions.items()])
            while left:
                for message in consumer.consume(len(left), 0.2):
                    partition, error = (message.topic(), message.partition()), message.error()
                    left.discard(partition)
                    end = None if error is None else _EPOCH_END.search(error.str())
                    if end is not None and int(end[1]) < positions[partition][0]:
                        cut[partition] = int(end[1])
                if left and monotonic() >= until:
                    raise SourceUnreadableError(
                        f"KafkaSpout: the brokers gave no answer about {sorted(left)[:3]} within {PATIENCE_SECS:g} s"
                    )
            return cut
        finally:
            consumer.close()

    def _pass(
        self, ranges: tuple[OffsetRange, ...], made: Callable[[list[Message]], _T]
    ) -> "tuple[list[_T], _Reading]":
        """Read ranges to their ends. Return the results of `made` for the messages, part by part."""
        try:
            consumer = self._free.pop()
        except IndexError:
            consumer = self._kafka.Consumer(self._config)
        try:
            reading = _Reading(self._kafka, consumer, ranges)
            parts = [made(messages) for messages in reading.messages()]
            consumer.unassign()
        except BaseException:
            consumer.close()  # its queue may hold messages outside all ranges
            raise
        self._free.append(consumer)
        if self._closed:
            self.close()
        return parts, reading

    def close(self) -> None:
        """Close the consumers. A consumer that is still reading is closed when it has finished."""
        self._closed = True
        while self._free:
            self._free.pop().close()


class _Reading:
    """One pass of a consumer over ranges."""

    def __init__(self, kafka: Any, consumer: "Consumer", ranges: tuple[OffsetRange, ...]) -> None:
        self._kafka = kafka
        self._consumer = consumer
        self._open = {(each.topic, each.partition): each for each in ranges}
        """The ranges that are not read to their ends yet."""
        self.before: dict[Partition, Message] = {}
        self.last: dict[Partition, Message] = {}
        """The last messages before and in each range."""
        starts = [each.start if each.since is None else each.since for each in ranges]
        consumer.assign(
            [kafka.TopicPartition(each.topic, each.partition, at) for each, at in zip(ranges, starts, strict=True)]
        )

    def note(self, range_: OffsetRange, lasts: LastMessages) -> None:
        """Record the last messages before the start and the end of a range that was read to its end."""
        partition, since = (range_.topic, range_.partition), range_.since
        if since is not None and since < range_.start:
            before = self.before.get(partition)
            lasts.note(partition, range_.start, LastMessage(since, -1, "") if before is None else last_message(before))
        last = self.last.get(partition)
        if last is None:
            lasts.note_none(partition, range_.start, range_.end)
        else:
            lasts.note(partition, range_.end, last_message(last))

    def messages(self) -> Iterator[list[Message]]:
        """Yield all messages of the ranges, some thousands at a time."""
        messages: list[Message] = []
        until = monotonic() + PATIENCE_SECS
        while self._open:
            received = self._receive()
            if received:
                until = monotonic() + PATIENCE_SECS
                messages += received
                if len(messages) >= _CHUNK:
                    yield messages
                    messages = []
            elif monotonic() >= until:
                where = ", ".join(map(str, list(self._open.values())[:3]))
                raise SourceUnreadableError(f"KafkaSpout: no message of {where} arrived within {PATIENCE_SECS:g} s")
        if messages:
            yield messages

    def _receive(self) -> list[Message]:
        """Return the next messages of the ranges; none if no message comes for a moment."""
        # `consume` waits until it has the requested number of messages. So the first call waits for one message, and
        # the second takes those that have come.
        consumer = self._consumer
        messages = consumer.consume(1, 0.2)
        messages += consumer.consume(_CHUNK, 0) if messages else []
        return [message for message in messages if self._belongs(message)]

    def _belongs(self, message: Message) -> bool:
        """Return whether a message is in a range. A later message, or the end of the partition, ends the range."""
        error = message.error()
        partition = message.topic(), message.partition()
        range_ = self._open.get(partition)
        if error is not None and error.name() != "_PARTITION_EOF":
            self._check(error, range_)
            return False
        if range_ is None:
            return False
        # The last offsets of a range may have no message: offsets of markers, of aborted transactions and of compacted
        # messages. So a range ends when a later message, or the end of the partition, is seen.
        offset = message.offset()
        if offset >= range_.end - (error is None):
            self._end(range_)
        if error is not None or offset >= range_.end:
            return False
        belongs: bool = offset >= range_.start
        (self.last if belongs else self.before)[partition] = message
        return belongs

    def _end(self, range_: OffsetRange) -> None:
        del self._open[range_.topic, range_.partition]
        self._consumer.incremental_unassign([self._kafka.TopicPartition(range_.topic, range_.partition)])

    def _check(self, error: Any, range_: OffsetRange | None) -> None:
        """Raise SourceUnreadableError for an error that is not temporary."""
        if range_ is not None and error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_LOG_TRUNCATION"):
            raise SourceUnreadableError(f"KafkaSpout: Kafka no longer has all of {range_}: {error.str()}")
        if error.fatal() or error.name() in _REFUSALS:
            raise SourceUnreadableError(f"KafkaSpout: cannot read {range_ or 'the topics'}: {error.str()}")


def _batch(messages: list[Message]) -> pa.RecordBatch:
    """Return messages as columns. Raises MalformedInputError if a message has a time that no field holds."""
    times = [message.timestamp()[1] for message in messages]
    if max(times) > LAST_MILLISECOND:  # the broker refuses negative ones, except -1, which is no time
        wrong = next(message for message in messages if message.timestamp()[1] > LAST_MILLISECOND)
        place = f"{wrong.topic()}-{wrong.partition()}, offset {wrong.offset()}"
        raise MalformedInputError(
            f"KafkaSpout: the message at {place} has the timestamp {wrong.timestamp()[1]}: {WRONG_TIME}"
        )
    milliseconds = pa.array(times, pa.timestamp("ms", "UTC"))
    columns = [
        [message.key() for message in messages],
        [message.value() for message in messages],
        [message.topic() for message in messages],
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        milliseconds.cast(_SCHEMA.field("timestamp").type),
        [_headers(message.headers()) for message in messages],
    ]
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, _SCHEMA, strict=True)
    ]
    return pa.record_batch(arrays, schema=_SCHEMA)


def _headers(headers: list[tuple[str, bytes | None]] | None) -> list[dict[str, Any]] | None:
    """Return headers in the form in which Spark's source returns them: None if there are none."""
    return [{"key": key, "value": value} for key, value in headers] if headers else None
