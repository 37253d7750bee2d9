"""Plans of batches: the offsets to read next, and a check that no unread offsets are lost."""

import re
from collections.abc import Iterator, Mapping, Sequence

from trident.base.errors import SourceUnreadableError
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.kafka.cluster import Cluster
from trident_spouts.kafka.last_messages import Partition
from trident_spouts.kafka.losses import (
    Loss,
    Losses,
    anew_loss,
    deleted_loss,
    epoch_loss,
    other_cluster_loss,
    passed_loss,
    retention_loss,
    truncation_loss,
)
from trident_spouts.kafka.offset_ranges import (
    OffsetRange,
    Offsets,
    Topic,
    TopicRange,
    Topics,
    limited,
    noted,
    partitions_of,
)
from trident_spouts.kafka.partition_identity import Evidence
from trident_spouts.kafka.passed_losses import Passed, worst
from trident_spouts.kafka.starting_offsets import StartingOffsets, check_complete, check_given, first_offsets
from trident_spouts.rereadable_sources import left_out

_LOOKS = 5
"""The most times that one plan reads the topics of a cluster. It reads again if topics were created, extended or
deleted meanwhile."""


class Position:
    """The next offset of each partition of a topic, with the id of the topic.

    `begun` are the offsets at which the stream began to read the partitions; empty if they are not known.
    """

    def __init__(self, id: str | None, offsets: list[int], begun: Sequence[int]) -> None:
        self.id = id
        self.offsets = offsets
        self.begun = tuple(begun)


class Planner:
    """Plans the batches of a spout. One thread at a time calls `next`."""

    def __init__(
        self,
        cluster: Cluster,
        names: tuple[str, ...] | re.Pattern[str],
        starting: StartingOffsets,
        limit: int,
        losses: Losses,
        evidence: Evidence,
    ) -> None:
        self._cluster = cluster
        self._evidence = evidence
        self._cluster_id: str | None = None
        self._compared = False
        """True if the position at which this run begins was compared with the cluster."""
        self._names = names
        self._starting = starting
        self._limit = limit
        self._losses = losses
        self._topics: dict[str, Topic] = {}
        """The topics that the spout reads, as they were when the cluster was last queried."""
        self._started = False
        """True if the beginning of the stream was planned once. Topics that appear later begin at the earliest offset,
        even with "latest"."""
        self._gone: set[str] = set()
        """The topics that were read and were then deleted. The spout does not wait for them again."""
        self._begun: dict[str, Position] = {}
        """The first offsets of topics that no batch names yet, kept for the whole run. So "latest" or a time means the
        same offsets each time the first batch is planned, and offsets deleted in between count as lost."""
        self._other: Topics = {}
        """The position of another reader whose topics are read again; empty if there is none."""
        self.measured: tuple[Offsets, Offsets] = ({}, {})
        """The offsets at which this run began with each partition, and the partition's end at the last plan."""

    def next(self, before: Topics | None, budget: Budget = NO_LIMIT, until: Topics | None = None) -> Topics | None:
        """Return the ranges of the batch that follows the batch `before`; None if there is nothing new.

        If `before` is None, the stream has no batch yet. A batch without topics records that none existed: later
        topics that match the pattern are read from their beginning.

        With `until`, the position of another reader, its topics are read from its beginning up to there.

        The first batch of a stream that begins at the end, or at a time, may be empty; it is frozen to record the start
        of the stream. Raises DataLossError if unread offsets are lost.
        """
        first, previous = before is None, before or {}
        topics, ends = self._look(previous) if until is None else self._look_again(previous, until)
        if not self._compared:
            self._cluster_id = self._cluster.id()
            self._evidence.hold(previous)
        positions, losses = self._positions(previous, topics, ends, first)
        if until is not None:
            losses += self._check_reread(until, previous, positions, topics, ends)
        losses += self._check_ends(positions, ends)
        losses += self._check_starts(positions, ends)
        losses += self._check_evidence(previous, topics, positions, ends)
        self._losses.tell(losses)
        self._compared = True
        self._measure(positions, ends)
        away = {name: range_ for name, range_ in previous.items() if not self.reads(name)}
        plan = self._cut(positions, ends, budget) | {name: at._replace(starts=at.ends) for name, at in away.items()}
        plan = noted(dict(sorted(plan.items())), worst([self._losses.passed, _passed(previous)]))
        return plan if self._advances(plan, first, losses if until is None else []) else None

    def _advances(self, plan: Topics, first: bool, losses: list[Loss]) -> bool:
        """Return whether to freeze a plan: it has messages, or records a new position of the stream."""
        if any(range_.starts != range_.ends for range_ in plan.values()):
            return True
        # Otherwise the next plan finds the loss again, and "latest" skips everything that was added since.
        if losses:
            return bool(plan)
        # As long as nothing was read, the next start finds "earliest" and given offsets again.
        keeps_its_place = self._starting == "earliest" or isinstance(self._starting, Mapping)
        return first and not keeps_its_place

    def _check_reread(
        self,
        until: Topics,
        previous: Topics,
        positions: Mapping[str, Position],
        topics: Mapping[str, Topic],
        ends: Offsets,
    ) -> list[Loss]:
        """Return the losses of offsets before the position `until` of another reader.

        Raises SourceUnreadableError if all readable offsets are read, and `until` is not reached.
        """
        losses = _passed_losses(until) + self._gone_losses(until, topics)
        wanted = {(name, number): end for name, at in until.items() for number, end in enumerate(at.ends)}
        read = {at: offset for at, offset in _each(positions) if at in wanted}
        if not previous:
            self._losses.tell_compacted(
                [name for name in topics if until[name].compacted or self._cluster.compacts(name)]
            )
        losses += self._lost_beginnings(until, {at: first for at, first in read.items() if at[0] not in previous})
        short = {at: wanted[at] for at, offset in read.items() if ends.get(at, offset) <= offset < wanted[at]}
        return losses + self._truncated(short)

    def _gone_losses(self, until: Topics, topics: Mapping[str, Topic]) -> list[Loss]:
        """Return the losses of topics that another reader has read and that no longer exist."""
        gone = {name: at for name, at in until.items() if _is_gone(at, topics.get(name))}
        return [self._gone_loss(name, at, topics.get(name)) for name, at in gone.items()]

    def _lost_beginnings(self, until: Topics, firsts: Offsets) -> list[Loss]:
        """Return the losses of topics of which the other reader's beginning is unknown."""
        if self._starting != "earliest":
            return []
        return [retention_loss(*at, 0, first) for at, first in firsts.items() if first and not until[at[0]].begun]

    def _truncated(self, short: Offsets) -> list[Loss]:
        """Return the losses of partitions that end before the given offsets, which another reader has read.

        Raises SourceUnreadableError if a partition has them, but they cannot be read yet.
        """
        marks = self._cluster.high_watermarks(short)
        cut = {at: mark for at, mark in marks.items() if mark < short[at]}
        if waiting := sorted(short.keys() - cut.keys()):
            shown = ", ".join(f"{name}-{number}" for name, number in waiting[:3])
            raise self._cluster.unreadable("read", f"{shown} cannot be read up to the offsets that the stream has read")
        return [truncation_loss(*at, short[at], mark) for at, mark in cut.items()]

    # --- the topics ------------------------------------------------------------------------------------------------

    def reads(self, name: str) -> bool:
        """Return whether the spout reads a topic of this name.

        An earlier spout of the stream may have read other topics.
        """
        return name in self._names if isinstance(self._names, tuple) else bool(self._names.fullmatch(name))

    def _look(self, previous: Topics) -> tuple[dict[str, Topic], Offsets]:
        """Return the topics to read and the ends of their partitions, consistent with each other.

        The ends are read between two descriptions of the topics. If both descriptions are equal, no topic was
        re-created in between, because each topic has a unique id.
        """
        for _ in range(_LOOKS):
            ends = self._cluster.ends(partitions_of(self._topics))
            topics = self._described(previous)
            if topics == self._topics:
                return topics, ends
            self._topics = topics
        raise SourceUnreadableError(
            "KafkaSpout: the topics change faster than they can be read; the batch is planned again"
        )

    def _look_again(self, previous: Topics, until: Topics) -> tuple[dict[str, Topic], Offsets]:
        """Return the topics that another reader has read up to `until`, and the end offsets for reading them."""
        self._other, self._names = until, tuple(sorted(until))
        topics, ends = self._look(previous | until)
        return topics, limited_ends(ends, until)

    def _described(self, previous: Topics) -> dict[str, Topic]:
        names = self._names if isinstance(self._names, tuple) else self._cluster.matching(self._names)
        known = {name for name in previous if self.reads(name)}
        wanted = sorted({*names, *known})
        topics = self._cluster.describe(wanted)
        self._gone -= topics.keys()
        if any(name not in topics and name not in self._gone for name in wanted):
            topics = self._cluster.describe_all(wanted)
            absent = [name for name in wanted if name not in topics]
            never = [name for name in absent if name not in known and isinstance(self._names, tuple)]
            if set(never) - self._gone:
                raise self._cluster.unreadable(
                    "read", f"there is no topic {', '.join(map(repr, never))}; create it, or correct topics="
                )
            self._gone.update(absent)
        return topics

    # --- the positions ---------------------------------------------------------------------------------------------

    def _positions(
        self, previous: Topics, topics: Mapping[str, Topic], ends: Offsets, first: bool
    ) -> tuple[dict[str, Position], list[Loss]]:
        """Return the position of each topic after the batch `previous`, and the losses of deleted topics.

        `first` says whether the stream has no batch at all.
        """
        gone = [name for name in previous if self.reads(name) and name not in topics]
        losses = [self._gone_loss(name, previous[name], None) for name in gone]
        fresh = {name: topic for name, topic in topics.items() if name not in previous}
        positions = self._begun_before(fresh)
        positions |= self._beginnings({n: t for n, t in fresh.items() if n not in positions}, first)
        for name, topic in topics.items():
            before = previous.get(name)
            if before is None:
                continue
            if self._continues(before, topic):
                positions[name] = Position(topic.id, _grown(before.ends, topic), _grown_begun(before, topic))
            else:
                losses.append(self._gone_loss(name, before, topic))
                self._evidence.forget(name)
                policy: StartingOffsets = "latest" if self._losses.policy == "latest" else "earliest"
                positions[name] = self._first(policy, {name: topic})[name]
        return positions, losses

    def _continues(self, before: TopicRange, topic: Topic) -> bool:
        """Return whether a topic is the topic that was read. Without topic ids, the cluster's id decides."""
        if before.id is not None and topic.id is not None:
            return _same(before, topic)
        known = {before.cluster, self._cluster_id} - {None}
        return _same(before, topic) and len(known) < 2

    def _gone_loss(self, name: str, before: TopicRange, topic: Topic | None) -> Loss:
        """Return the loss of a topic that was read and does not exist now."""
        self._cluster_id = self._cluster.id()
        if before.cluster is not None and self._cluster_id is not None and before.cluster != self._cluster_id:
            return other_cluster_loss(name, before.cluster, self._cluster_id, (before.id, topic.id if topic else None))
        return deleted_loss(name) if topic is None else anew_loss(name, before.id, topic.id)

    def _begun_before(self, fresh: Mapping[str, Topic]) -> dict[str, Position]:
        """Return the first positions of topics that another reader has read, if its beginning is known."""
        begun = {name: at.begun for name, at in self._other.items() if name in fresh and _begins(at, fresh[name])}
        return {name: Position(fresh[name].id, _grown(first, fresh[name]), first) for name, first in begun.items()}

    def _beginnings(self, fresh: Mapping[str, Topic], first: bool) -> dict[str, Position]:
        """Return the first positions of topics that no batch names yet.

        `first` says whether the stream has no batch at all.
        """
        unknown = {n: topic for n, topic in fresh.items() if n not in self._begun or self._begun[n].id != topic.id}
        if unknown:
            # As in Spark's source, topics that appear later are read from their beginning, unless their offsets are
            # given.
            later: StartingOffsets = self._starting if isinstance(self._starting, Mapping) else "earliest"
            anew = first and not self._started
            if anew:
                check_given(self._starting, fresh)
            self._check_complete(unknown, first)
            self._begun |= self._first(self._starting if anew else later, unknown)
        self._started = self._started or first
        begun = {name: _grown(self._begun[name].offsets, topic) for name, topic in fresh.items()}
        return {name: Position(topic.id, begun[name], begun[name]) for name, topic in fresh.items()}

    def _check_complete(self, unknown: Mapping[str, Topic], first: bool) -> None:
        """Raise TopologyError if a partition with which the stream begins has no given offset.

        A beginning that was accepted before is not checked: that of another reader, and that of a run that has already
        planned.
        """
        if not self._other and not (first and self._compared):
            check_complete(self._starting, unknown, self._cluster, named=not first)

    def _first(self, starting: StartingOffsets, topics: Mapping[str, Topic]) -> dict[str, Position]:
        offsets = first_offsets(starting, topics, self._cluster)
        begun = {name: [offsets[name, number] for number in range(t.partitions)] for name, t in topics.items()}
        return {name: Position(topic.id, begun[name], begun[name]) for name, topic in topics.items()}

    def _check_ends(self, positions: Mapping[str, Position], ends: Offsets) -> list[Loss]:
        """Move each position beyond the end of its partition to that end. Return the losses."""
        beyond = [partition for partition, offset in _each(positions) if offset > ends.get(partition, offset)]
        marks = self._cluster.high_watermarks(
            beyond
        )  # for a while, the last stable offset may be before offsets that were read
        losses = []
        for (name, number), mark in marks.items():
            offsets = positions[name].offsets
            if mark < offsets[number]:
                losses.append(truncation_loss(name, number, offsets[number], mark))
                self._evidence.forget(name, number)
                offsets[number] = mark
        return losses

    def _check_starts(self, positions: Mapping[str, Position], ends: Offsets) -> list[Loss]:
        """If the offsets at a position were deleted, move the position past them.

        Return the losses, one per partition.

        With the policy "latest" a position moves to its partition's end, otherwise to the earliest offset.
        """
        behind = [partition for partition, offset in _each(positions) if offset < ends.get(partition, offset)]
        losses = []
        for (name, number), earliest in self._evidence.first(behind).items():
            offsets = positions[name].offsets
            if earliest > offsets[number]:
                losses.append(retention_loss(name, number, offsets[number], earliest))
                offsets[number] = ends[name, number] if self._losses.policy == "latest" else earliest
        return losses

    def _check_evidence(
        self, previous: Topics, topics: Mapping[str, Topic], positions: Mapping[str, Position], ends: Offsets
    ) -> list[Loss]:
        """Compare the evidence in `previous` with the cluster. Return the losses, and move positions past them.

        The first plan of a run compares all partitions; later plans compare partitions whose leader epoch has changed.
        """
        found: dict[Partition, Loss] = {}
        suspects: dict[Partition, tuple[int, int | None]] = {}
        for (name, number), offset in _each(positions):
            before = previous.get(name)
            if before is None or (name, number) not in ends or [offset] != before.ends[number : number + 1]:
                continue  # unread partition, no answer, or moved by another loss
            former, present = before.epoch(number), self._cluster.epochs.get((name, number))
            moved = former is not None and present is not None and present != former
            if former is not None and present is not None and present < former:
                found[name, number] = epoch_loss(name, number, offset, former, present)
            elif moved or not self._compared:
                suspects[name, number] = offset, former if moved else None
        found |= self._evidence.losses(suspects)
        earliest = self._cluster.earliest(found) if self._losses.policy == "earliest" else ends
        for name, number in found:
            self._evidence.forget(name, number)
            positions[name].offsets[number] = earliest.get((name, number), ends[name, number])
        return [*found.values()]

    # --- the plan --------------------------------------------------------------------------------------------------

    def _cut(self, positions: Mapping[str, Position], ends: Offsets, budget: Budget) -> Topics:
        """Return the ranges of the next batch: as many offsets as the limit and the budget allow."""
        lags = [max(0, ends.get(partition, offset) - offset) for partition, offset in _each(positions)]
        counts = iter(limited(lags, budget.rows_within(self._limit)))
        epochs = self._cluster.epochs
        return {
            name: TopicRange(
                at.id,
                at.offsets,
                [offset + next(counts) for offset in at.offsets],
                self._cluster_id,
                [epochs.get((name, number)) for number in range(len(at.offsets))],
                begun=at.begun,
            )
            for name, at in positions.items()
        }

    def _measure(self, positions: Mapping[str, Position], ends: Offsets) -> None:
        first = self.measured[0]
        found = {partition: first.get(partition, offset) for partition, offset in _each(positions)}
        self.measured = found, {partition: ends.get(partition, offset) for partition, offset in _each(positions)}


class Replays:
    """Checks that the planned offsets of a batch still exist."""

    def __init__(self, cluster: Cluster, losses: Losses, evidence: Evidence) -> None:
        self._cluster = cluster
        self._losses = losses
        self._evidence = evidence

    def present(self, ranges: tuple[OffsetRange, ...], planned: Topics) -> tuple[OffsetRange, ...]:
        """Return the ranges of a batch that still exist, for another attempt at the batch.

        Raises DataLossError if offsets are lost, unless the policy is to continue without them.
        """
        topics = self._cluster.describe_all(planned)
        losses = []
        for name in sorted({range_.topic for range_ in ranges}):
            if name not in topics:
                losses.append(deleted_loss(name))
            elif not _same(planned[name], topics[name]):
                losses.append(anew_loss(name, planned[name].id, topics[name].id))
        there = [each for each in ranges if each.topic in topics and _same(planned[each.topic], topics[each.topic])]
        earliest = self._evidence.first((each.topic, each.partition) for each in there)
        for at, each in enumerate(there):
            first = earliest.get((each.topic, each.partition), each.start)
            if first > each.start:
                losses.append(retention_loss(each.topic, each.partition, each.start, min(first, each.end)))
                there[at] = each._replace(start=min(first, each.end))
        self._losses.tell(losses)
        return tuple(each for each in there if each.size)

    def check_read(self, names: set[str], planned: Topics) -> None:
        """Raise SourceUnreadableError if a topic was deleted or re-created while it was read."""
        topics = self._cluster.describe_all(names)
        for name in sorted(names):
            if name not in topics or not _same(planned[name], topics[name]):
                raise self._cluster.unreadable("read", f"topic {name!r} was deleted or recreated after the plan")


def _grown(offsets: Sequence[int], topic: Topic) -> list[int]:
    """Return a copy of a topic's offsets, with 0 for each new partition.

    All records of a new partition came after the topic was first read, so if its first records are missing, they are
    lost.
    """
    return [*offsets, *[0] * (topic.partitions - len(offsets))]


def _grown_begun(before: TopicRange, topic: Topic) -> Sequence[int]:
    """Return the offsets at which the stream began, extended to new partitions; none if they are unknown."""
    return _grown(before.begun, topic) if before.begun else ()


def _begins(at: TopicRange, topic: Topic) -> bool:
    """Return whether the position `at` of another reader records the beginning of its reading of a topic."""
    return bool(at.begun) and _same(at, topic)


def limited_ends(ends: Offsets, until: Topics) -> Offsets:
    """Return the end offsets of another reader's partitions, capped at its position `until`."""
    read = {(name, number): end for name, at in until.items() for number, end in enumerate(at.ends)}
    return {partition: min(end, read[partition]) for partition, end in ends.items() if partition in read}


def _passed(position: Topics) -> Passed:
    return worst([at.passed for at in position.values()])


def _passed_losses(until: Topics) -> list[Loss]:
    """Return the loss past which another reader has continued. Raises DataLossError if it skipped messages."""
    passed = _passed(until)
    if passed == "skipped":
        raise left_out("KafkaSpout", "the stream has left out messages that Kafka may still have (onDataLoss)")
    return [passed_loss()] if passed else []


def _is_gone(at: TopicRange, topic: Topic | None) -> bool:
    """Return whether the topic that was read up to `at` is missing or was replaced by another of its name."""
    return [*at.begun] != [*at.ends] if topic is None else not _same(at, topic)


def _same(planned: TopicRange, topic: Topic) -> bool:
    """Return whether a topic is the planned topic, and not another topic of the same name."""
    ids = planned.id is None or topic.id is None or planned.id == topic.id
    return ids and len(planned.ends) <= topic.partitions


def _each(positions: Mapping[str, Position]) -> Iterator[tuple[tuple[str, int], int]]:
    for name, at in positions.items():
        for number, offset in enumerate(at.offsets):
            yield (name, number), offset
