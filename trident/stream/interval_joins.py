"""The verb intervalJoin, which pairs tuples of two streams over batches, by key and time."""

from typing import Any, Generic, TypeVar

from pyspark.sql.types import StructType

from trident.base.durations import to_microseconds
from trident.base.names import FieldsLike, brief
from trident.base.spark_types import select
from trident.base.verb_call import Step
from trident.base.years import LONGEST
from trident.operations.interval_joins import IntervalJoining, Side
from trident.operations.join_kinds import JoinType, JoinTypes, read_join_types
from trident.operations.output_fields import OutputsLike
from trident.operations.windows import TOO_LONG, Duration, EventTime
from trident.plan import joins, nodes, step_checks
from trident.stream.base import StreamBase, StreamT
from trident.stream.joins import label_and_step
from trident.stream.state_specs import add_update, check_no_requests, factory_or_memory, state_spec
from trident.stream.time_joins import common_time, held_fields, joined_watermarks
from trident_state.store import ttl_of_factory

JoinedT = TypeVar("JoinedT", bound=StreamBase[Any])
"""The class of the streams that intervalJoin returns."""

_USAGE = "intervalJoin(other, keys, between=('-1 hour', '0 seconds'), timestampField=, lateness=, joinType=, name=)"
_BETWEEN = (
    "between=('-1 hour', '5 minutes'): the other stream's time may be up to one hour earlier and five minutes later"
)


class IntervalJoinVerbs(StreamBase[StreamT], Generic[StreamT, JoinedT]):
    """The verb that joins two streams by key and time interval."""

    __slots__ = ()

    def _paired(self, node: nodes.Emitted, label: str) -> JoinedT:
        """Return the stream of the pairs that `node` emits."""
        raise NotImplementedError

    def intervalJoin(
        self,
        other: StreamT,
        keys: FieldsLike,
        between: tuple[Duration, Duration],
        *,
        timestampField: str,
        otherKeys: FieldsLike | None = None,
        otherTimestampField: str | None = None,
        lateness: Duration = 0,
        idleAfter: Duration | None = None,
        joinType: JoinTypes = JoinType.INNER,
        outputFields: OutputsLike | None = None,
        stateFactory: object = None,
        name: str | None = None,
    ) -> JoinedT:
        """Pair tuples of two streams that have equal keys and nearby times, over all batches.

        A tuple of this stream at time t is paired with every tuple of the other stream with the same keys and a time
        from ``t + between[0]`` to ``t + between[1]``, both included. A pair is emitted in the batch that brings its
        second tuple. The tuples that may still find a partner are kept in a state, which is committed with the batch,
        so each pair is emitted exactly once, whatever fails. Null keys are equal, as in `join`.

        The watermark of the join is the lesser of the two streams' latest times, minus `lateness`; a tuple older than
        it is late, and dropped. When no partner can come any more, a tuple is removed from the state; with `joinType`
        "left", "right" or "full" it is then emitted with nulls if it had no partner. So while one stream has no new
        tuples, the state keeps all tuples of the other. Meaning:
        ``org.apache.flink.streaming.api.datastream.KeyedStream.intervalJoin``, with outer joins. Trident has no such
        verb: its joins are within one batch.

        Parameters
        ----------
        other : Stream
            The right stream. From then on the spouts of both streams share txids.
        keys : str or list of str
            The key fields of this stream; `otherKeys` are those of the other, if they have other names.
        between : pair of str, number of seconds or timedelta
            The ends of the interval, relative to this stream's time: ``("-1 hour", "0 seconds")`` is the hour before.
            At most 10,000 years each: no two times are further apart.
        timestampField : str
            This stream's field of event time; `otherTimestampField` is the other's, if it has another name.
        lateness : str, number of seconds or timedelta
            The distance of the watermark from the latest times so far.
        idleAfter : str, number of seconds or timedelta, optional
            If one of the streams has no tuple for this long, its time advances with the time of the batches, as if its
            tuples kept arriving with the delay of the last ones. Omitted: only tuples advance it. A stream that never
            had a tuple has no time.
        joinType : str
            "inner" (default), "left" (a tuple of this stream is emitted even without a partner), "right" or "full".
        outputFields : str or list of str, optional
            Names for the keys, then for the other fields of both. Required if both streams have a field of the same
            name.
        stateFactory : StateFactory, optional
            The kind and location of the state. Omitted: ``MemoryMapState.opaque()``.
        name : str, optional
            The state's name, its identity over restarts; ``<stream>-<other>.pairs`` if omitted.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> topology = TridentTopology()
        >>> views = topology.newStream("views", FixedBatchSpout("ad long, seen timestamp", []))
        >>> clicks = topology.newStream("clicks", FixedBatchSpout("ad long, at timestamp", []))
        >>> views.intervalJoin(clicks, "ad", ("0 seconds", "1 hour"), timestampField="seen", otherTimestampField="at")
        JoinedStream(views-clicks/0:intervalJoin(ad): ad bigint, seen timestamp, at timestamp)
        """
        label, step = label_and_step(self._register, "intervalJoin", [self, other])
        streams = (self, other)
        joins.check_one_batch([stream._node for stream in streams], step)
        check_no_requests(self._node, step)
        schemas = [stream.schema for stream in streams]
        key_names = joins.join_keys(schemas, [keys, keys if otherKeys is None else otherKeys], step)
        step = Step(f"{step.label}({', '.join(key_names[0])})", step.called)
        fields = (timestampField, timestampField if otherTimestampField is None else otherTimestampField)
        configs = [EventTime(field, lateness, step, idleAfter) for field in fields]
        kind = common_time(schemas, fields, step)
        lower, upper = _interval(between, step)
        outer = read_join_types(joinType, 2, step)
        joining = IntervalJoining(
            step.called,
            (Side(step.called, key_names[0], configs[0]), Side(step.called, key_names[1], configs[1])),
            lower,
            upper,
            (outer[1], outer[0]),
        )
        factory = factory_or_memory(stateFactory, step, _USAGE)
        if ttl_of_factory(factory) is not None:
            raise step.wrong(f"remove ttlSecs from {brief(factory)}: intervalJoin decides how long it keeps a tuple")
        outputs = joins.joined(schemas, key_names, outer, False, outputFields, step)
        spec = state_spec(self._register, name, factory, step, default=f"{label}.pairs")
        held, value = held_fields(select(schemas[0], key_names[0]), schemas, step)
        node = nodes.IntervalJoin(
            (self._node, other._node),
            joining,
            outputs,
            held,
            spec,
            joined_watermarks(self._register, label, streams, joining.sides, spec, kind, step),
            **step.gives(step_checks.appended(held, StructType([value]), step, of="the key")),
        )
        return self._paired(add_update(self._register, label, node, outputs, step), label)


def _interval(between: object, step: Step) -> tuple[int, int]:
    """Return the interval in microseconds. Raises TopologyError if it ends before it begins."""
    if not isinstance(between, tuple | list) or len(between) != 2:
        raise step.wrong(f"between={brief(between)}: expected two durations, such as {_BETWEEN}")
    ends = [to_microseconds(end) for end in between]
    for end, given in zip(ends, between, strict=True):
        if end is None:
            raise step.wrong(f"{brief(given)} is not a duration; write {_BETWEEN}")
        if abs(end) > LONGEST:
            raise step.wrong(f"between={brief(between)}: {TOO_LONG}")
    lower, upper = ends
    assert lower is not None
    assert upper is not None
    if lower > upper:
        raise step.wrong(f"between={between!r} ends before it begins; write {_BETWEEN}")
    return lower, upper
