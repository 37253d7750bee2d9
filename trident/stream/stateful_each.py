"""The verb statefulEach, which calls an operation that keeps state over all batches."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic

from pyspark.sql.types import DataType, StringType, StructField, StructType

from trident.base.argument_checks import check_whole_number
from trident.base.names import FieldsLike, brief
from trident.base.spark_types import select
from trident.base.verb_call import Step
from trident.operations.functions import Call, Operation
from trident.operations.output_fields import OutputsLike, read_outputs, resolve
from trident.operations.stateful import Stateful, read_on_timer, read_stateful
from trident.operations.timers import Timers
from trident.operations.updater_checks import held_fields
from trident.operations.windows import Duration, EventTime
from trident.plan import nodes, step_checks
from trident.plan.watermark_names import watermark_name
from trident.plan.window_schema import time_field
from trident.stream.argument_types import EvolveLike, StatefulArgument
from trident.stream.arguments import read_arguments
from trident.stream.base import GroupwiseVerbs, StatefulT, StreamBase, StreamT
from trident.stream.state_specs import (
    add_update,
    add_watermark,
    check_no_requests,
    factory_or_memory,
    state_spec,
    with_past,
)
from trident_state.store import ttl_of_factory

_USAGE = (
    "statefulEach([inputFields,] operation, [outputFields,] keyFields=, valueType=, [stateFactory=,] name=), without "
    "keyFields and valueType for a TransactionOperation"
)
_CHECKPOINT = StructField("checkpoint", StringType())


class StatefulEachVerbs(GroupwiseVerbs[StreamT], Generic[StreamT, StatefulT]):
    """The verb of both streams and grouped streams that calls a stateful operation."""

    __slots__ = ()

    def _through(self, node: nodes.Emitted) -> StatefulT:
        """Return the stream of the tuples that `node` emits: the operation's results."""
        raise NotImplementedError

    def statefulEach(
        self,
        *args: StatefulArgument,
        inputFields: FieldsLike | None = None,
        operation: object = None,
        outputFields: OutputsLike | None = None,
        keyFields: OutputsLike | None = None,
        valueType: str | DataType | None = None,
        stateFactory: object = None,
        onTimer: Callable[..., Any] | None = None,
        timestampField: str | None = None,
        lateness: Duration | None = None,
        idleAfter: Duration | None = None,
        maxTimersPerBatch: int = 100_000,
        name: str | None = None,
        evolve: EvolveLike = None,
        initialState: object = None,
        backfill: bool = False,
    ) -> StatefulT:
        """Call an operation that keeps state over all batches, and append its results to the tuples.

        The operation is called once for each tuple, with a `KeyValueState`: ``get(key, default)``, ``put``, ``delete``,
        ``keys`` and ``items``, and a read sees the puts before it. It runs on the driver, over tuples that are already
        frozen, one by one in the batch's order. Its changes and the tuples that it emits are frozen before any of them
        is written, so each batch changes the state once, whatever fails, and all states of a batch group are as of one
        txid. Any other effect of the operation may happen again. Meaning: Storm's ``IStatefulBolt`` and JStorm's
        ``ITransactionStatefulBoltExecutor``, but exactly-once. Storm's Trident has no such verb.

        Parameters
        ----------
        inputFields : str or list of str, optional
            The fields of the tuples that the operation sees. Omitted: all fields.
        operation : callable, StatefulOperation or TransactionOperation
            A function of a TridentTuple and the state, which returns or yields the values of `outputFields`; or an
            object with ``initState(state)``, ``execute(tuple, collector)`` and hooks. A `TransactionOperation` keeps
            its state itself and returns a checkpoint for each batch.
        outputFields : str, list of str or StructType, optional
            The fields to append: a tuple is repeated for each result. Omitted: every tuple passes unchanged.
        keyFields : str, list of str or StructType
            The state's key, ``"user long, day date"``; a field of the stream needs no type. For a grouped stream the
            group fields are the key.
        valueType : str or DataType
            The type of the state's values, ``"long"`` or ``"struct<n: long, last: date>"``.
        stateFactory : StateFactory, optional
            The kind and location of the state. Omitted: ``MemoryMapState.opaque()``.
        onTimer : callable, optional
            For a function: it is called with each `Timer` that is due, and the state (`TimedKeyValueState`), and may
            return or yield values of `outputFields`. An object has a method ``onTimer(timer, collector)`` instead. A
            tuple that a timer emits has the key, the emitted values, and null in all other fields.
        timestampField : str, optional
            A timestamp field of the stream: the watermark of its times is the clock of the timers. Omitted: the time of
            the batch.
        lateness : str, number of seconds or timedelta, optional
            The distance of the watermark from the latest time so far. Omitted: 0. No tuple is dropped as late.
        idleAfter : str, number of seconds or timedelta, optional
            If the stream has no tuple for this long, the watermark advances with the time of the batches, as if tuples
            kept arriving with the delay of the last ones. Omitted: only tuples advance it.
        maxTimersPerBatch : int
            The most timers that fire in one batch. The others fire in the batches that follow immediately.
        name : str
            The state's name, its identity over restarts.
        evolve : Evolution or list of Evolution, optional
            The former shapes of the values from which a start may continue; see `Evolution`.
        initialState : DataFrame, pyarrow.Table, path, state or InitialState, optional
            The initial content of a new state, before its first batch; see `InitialState`.
        backfill : bool
            True: a new state on existing streams first processes their earlier tuples, which are read again from the
            beginning of their sources. Default: it begins with the next batch.

        Raises
        ------
        DuplicateNameError
            If another step updates a state of this name.
        TopologyError, TypeDeclarationError, FieldNotFoundError
            If the operation cannot be called in this way, or its key, value or output fields have no type.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> def counted(tuple, state):
        ...     n = state.get(tuple.word, 0) + 1
        ...     state.put(tuple.word, n)
        ...     return n
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["dog", "cat", "dog"]]))
        >>> words.statefulEach(counted, "count long", keyFields="word", valueType="long", name="counts")
        StatefulStream(words/1:statefulEach(counted): word string, count bigint)
        >>> words.groupBy("word").statefulEach(counted, "count long", valueType="long", name="again").state()
        TridentState('again': word string, value bigint; opaque)
        """
        stream, group = self._by_group()
        step = stream._step("statefulEach")
        call = read_arguments(step, _USAGE, args, {"operation": operation}, inputFields, outputFields)
        step = call.step
        check_no_requests(stream._node, step)
        inputs = stream._inputs(call.inputs, step)
        read, returns = read_stateful(call.operation, call.outputs is not None, step)
        added = StructType([])
        if call.outputs is not None:
            added = resolve(read_outputs(call.outputs, step), read, returns, step)
        stateful = Stateful(read, inputs, call.outputs is not None)
        _check_own_object(stateful, stream._register.states.values(), step)
        keys, value = _held(stream, group, stateful, keyFields, valueType, step)
        clock = _Clock(timestampField, lateness, idleAfter, maxTimersPerBatch)
        operation = read_on_timer(call.operation, onTimer, stateful.emits, step)
        timers = clock.timers(operation, value.dataType, step)
        if timers is not None:
            stateful, value = replace(stateful, timers=timers), StructField(value.name, timers.record)
        if name is None:
            raise step.wrong(f"the state needs a name, its identity over restarts; write {_USAGE}")
        outputs = step_checks.appended(stream.schema, added, step)
        factory = factory_or_memory(stateFactory, step, _USAGE)
        spec = state_spec(stream._register, name, factory, step)
        node = nodes.PartitionPersist(
            stream._node,
            stream.fields,
            stateful,
            outputs,
            keys,
            spec,
            None if timers is None else _watermark(stream, timers, spec, factory, step),
            **step.gives(step_checks.appended(keys, StructType([value]), step, of="the key")),
        )
        node = with_past(node, evolve, initialState, backfill, step)
        return self._through(add_update(stream._register, stream._label, node, outputs, step))


@dataclass(frozen=True, slots=True)
class _Clock:
    """The arguments of a call that define the clock of its timers, and the most timers of a batch."""

    timestampField: object
    lateness: Any
    idleAfter: Any
    most: object

    def timers(self, operation: Operation | None, value: DataType, step: Step) -> Timers | None:
        """Return the timers of a step; None if it has no timer function."""
        spans = {"lateness": self.lateness, "idleAfter": self.idleAfter}
        if operation is None:
            for argument, given in {"timestampField": self.timestampField, **spans}.items():
                if given is not None:
                    raise step.wrong(f"{argument}= needs timers: pass an object with a method onTimer, or onTimer=")
            return None
        for argument, given in spans.items():
            if self.timestampField is None and given is not None:
                raise step.wrong(f"{argument}= is a span of event time: also pass timestampField=")
        most = check_whole_number("maxTimersPerBatch", self.most, error=step.wrong)
        lateness = 0 if self.lateness is None else self.lateness
        config = None if self.timestampField is None else EventTime(self.timestampField, lateness, step, self.idleAfter)
        return Timers(operation, value, config, most)


def _watermark(
    stream: StreamBase[Any], timers: Timers, spec: nodes.StateSpec, factory: Any, step: Step
) -> nodes.Watermark | None:
    """Add the watermark of event-time timers; None for timers by batch time."""
    if ttl_of_factory(factory) is not None:
        raise step.wrong(
            f"{brief(factory)} has ttlSecs, but a timer must not expire: remove ttlSecs, and delete values in onTimer"
        )
    if timers.config is None:
        return None
    kind = time_field(stream.schema, timers.config.timestampField, step)
    own = state_spec(stream._register, watermark_name(spec.name), factory, step)
    return add_watermark(stream._register, stream._label, stream._node, timers, own, kind, step)


def _check_own_object(stateful: Stateful, states: Iterable[nodes.StateWriter], step: Step) -> None:
    """Refuse an object that another step already uses: it would mix the state of both steps."""
    target = stateful.operation.target
    for state in () if stateful.operation.call is Call.TUPLE else states:
        other = getattr(getattr(state, "updating", None), "operation", None)
        if other is not None and other.target is target:
            raise step.wrong(
                f"{brief(target)} already keeps the values of state {state.state.name!r} ({state.site.location}), and "
                "would mix them with those of this step: create a separate object for this step"
            )


def _held(
    stream: StreamBase[Any],
    group: tuple[str, ...],
    stateful: Stateful,
    keyFields: OutputsLike | None,
    valueType: str | DataType | None,
    step: Step,
) -> tuple[StructType, StructField]:
    """Return the key fields and the value field of the operation's state."""
    if stateful.transactional:
        given = {"keyFields": keyFields, "valueType": valueType, "groupBy": group or None}
        for argument, value in given.items():
            if value is not None:
                raise step.wrong(
                    f"{argument} {value!r} applies to an operation over a KeyValueState; the state of a "
                    f"TransactionOperation is one value, its checkpoint; write {_USAGE}"
                )
        return StructType([]), _CHECKPOINT
    if group:
        if keyFields is not None:
            raise step.wrong(
                f"keyFields {keyFields!r} cannot be given for a grouped stream, whose key is its group fields "
                f"({', '.join(group)}): remove one of the two"
            )
        keyFields = select(stream.schema, group)
    target = stateful.operation.target
    keys, value = held_fields(target, stream.schema, keyFields, valueType, _USAGE, step)
    if not keys.fields:
        raise step.wrong(f"the state needs a key: pass keyFields='word', or group the stream; write {_USAGE}")
    step_checks.check_comparable(keys, step)
    return keys, value
