"""The verb dropDuplicates, which keeps only the first tuple of each key, over all batches."""

from typing import Generic

from pyspark.sql.types import LongType, StructField, StructType

from trident.base.names import FieldsLike, brief
from trident.base.spark_types import select
from trident.base.verb_call import Step
from trident.operations.first_of_key import FirstOfKey
from trident.operations.windows import Duration, EventTime, microseconds
from trident.plan import nodes, step_checks
from trident.plan.watermark_names import watermark_name
from trident.plan.window_schema import time_field
from trident.stream.arguments import is_factory
from trident.stream.base import StatefulT, StreamBase, StreamT
from trident.stream.state_specs import add_update, add_watermark, check_no_requests, factory_or_memory, state_spec
from trident_state.store import ttl_of_factory

_USAGE = "dropDuplicates([fields,] [stateFactory,] [timestampField=, within=,] name=)"


class DuplicateVerbs(StreamBase[StreamT], Generic[StreamT, StatefulT]):
    """The verb that drops duplicates."""

    __slots__ = ()

    def _through(self, node: nodes.Emitted) -> StatefulT:
        """Return the stream of `node`, with the tuples that the update of a state emits."""
        raise NotImplementedError

    def dropDuplicates(
        self,
        fields: FieldsLike | None = None,
        stateFactory: object = None,
        *,
        timestampField: str | None = None,
        within: Duration | None = None,
        lateness: Duration | None = None,
        name: str | None = None,
    ) -> StatefulT:
        """Keep the first tuple of each key, and drop all later ones, over all batches.

        A state remembers the keys. It is committed with the batch, so a tuple is emitted exactly once, whatever fails.
        Within a batch the first tuple in the batch's order is kept. Null is a key like any other. Progress events
        count the dropped tuples as ``dropped``.

        Without a `timestampField` a key is remembered forever, or for the ``ttlSecs`` of the state. With it, a tuple
        is a duplicate if its time is before, or at most `within` after, that of the last tuple of its key that was
        kept; the state forgets a key once the watermark is past that. A tuple older than the watermark is late, and
        dropped. Meaning: ``pyspark.sql.DataFrame.dropDuplicatesWithinWatermark`` of a streaming DataFrame, but with a
        state that can be queried. Trident has no such verb.

        Parameters
        ----------
        fields : str or list of str, optional
            The fields of the key. Omitted: all fields.
        stateFactory : StateFactory, optional
            The kind and location of the state. Omitted: ``MemoryMapState.opaque()``. Its key is `fields`; its value is
            ``firstTxid``, the batch in which the key came, or with a timestampField ``firstTime``.
        timestampField : str, optional
            A timestamp field of the stream: the tuples' event time.
        within : str, number of seconds or timedelta
            How long a key is remembered, in event time: ``"10 minutes"``. Needed with a timestampField.
            At most 10,000 years.
        lateness : str, number of seconds or timedelta, optional
            The distance of the watermark from the latest time so far. Omitted: `within`.
        name : str, optional
            The state's name, its identity over restarts; ``<stream>.seen`` if omitted.

        Raises
        ------
        DuplicateNameError
            If another step updates a state of this name.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> orders = TridentTopology().newStream("orders", FixedBatchSpout("id long, at timestamp", []))
        >>> orders.dropDuplicates("id")
        StatefulStream(orders/1:dropDuplicates(id): id bigint, at timestamp)
        >>> orders.dropDuplicates("id", timestampField="at", within="10 minutes", name="recent").state()
        TridentState('recent': id bigint, firstTime timestamp; opaque)
        """
        step = self._step("dropDuplicates")
        check_no_requests(self._node, step)
        if is_factory(fields):
            raise step.wrong(f"{brief(fields)} is in the position of the fields; write {_USAGE}")
        names = step_checks.chosen(self.schema, self._inputs(fields, step), step).names
        step = Step(f"{step.label}({', '.join(names)})" if fields is not None else step.label, step.called)
        factory = factory_or_memory(stateFactory, step, _USAGE)
        updating = _read_updating(timestampField, within, lateness, step)
        if updating.config is not None and ttl_of_factory(factory) is not None:
            raise step.wrong(
                f"{brief(factory)} has ttlSecs, but with a timestampField event time decides how long a key is "
                "remembered: remove one of the two"
            )
        keys = select(self.schema, names)
        step_checks.check_comparable(keys, step)
        spec = state_spec(self._register, name, factory, step, default=f"{self._label}.seen")
        value, watermark = StructField("firstTxid", LongType()), None
        if updating.config is not None:
            kind = time_field(self.schema, timestampField, step)
            own = state_spec(self._register, watermark_name(spec.name), factory, step)
            watermark = add_watermark(self._register, self._label, self._node, updating, own, kind, step)
            value = StructField("firstTime", kind)
        node = nodes.PartitionPersist(
            self._node,
            self.fields,
            updating,
            self.schema,
            keys,
            spec,
            watermark,
            **step.gives(step_checks.appended(keys, StructType([value]), step, of="the key")),
        )
        return self._through(add_update(self._register, self._label, node, self.schema, step))


def _read_updating(
    timestampField: object, within: Duration | None, lateness: Duration | None, step: Step
) -> FirstOfKey:
    """Return the update that a call's arguments describe."""
    if timestampField is None:
        given = next((name for name, value in (("within", within), ("lateness", lateness)) if value is not None), None)
        if given is not None:
            raise step.wrong(
                f"{given}= is a span of event time: also pass timestampField=. To forget keys by the age of their "
                "batch, use a state with ttlSecs, such as MemoryMapState.opaque(ttlSecs=3600)"
            )
        return FirstOfKey(step.called, None)
    if within is None:
        raise step.wrong("a timestampField needs a span for which keys are remembered, such as within='10 minutes'")
    span = microseconds(within, "within", step)
    return FirstOfKey(step.called, EventTime(timestampField, within if lateness is None else lateness, step), span)
