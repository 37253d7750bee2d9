"""The executor of a KafkaSpout, for one run."""

import re
import uuid
import zlib
from collections.abc import Mapping
from functools import partial
from itertools import count
from typing import NamedTuple

from trident.base.attempt import TransactionAttempt
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.executor import Emission, Metadata, ReadSoFar, SpoutExecutor
from trident_spouts.kafka.cluster import Cluster
from trident_spouts.kafka.emission import KafkaEmission
from trident_spouts.kafka.last_messages import LastMessages
from trident_spouts.kafka.losses import Losses, OnDataLoss
from trident_spouts.kafka.offset_ranges import OffsetRange, Topics, from_metadata, noted, ranges_of, to_metadata
from trident_spouts.kafka.options import Option, client_options, java_options, resolved
from trident_spouts.kafka.partition_identity import Evidence
from trident_spouts.kafka.planner import Planner, Replays
from trident_spouts.kafka.range_reader import RangeReader
from trident_spouts.kafka.starting_offsets import StartingOffsets
from trident_spouts.rereadable_sources import End


class KafkaSource(NamedTuple):
    """The settings of a KafkaSpout that a run needs; see its parameters."""

    servers: str
    names: tuple[str, ...] | re.Pattern[str]
    starting: StartingOffsets
    limit: int
    isolation: str
    policy: OnDataLoss
    options: Mapping[str, Option]
    spark_options: Mapping[str, Option]


_ONE_MESSAGE: dict[str, Option] = {"queued.min.messages": 1, "fetch.message.max.bytes": 65_536}
"""The options of a client that reads one message of each partition, without read-ahead."""


class KafkaExecutor(SpoutExecutor):
    """The executor of a KafkaSpout.

    It queries the cluster to plan ranges of offsets, and emits references to the ranges.
    """

    plans_ahead = True

    def __init__(self, source: KafkaSource, end: End | None = None) -> None:
        self._source = source
        self._end = end
        config = client_options(source.servers, source.options)
        self._cluster = Cluster(config, source.isolation)
        # Messages that are read again end at a fixed position: starting "from the end" would read none of them.
        self._losses = losses = Losses("earliest" if end and source.policy == "latest" else source.policy)
        self._lasts = lasts = LastMessages(losses, self._cluster.compacts)
        self._reader = RangeReader(config, source.isolation, lasts)
        self._looks = RangeReader(_ONE_MESSAGE | config, source.isolation, lasts)
        self._evidence = Evidence(self._cluster, self._looks, lasts, source.isolation)
        self._prefix = f"{source.options.get('group.id', 'trident-pyspark')}-{uuid.uuid4().hex[:8]}"
        self._numbers = count(1)
        self._splits = bool({"minpartitions", "maxrecordsperpartition"} & {*map(str.lower, source.spark_options)})
        self._planner = Planner(self._cluster, source.names, source.starting, source.limit, losses, self._evidence)
        self._replays = Replays(self._cluster, losses, self._evidence)

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        until = None if self._end is None else from_metadata(self._end())
        topics = self._planner.next(None if previous is None else from_metadata(previous), budget, until)
        return None if topics is None else to_metadata(topics)

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        topics = from_metadata(metadata)
        ranges = ranges_of(topics)
        if attempt.attempt:  # at the first attempt the plan has just checked the cluster
            ranges = self._replays.present(ranges, topics)
        check_read = partial(self._replays.check_read, {range_.topic for range_ in ranges}, topics)
        ranges = self._evidence.backed(ranges)
        look, position = partial(self._evidence.look, ranges), partial(self._position, topics)
        group = partial(self._group, ranges, topics)
        given = self._reader, self._spark_options, check_read, look, position, group, self._newest
        return KafkaEmission(ranges, *given, self._splits)

    def _group(self, ranges: tuple[OffsetRange, ...], topics: Topics) -> str:
        """Return the consumer group for a batch; a new one if Kafka may have lost messages that were prefetched.

        See docs/decisions/0101-a-worker-forgets-what-it-read-ahead.md.
        """
        if not all(self._lasts.has_seen(at, topics[at[0]].epoch(at[1])) for at in (each[:2] for each in ranges)):
            return f"{self._prefix}-{next(self._numbers)}"
        read = {each.topic: topics[each.topic] for each in ranges}
        lives = [(name, topic.id, [*topic.epochs], self._lasts.losses_of(name)) for name, topic in read.items()]
        return f"{self._prefix}-{zlib.crc32(repr(lives).encode()):08x}"

    def _newest(self, range_: OffsetRange) -> float | None:
        """Return the time of the last message of a range that was read, in seconds since 1970; None if unknown."""
        last = self._lasts.at((range_.topic, range_.partition), range_.end)
        known = last is not None and last.offset >= range_.start and last.timestamp > 0
        return last.timestamp / 1000 if last is not None and known else None

    def _position(self, topics: Topics) -> Metadata:
        return to_metadata(noted(self._evidence.position(topics, self._planner.reads), self._losses.passed))

    def _spark_options(self) -> Mapping[str, str]:
        source = self._source
        java = java_options(client_options(source.servers, source.options))
        more = {name: str(resolved(name, value)) for name, value in source.spark_options.items()}
        return java | {"kafka.isolation.level": source.isolation} | more

    def read_so_far(self, position: Metadata) -> ReadSoFar | None:
        first, ends = self._planner.measured  # the planning thread replaces the attribute as a whole
        if not ends:
            return None
        read = {
            (name, number): offset
            for name, topic in from_metadata(position).items()
            for number, offset in enumerate(topic.ends)
        }
        total = {each: max(0, end - first[each]) for each, end in ends.items()}
        done = {each: max(0, min(read.get(each, first[each]), end) - first[each]) for each, end in ends.items()}
        lags = {f"{topic}-{number}": total[topic, number] - done[topic, number] for topic, number in ends}
        return ReadSoFar(sum(done.values()), sum(total.values()), "offsets", lags)

    def close(self) -> None:
        self._reader.close()
        self._looks.close()
