"""KafkaSpout: a spout of the messages of Kafka topics."""

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from pyspark.sql.types import StructType

from trident.base.argument_checks import check_choice, check_whole_number
from trident.base.descriptions import described, keep
from trident.base.errors import TopologyError
from trident.base.finding import Finding, Now
from trident.base.short_texts import typed_brief
from trident_spouts.configurable import configurable
from trident_spouts.executor import Metadata, SpoutExecutor, SpoutKind
from trident_spouts.kafka.examination import examine_cluster
from trident_spouts.kafka.executor import KafkaExecutor, KafkaSource
from trident_spouts.kafka.losses import OnDataLoss
from trident_spouts.kafka.offset_ranges import from_metadata
from trident_spouts.kafka.options import Option, check_options, shown
from trident_spouts.kafka.range_reader import FIELDS
from trident_spouts.kafka.starting_offsets import StartingOffsets, check_starting
from trident_spouts.rereadable_sources import End

Isolation = Literal["read_committed", "read_uncommitted"]
_KINDS = ("transactional", "opaque")
_MOST_OFFSETS = 500_000


@configurable
@dataclass(frozen=True, init=False, repr=False)
class KafkaSpout:
    """A spout of the messages of Kafka topics, each read once, even across crashes and restarts.

    The metadata of a batch is, for each partition of each topic, the exact range of offsets. On Spark, Spark's Kafka
    connector reads the ranges; on the embedded engine, confluent-kafka does. The driver plans batches with
    confluent-kafka. The position of a stream is kept in the topology's log; no consumer group commits offsets.

    The fields of a tuple are ``key binary, value binary, topic string, partition int, offset bigint, timestamp
    timestamp, headers array<struct<key: string, value: binary>>``, as in Spark's source; headers are null if a message
    has none.

    Parameters
    ----------
    bootstrapServers : str
        The first brokers to connect to, ``"host:9092,host:9092"``; or ``"env:NAME"`` or ``"file:path"`` that holds
        them.
    topics : str or sequence of str, optional
        The topics to read; they must exist.
    pattern : str, optional
        In place of `topics`: a regular expression that the whole name of a topic matches. Topics that appear later are
        read from their beginning.
    kind : "transactional" or "opaque"
        The offsets that a replay within a run reads: the same offsets again ("transactional"), or those that exist by
        then, from the same start ("opaque"). Either is exactly-once. A transactional replay waits for a partition
        without a leader; an opaque replay leaves the partition for later.
    startingOffsets : "earliest", "latest", datetime or mapping
        The beginning of a new stream: at the first offset that exists, at the end, at the first message at or after a
        time (a datetime with its zone), or at offsets, ``{"orders": {0: 17, 1: 42}}``. The mapping has an offset
        for each partition; otherwise the first plan is refused. A stream that has a batch in the log continues after
        that batch. Topics and partitions that appear later begin at the earliest offset.
    maxOffsetsPerBatch : int
        The most offsets in one batch, of all partitions together. Each gets a share in proportion to its lag.
    isolationLevel : "read_committed" or "read_uncommitted"
        Whether messages of a transaction are read only after the transaction is committed.
    onDataLoss : "fail", "earliest" or "latest"
        The reaction if Kafka no longer has the next offsets: retention has deleted them, a topic was deleted or
        re-created, or a partition ends before the position. "fail" stops the stream with DataLossError. The other
        values log a warning and continue from the first offset that exists ("earliest") or from the end ("latest").
    options : mapping, optional
        Options of the clients under the names of librdkafka: ``security.protocol``, ``sasl.mechanism``,
        ``sasl.username``, ``sasl.password``, ``ssl.ca.location`` and so on; they are translated for Spark's connector.
        A value ``"env:NAME"`` or ``"file:path"`` is read from that variable or file when a client connects, so that no
        program has to contain a secret.
    sparkOptions : mapping, optional
        More options of Spark's reader, such as ``minPartitions`` or ``kafka.sasl.jaas.config``.

    Raises
    ------
    DataLossError
        The next offsets are lost, and `onDataLoss` is "fail".
    SourceUnreadableError
        No broker answers, a broker refuses the user, or a topic does not exist. Each attempt waits 20 seconds.
    MissingPackageError
        The package confluent-kafka is not installed.
    SparkSetupError
        The Spark session has no Kafka connector.

    Examples
    --------
    >>> KafkaSpout("localhost:9092", "orders")
    KafkaSpout('localhost:9092', 'orders')
    >>> KafkaSpout("broker:9093", pattern="clicks-.*", options={"security.protocol": "SASL_SSL",
    ...     "sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "env:KAFKA_PASSWORD"}).schema.names
    ['key', 'value', 'topic', 'partition', 'offset', 'timestamp', 'headers']

    Notes
    -----
    KafkaSpout takes the place of Storm's ``KafkaTridentSpoutTransactional`` and ``KafkaTridentSpoutOpaque``.
    """

    bootstrapServers: str
    topics: tuple[str, ...]
    pattern: str | None
    kind: SpoutKind
    forkable: ClassVar[bool] = True
    startingOffsets: StartingOffsets
    maxOffsetsPerBatch: int
    isolationLevel: Isolation
    onDataLoss: OnDataLoss
    options: Mapping[str, Option]
    sparkOptions: Mapping[str, Option]

    def __init__(
        self,
        bootstrapServers: str,
        topics: str | Sequence[str] | None = None,
        *,
        pattern: str | None = None,
        kind: Literal["transactional", "opaque"] = "transactional",
        startingOffsets: StartingOffsets = "earliest",
        maxOffsetsPerBatch: int = _MOST_OFFSETS,
        isolationLevel: Isolation = "read_committed",
        onDataLoss: OnDataLoss = "fail",
        options: Mapping[str, Option] | None = None,
        sparkOptions: Mapping[str, Option] | None = None,
    ) -> None:
        if not isinstance(bootstrapServers, str) or not bootstrapServers:
            raise TopologyError(
                f"KafkaSpout: bootstrapServers={typed_brief(bootstrapServers)}: expected 'host:port', several "
                f"separated by commas"
            )
        check_choice("KafkaSpout: kind", kind, _KINDS)
        check_choice("KafkaSpout: isolationLevel", isolationLevel, get_args(Isolation))
        check_choice("KafkaSpout: onDataLoss", onDataLoss, get_args(OnDataLoss))
        check_starting(startingOffsets)
        check_whole_number("KafkaSpout: maxOffsetsPerBatch", maxOffsetsPerBatch)
        check_options("options", {} if options is None else options)
        check_options("sparkOptions", {} if sparkOptions is None else sparkOptions)
        keep(
            self,
            bootstrapServers=bootstrapServers,
            topics=_topics(topics, pattern),
            pattern=pattern,
            kind=SpoutKind(kind),
            startingOffsets=startingOffsets,
            maxOffsetsPerBatch=maxOffsetsPerBatch,
            isolationLevel=isolationLevel,
            onDataLoss=onDataLoss,
            options=dict(options or {}),
            sparkOptions=dict(sparkOptions or {}),
        )

    @property
    def schema(self) -> StructType:
        """Return the fields of a message."""
        return FIELDS

    def open(self) -> SpoutExecutor:
        """Return the executor of one run."""
        return KafkaExecutor(self._source)

    def examine(self, now: Now = time.time) -> Iterator[Finding]:
        """Yield the faults that `trident doctor` reports: brokers out of reach, a refused login, missing topics.

        Parameters
        ----------
        now : callable
            The clock of this machine, in seconds since 1970.
        """
        source = self._source
        yield from examine_cluster("KafkaSpout", source.servers, source.options, source.names)

    @property
    def _source(self) -> KafkaSource:
        names = self.topics if self.pattern is None else re.compile(self.pattern)
        limits = self.startingOffsets, self.maxOffsetsPerBatch, self.isolationLevel, self.onDataLoss
        return KafkaSource(self.bootstrapServers, names, *limits, self.options, self.sparkOptions)

    def parts_read(self, position: Metadata) -> Collection[str]:
        """Return the topics from which the batches up to a position took messages."""
        return [name for name, topic in from_metadata(position).items() if [*topic.ends] != [*topic.begun]]

    @staticmethod
    def position_by_part(position: Metadata) -> dict[str, Metadata]:
        """Return the offset of the next message to read, by partition ("orders-0")."""
        topics = from_metadata(position).items()
        return {f"{name}-{number}": end for name, topic in topics for number, end in enumerate(topic.ends)}

    def reads_part(self, part: str) -> bool:
        """Return whether this spout reads a topic of this name."""
        return part in self.topics if self.pattern is None else bool(re.fullmatch(self.pattern, part))

    def why_not_again(self) -> str | None:
        """Return why the topics cannot be read again, for an error message; None if they can be."""
        if self.startingOffsets == "latest":
            return (
                "startingOffsets='latest' does not name a beginning; a stream that already has a position may use "
                "'earliest'"
            )
        return None

    def open_again(self, end: End) -> SpoutExecutor:
        """Return the executor of a run that reads the offsets before a position again."""
        return KafkaExecutor(self._source, end)

    def amount_before(self, end: Metadata) -> str | None:
        """Return the number of offsets before a position, in words: there may be fewer messages."""
        topics = from_metadata(end).values()
        if self.startingOffsets != "earliest" and not all(topic.begun for topic in topics):
            return None
        return f"at most {sum(sum(topic.ends) - sum(topic.begun) for topic in topics):,} offsets"

    def __hash__(self) -> int:
        return hash((self.bootstrapServers, self.topics, self.pattern))

    def __repr__(self) -> str:
        topics = self.topics[0] if len(self.topics) == 1 else list(self.topics)
        options, spark = shown(self.options), shown(self.sparkOptions)
        return described(self, topics=topics or None, options=options or None, sparkOptions=spark or None)


def _topics(topics: object, pattern: object) -> tuple[str, ...]:
    """Return the names of the topics. Raises TopologyError unless either names or a pattern are given."""
    if (topics is None) == (pattern is None):
        raise TopologyError(
            "KafkaSpout: expected either topics, KafkaSpout('localhost:9092', 'orders'), or pattern='clicks-.*'"
        )
    if pattern is not None:
        try:
            re.compile(pattern)  # type: ignore[call-overload]
        except (re.error, TypeError) as error:
            raise TopologyError(f"KafkaSpout: pattern={pattern!r} is not a regular expression ({error})") from None
        return ()
    names = (topics,) if isinstance(topics, str) else tuple(topics) if isinstance(topics, Sequence) else ()
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
        raise TopologyError(
            f"KafkaSpout: topics={typed_brief(topics)}: expected a topic's name, or a list of different names"
        )
    return names
