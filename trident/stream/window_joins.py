"""The verb windowJoin, which joins the tuples of two streams that are in the same window."""

from typing import Any, Generic, TypeVar

from pyspark.sql.types import StructField, StructType

from trident.base.names import FieldsLike, brief
from trident.base.spark_types import select
from trident.base.verb_call import Step
from trident.operations.interval_joins import Side
from trident.operations.join_kinds import JoinType, JoinTypes, read_join_types
from trident.operations.output_fields import OutputsLike
from trident.operations.window_joins import WindowJoining
from trident.operations.windows import EventTimeWindow
from trident.plan import joins, nodes, step_checks
from trident.plan.window_schema import END, START, check_zone
from trident.stream.base import StreamBase, StreamT
from trident.stream.joins import label_and_step
from trident.stream.state_specs import add_update, check_no_requests, factory_or_memory, state_spec
from trident.stream.time_joins import common_time, held_fields, joined_watermarks
from trident_state.store import ttl_of_factory

JoinedT = TypeVar("JoinedT", bound=StreamBase[Any])
"""The class of the streams that windowJoin returns."""

_USAGE = "windowJoin(other, keys, TumblingEventTimeWindow('10 minutes', 'at'), otherTimestampField=, joinType=, name=)"


class WindowJoinVerbs(StreamBase[StreamT], Generic[StreamT, JoinedT]):
    """The verb that joins two streams by key and window."""

    __slots__ = ()

    def _paired(self, node: nodes.Emitted, label: str) -> JoinedT:
        """Return the stream of the pairs that `node` emits."""
        raise NotImplementedError

    def windowJoin(
        self,
        other: StreamT,
        keys: FieldsLike,
        window: EventTimeWindow,
        *,
        otherKeys: FieldsLike | None = None,
        otherTimestampField: str | None = None,
        joinType: JoinTypes = JoinType.INNER,
        outputFields: OutputsLike | None = None,
        stateFactory: object = None,
        name: str | None = None,
    ) -> JoinedT:
        """Join the tuples of two streams that have equal keys and are in the same window, over all batches.

        The tuples wait in a state. When a window closes, all combinations of a tuple of this stream and a tuple of the
        other stream with equal keys in the window are emitted, with the bounds of the window, in one batch. Null keys
        are equal, as in `join`. Each combination is emitted exactly once, whatever fails.

        The watermark of the join is the lesser of the two streams' latest times, minus the window's lateness. A window
        closes when it reaches the window's end; a tuple whose windows have all closed is late, and dropped. So while
        one stream has no new tuples, no window closes, unless the window has ``idleAfter``. Meaning: a window join of
        Flink, ``org.apache.flink.streaming.api.datastream.JoinedStreams``, with outer joins. Trident has no such verb.

        Parameters
        ----------
        other : Stream
            The right stream. From then on the spouts of both streams share txids.
        keys : str or list of str
            The key fields of this stream; `otherKeys` are those of the other, if they have other names.
        window : TumblingEventTimeWindow or SlidingEventTimeWindow
            The windows of both streams, by a field of this stream. `otherTimestampField` is the other's, if it has
            another name. In sliding windows a combination is emitted for each window that has both tuples.
        joinType : str
            "inner" (default), "left" (a tuple of this stream without a partner in a window is emitted, too, with
            nulls), "right" or "full".
        outputFields : str or list of str, optional
            Names for the keys, then for the other fields of both. Required if both streams have a field of the same
            name. The fields ``windowStart`` and ``windowEnd`` come before them.
        stateFactory : StateFactory, optional
            The kind and location of the state. Omitted: ``MemoryMapState.opaque()``.
        name : str, optional
            The state's name, its identity over restarts; ``<stream>-<other>.joined`` if omitted.

        Examples
        --------
        >>> from trident import TridentTopology, TumblingEventTimeWindow
        >>> from trident.spouts import FixedBatchSpout
        >>> topology = TridentTopology()
        >>> persons = topology.newStream("persons", FixedBatchSpout("id long, at timestamp", []))
        >>> auctions = topology.newStream("auctions", FixedBatchSpout("seller long, opened timestamp", []))
        >>> tens = TumblingEventTimeWindow("10 seconds", "at")
        >>> new = persons.windowJoin(auctions, "id", tens, otherKeys="seller", otherTimestampField="opened")
        >>> new.fields
        ('windowStart', 'windowEnd', 'id', 'at', 'opened')
        """
        label, step = label_and_step(self._register, "windowJoin", [self, other])
        if not isinstance(window, EventTimeWindow):
            raise step.wrong(
                f"{brief(window)} is not an event-time window: use TumblingEventTimeWindow('10 minutes', 'at') or "
                f"SlidingEventTimeWindow; write {_USAGE}"
            )
        streams = (self, other)
        joins.check_one_batch([stream._node for stream in streams], step)
        check_no_requests(self._node, step)
        schemas = [stream.schema for stream in streams]
        key_names = joins.join_keys(schemas, [keys, keys if otherKeys is None else otherKeys], step)
        step = Step(f"{step.label}({', '.join(key_names[0])})", step.called)
        theirs = window if otherTimestampField is None else window.by(otherTimestampField, step)
        outer = read_join_types(joinType, 2, step)
        sides = Side(step.called, key_names[0], window), Side(step.called, key_names[1], theirs)
        kind = common_time(schemas, (sides[0].time, sides[1].time), step)
        check_zone(window, kind, step)
        joining = WindowJoining(step.called, sides, window, (outer[1], outer[0]))
        factory = factory_or_memory(stateFactory, step, _USAGE)
        if ttl_of_factory(factory) is not None:
            raise step.wrong(f"remove ttlSecs from {brief(factory)}: windowJoin keeps tuples until their window closes")
        bounds = StructType([StructField(START, kind), StructField(END, kind)])
        fields = joins.joined(schemas, key_names, outer, False, outputFields, step)
        outputs = step_checks.appended(bounds, fields, step, of="the window")
        spec = state_spec(self._register, name, factory, step, default=f"{label}.joined")
        held, value = held_fields(select(schemas[0], key_names[0]), schemas, step)
        node = nodes.WindowJoin(
            (self._node, other._node),
            joining,
            outputs,
            held,
            spec,
            joined_watermarks(self._register, label, streams, sides, spec, kind, step),
            **step.gives(step_checks.appended(held, StructType([value]), step, of="the key")),
        )
        return self._paired(add_update(self._register, label, node, outputs, step), label)
