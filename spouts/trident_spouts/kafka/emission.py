"""The tuples of a batch of a KafkaSpout. Spark's connector reads them, or the driver does on the embedded engine."""

import json
import re
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from trident.base.errors import SparkSetupError
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata
from trident_spouts.kafka.offset_ranges import OffsetRange
from trident_spouts.kafka.range_reader import FIELDS, LAST_MILLISECOND, WRONG_TIME, RangeReader
from trident_spouts.source_times import SourceSpan, spans_of
from trident_spouts.spark_workers import parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TASKS_PER_CORE = 4
"""The most partitions per core for which each partition is a separate Spark task. If there are more, a task reads
several, one after the other."""

_silenced = weakref.WeakSet[Any]()
"""The Spark contexts that do not log the warning of `kafka.group.id`."""


@dataclass(frozen=True, slots=True, eq=False)
class KafkaEmission(Emission):
    """The messages in ranges of offsets."""

    verified = True

    ranges: tuple[OffsetRange, ...]
    reader_: RangeReader
    options: Callable[[], Mapping[str, str]]
    """Returns the options of Spark's reader, with their secrets."""
    check_read: Callable[[], None]
    """Raises SourceUnreadableError if the data may have come from a topic other than the planned one."""
    look: Callable[[], None]
    """Records the last messages of the ranges in the driver, before Spark reads the ranges."""
    position: Callable[[], Metadata]
    """Returns the position after the batch, with its evidence, once the batch was read."""
    group: Callable[[], str]
    """Returns the group under which Spark's workers keep consumers, and the data that the consumers have read ahead,
    from batch to batch. Spark's default group is new for each query, so every batch would connect again. Another run
    must have another group, because its options may differ; so must a topic that was re-created, and one that may have
    lost messages that were read ahead. `look`, which may find such a loss, comes first."""
    newest: Callable[[OffsetRange], float | None]
    """Returns the time of the last message of a range that was read or looked at; None if it is not known."""
    splits: bool = False
    """True if the options let Spark cut a range into several partitions."""
    taken: threading.Event = field(default_factory=threading.Event)
    """Set once the tuples were requested."""
    times: list[SourceSpan] = field(default_factory=list)
    """The times of the messages, once the driver has read them."""

    @property
    def rows(self) -> int | None:
        """Return None, because some offsets may have no message; 0 if there are no offsets."""
        return None if self.ranges else 0

    @property
    def most_rows(self) -> int:
        """Return the number of offsets. Each offset has at most one message."""
        return sum(each.size for each in self.ranges)

    @property
    def after(self) -> Metadata:
        """Return the position after the batch, with the last message of each partition, once the batch was read."""
        return self.position() if self.taken.is_set() else None

    def arrow(self) -> pa.Table:
        """Return the messages, read into the driver's memory."""
        self.taken.set()
        table = self.reader_.read(self.ranges)
        self.check_read()
        times = table.column("timestamp")
        self.times[:] = spans_of(times.filter(pc.greater(times, pa.scalar(0, times.type))))  # Kafka's -1: no time
        return table

    @property
    def source_times(self) -> Sequence[SourceSpan]:
        """Return the times of the messages; if Spark read them, the last one of each partition counts for all of it."""
        if self.times or not self.taken.is_set():
            return self.times
        newest = ((self.newest(each), each.size) for each in self.ranges)
        return [span for time, size in newest if time is not None for span in SourceSpan.at(time, size)]

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        """Return a DataFrame of Spark's Kafka source over exactly these ranges. No message passes through the driver.

        Raises SparkSetupError if the session has no Kafka connector.
        """
        if not self.ranges:
            return ArrowEmission(self.arrow()).dataframe(spark, scratch)
        self.taken.set()
        self.look()
        given = self._given() | dict(self.options())
        _silence_group_warning(spark)
        try:
            frame = _checked_times(spark.read.format("kafka").options(**given).load().select(*FIELDS.names))
            assert frame.columns == FIELDS.names  # Spark Connect loads the connector only when it is needed
        except Exception as error:
            if not re.search("DATA_SOURCE_NOT_FOUND|Failed to find (the )?data source", str(error)):
                raise
            raise _no_connector(spark) from error
        tasks = _TASKS_PER_CORE * parallelism(spark)
        return frame.coalesce(tasks) if len(self.ranges) > tasks else frame

    def _given(self) -> dict[str, str]:
        partitions: dict[str, list[int]] = {}
        starts: dict[str, dict[str, int]] = {}
        ends: dict[str, dict[str, int]] = {}
        for range_ in self.ranges:
            partitions.setdefault(range_.topic, []).append(range_.partition)
            starts.setdefault(range_.topic, {})[str(range_.partition)] = range_.start
            ends.setdefault(range_.topic, {})[str(range_.partition)] = range_.end
        return {
            "assign": json.dumps(partitions),
            "startingOffsets": json.dumps(starts),
            "endingOffsets": json.dumps(ends),
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            "kafka.group.id": self.group(),
        }

    @property
    def one_partition(self) -> bool:
        """Return whether Spark reads the messages in one partition."""
        return len(self.ranges) == 1 and not self.splits

    def check_scanned(self) -> None:
        """Raise SourceUnreadableError if a topic was deleted or re-created while Spark read it."""
        self.check_read()


def _silence_group_warning(spark: "SparkSession") -> None:
    """Turn off Spark's warning about `kafka.group.id`, which takes eight lines for each batch.

    The warning is meant for a group that several queries share. A run's group is not shared.
    """
    from py4j.java_gateway import JavaPackage

    context: Any = getattr(spark, "_sc", None)
    if context is None or context in _silenced:  # Spark Connect runs in another process, with a separate log
        return
    _silenced.add(context)
    log4j: Any = context._jvm.org.apache.logging.log4j  # noqa: SLF001
    configurator = log4j.core.config.Configurator
    if not isinstance(configurator, JavaPackage):  # a JVM with another logging library lacks this class
        configurator.setLevel("org.apache.spark.sql.kafka010.KafkaSourceProvider", log4j.Level.ERROR)


def _checked_times(frame: "DataFrame") -> "DataFrame":
    """Return the messages. A query that uses their times fails at a message with a time that no datetime can hold."""
    from pyspark.sql import functions as F

    end = F.timestamp_seconds(F.lit(LAST_MILLISECOND // 1000 + 1))
    place = F.concat(F.col("topic"), F.lit("-"), F.col("partition"), F.lit(", offset "), F.col("offset"))
    text = F.concat(
        F.lit("KafkaSpout: the message at "), place, F.lit(" has the timestamp "), F.unix_millis("timestamp"),
        F.lit(f": {WRONG_TIME}"),
    )  # fmt: skip
    time = F.when(F.col("timestamp") >= end, F.raise_error(text)).otherwise(F.col("timestamp"))
    return frame.withColumn("timestamp", time)


def _no_connector(spark: "SparkSession") -> SparkSetupError:
    return SparkSetupError(
        f"KafkaSpout: this Spark session has no Kafka connector. Start it with spark.jars.packages="
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version} (SparkSession.builder.config('spark.jars.packages'"
        f", '...') or spark-submit --packages ...), or start the topology with engine='embedded'"
    )
