"""The verbs window, tumblingWindow and slidingWindow, which aggregate tuples of several batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar, overload

from pyspark.sql.types import IntegerType, StructField, StructType

from trident.base.names import FieldsLike, brief
from trident.base.spark_types import select
from trident.base.verb_call import Step
from trident.operations.output_fields import OutputsLike
from trident.operations.window_aggregators import Emit, Windowing, bundle_windowing, read_windowing
from trident.operations.windows import (
    CountWindow,
    Duration,
    SlidingCountWindow,
    SlidingDurationWindow,
    TumblingCountWindow,
    TumblingDurationWindow,
    WindowConfig,
    microseconds,
    timestamp_field,
)
from trident.plan import nodes, step_checks
from trident.plan import window_schema as fields
from trident.plan.replaced_values import check_counts_once
from trident.plan.watermark_names import watermark_name
from trident.stream.aggregate import bundled, inputs_of
from trident.stream.aggregate_conditions import Conditioned
from trident.stream.argument_types import WindowArgument
from trident.stream.arguments import is_factory, name_of, read_arguments
from trident.stream.base import GroupwiseVerbs, StreamBase
from trident.stream.state_specs import add_update, add_watermark, factory_or_memory, state_spec
from trident_state.store import StateFactory, ttl_of_factory

WindowedT = TypeVar("WindowedT", bound=StreamBase[Any])
"""The class of the streams that window verbs return: streams of a window's results."""

EarlyT = TypeVar("EarlyT", bound=StreamBase[Any])
"""The class of the streams that window verbs return with ``emit="changes"``: changes of window results."""

_REST = "[stateFactory,] [inputFields,] aggregator, outputFields, name=)"
_USAGES = {
    "window": f"window(config, {_REST}",
    "tumblingWindow": f"tumblingWindow(length, {_REST}",
    "slidingWindow": f"slidingWindow(length, slide, {_REST}",
}


class WindowVerbs(GroupwiseVerbs[Any], Generic[WindowedT, EarlyT]):
    """Verbs of streams and grouped streams that aggregate tuples of several batches."""

    __slots__ = ()

    def _results(self, node: nodes.Emitted) -> WindowedT:
        """Return the stream of the window results that `node` emits."""
        raise NotImplementedError

    def _early_results(self, node: nodes.Emitted) -> EarlyT:
        """Return the stream of the changes of window results that `node` emits."""
        raise NotImplementedError

    def _windows(self, config: WindowConfig, arguments: "_WindowArguments") -> WindowedT | EarlyT:
        node = windowed(*self._by_group(), config, arguments)
        return self._results(node) if arguments.emit == "final" else self._early_results(node)

    @overload
    def window(
        self,
        config: WindowConfig,
        *args: WindowArgument,
        stateFactory: object = None,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
        keepFor: Duration = 0,
        name: str | None = None,
        emit: Literal["final"] = "final",
    ) -> WindowedT: ...

    @overload
    def window(
        self,
        config: WindowConfig,
        *args: WindowArgument,
        stateFactory: object = None,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
        keepFor: Duration = 0,
        name: str | None = None,
        emit: Literal["changes"],
    ) -> EarlyT: ...

    def window(
        self,
        config: WindowConfig,
        *args: WindowArgument,
        stateFactory: object = None,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
        keepFor: Duration = 0,
        name: str | None = None,
        emit: Emit = "final",
    ) -> WindowedT | EarlyT:
        """Aggregate the tuples of each window, which may span several batches.

        Open windows are kept in a state of the topology. So they continue after a restart, and a replay changes
        nothing, because the tuples of a window are frozen. A result is emitted in the batch that completes its window.
        After `groupBy` each group has separate windows. Otherwise all tuples share one series of windows; but each of
        several partitions has a separate series, except for windows by event time. Meaning:
        ``org.apache.storm.trident.Stream.window``; its windows in memory are lost at a restart.

        Parameters
        ----------
        config : TumblingCountWindow, SlidingCountWindow, TumblingDurationWindow, SlidingDurationWindow
            Windows by event time are beyond Trident: TumblingEventTimeWindow, SlidingEventTimeWindow, SessionWindow.
            The results of windows by event time begin with the fields ``windowStart`` and ``windowEnd``.
        stateFactory : StateFactory, optional
            The state of the open windows. Omitted: ``MemoryMapState.opaque()``, which survives a restart if the run has
            a checkpointLocation.
        inputFields : str or list of str, optional
            The fields that the aggregator sees. Omitted: all fields; none for Count.
        aggregator : CombinerAggregator, ReducerAggregator or Aggregator
            In a window by time the state keeps one value for each window and group of a CombinerAggregator; for the
            others it keeps the tuples. An Aggregator's ``init`` gets the number of the window in place of the txid.
        outputFields : str, list of str or StructType
            Names for the results, with types if the aggregator does not declare them.
        keepFor : str, number of seconds or timedelta, optional
            How long the state keeps a result after its emission. Only for a CombinerAggregator in a window by time.
        name : str, optional
            The state's name, its identity over restarts; ``<stream>.<first output field>`` if omitted.
        emit : "final" or "changes"
            "changes", for windows by time: the stream has the result so far, as changes. Each batch with tuples of a
            window gives an ``insert``, an update of two tuples, or a ``delete`` if the result no longer exists, as
            when two sessions merge. All results then begin with the bounds. See the guide, Windows.

        Examples
        --------
        >>> from trident import Sum, TridentTopology, TumblingEventTimeWindow
        >>> from trident.spouts import FixedBatchSpout
        >>> clicks = TridentTopology().newStream("clicks", FixedBatchSpout("url string, at timestamp, n long", []))
        >>> hours = TumblingEventTimeWindow("1 hour", "at", lateness="5 minutes")
        >>> clicks.groupBy("url").window(hours, "n", Sum(), "sum")
        WindowedStream(clicks/1:window(Sum): windowStart timestamp, windowEnd timestamp, url string, sum bigint)
        """
        arguments = _WindowArguments(
            "window", args, stateFactory, inputFields, aggregator, outputFields, keepFor, name, emit
        )
        return self._windows(config, arguments)

    @overload
    def tumblingWindow(
        self,
        length: int | Duration,
        *args: WindowArgument,
        stateFactory: object = None,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
        keepFor: Duration = 0,
        name: str | None = None,
        emit: Literal["final"] = "final",
    ) -> WindowedT: ...

    @overload
    def tumblingWindow(
        self,
        length: int | Duration,
        *args: WindowArgument,
        stateFactory: object = None,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
        keepFor: Duration = 0,
        name: str | None = None,
        emit: Literal["changes"],
    ) -> EarlyT: ...

    def tumblingWindow(
        self,
        length: int | Duration,
        *args: WindowArgument,
        stateFactory: object = None,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
        keepFor: Duration = 0,
        name: str | None = None,
        emit: Emit = "final",
    ) -> WindowedT | EarlyT:
        """Aggregate every `length` tuples (a whole number), or all tuples of every `length` of time (``"5 seconds"``).

        The other parameters are those of `window`.

        Meaning: ``org.apache.storm.trident.Stream.tumblingWindow``.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> class Last:
        ...     outputType = "string"
        ...     def init(self):
        ...         return None
        ...     def reduce(self, curr, tuple):
        ...         return tuple.word
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", []))
        >>> words.tumblingWindow(3, "word", Last(), "last")
        WindowedStream(words/1:tumblingWindow(Last): last string)
        """
        arguments = _WindowArguments(
            "tumblingWindow", args, stateFactory, inputFields, aggregator, outputFields, keepFor, name, emit
        )
        stream, _ = self._by_group()
        return self._windows(tumbling(length, stream._step(arguments.verb)), arguments)

    @overload
    def slidingWindow(
        self,
        length: int | Duration,
        slide: int | Duration,
        *args: WindowArgument,
        stateFactory: object = None,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
        keepFor: Duration = 0,
        name: str | None = None,
        emit: Literal["final"] = "final",
    ) -> WindowedT: ...

    @overload
    def slidingWindow(
        self,
        length: int | Duration,
        slide: int | Duration,
        *args: WindowArgument,
        stateFactory: object = None,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
        keepFor: Duration = 0,
        name: str | None = None,
        emit: Literal["changes"],
    ) -> EarlyT: ...

    def slidingWindow(
        self,
        length: int | Duration,
        slide: int | Duration,
        *args: WindowArgument,
        stateFactory: object = None,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
        keepFor: Duration = 0,
        name: str | None = None,
        emit: Emit = "final",
    ) -> WindowedT | EarlyT:
        """Aggregate the last `length` tuples after every `slide` tuples; or give both as durations (``"1 minute"``).

        The other parameters are those of `window`.

        Meaning: ``org.apache.storm.trident.Stream.slidingWindow``.

        >>> from trident import Count, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", []))
        >>> words.groupBy("word").slidingWindow("1 minute", "10 seconds", Count(), "count")
        WindowedStream(words/1:slidingWindow(Count): word string, count bigint)
        """
        arguments = _WindowArguments(
            "slidingWindow", args, stateFactory, inputFields, aggregator, outputFields, keepFor, name, emit
        )
        stream, _ = self._by_group()
        return self._windows(sliding(length, slide, stream._step(arguments.verb)), arguments)


def tumbling(length: int | Duration, step: Step) -> WindowConfig:
    """Return a tumbling window. It counts tuples if `length` is a whole number; otherwise `length` is its duration."""
    _check_fractions(step, length=length)
    return TumblingCountWindow(length) if _counts(length) else TumblingDurationWindow(length)  # type: ignore[arg-type]


def sliding(length: int | Duration, slide: int | Duration, step: Step) -> WindowConfig:
    """Return a sliding window. It counts tuples if both sizes are whole numbers; otherwise they are durations.

    Raises TopologyError if one of them is a whole number and the other is not.
    """
    _check_fractions(step, length=length, slide=slide)
    if _counts(length) != _counts(slide):
        raise step.wrong(
            f"length={length!r} and slide={slide!r}: expected two numbers of tuples, or two durations such as '1 "
            "minute'"
        )
    if _counts(length):
        return SlidingCountWindow(length, slide)  # type: ignore[arg-type]
    return SlidingDurationWindow(length, slide)


def _check_fractions(step: Step, **sizes: object) -> None:
    """Refuse a float as a window's size: tuples are counted in whole numbers, and a duration needs a unit."""
    for name, value in sizes.items():
        if isinstance(value, float):
            raise step.wrong(
                f"{name}={value!r}: expected a whole number of tuples, or a duration with its unit, '{value:g} seconds'"
            )


def _counts(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool)


@dataclass(frozen=True, slots=True)
class _WindowArguments:
    """The arguments of a window verb, except those that describe the window itself."""

    verb: str
    args: Sequence[object]
    factory: object
    inputFields: FieldsLike | None
    aggregator: object
    outputFields: OutputsLike | None
    keepFor: Duration
    name: str | None
    emit: Emit


def windowed(
    stream: StreamBase[Any], group: tuple[str, ...], config: WindowConfig, arguments: _WindowArguments
) -> nodes.Emitted:
    """Add the steps of the windows of a stream's groups, and return the node that emits the windows' results."""
    step, usage = stream._step(arguments.verb), _USAGES[arguments.verb]
    if not isinstance(config, WindowConfig):
        raise step.wrong(
            f"{brief(config)} is not a window; give TumblingCountWindow(3), TumblingDurationWindow('5 seconds'), "
            f"TumblingEventTimeWindow('1 hour', 'at') or similar; write {usage}"
        )
    if step_checks.is_request(stream._node):
        raise step.wrong("DRPC requests cannot enter a window; they read states with stateQuery")
    factory, args = arguments.factory, arguments.args
    if factory is None and args and is_factory(args[0]):
        factory, args = args[0], args[1:]
    factory = factory_or_memory(factory, step, usage)
    _check_keeps_all(factory, step)
    call = read_arguments(
        step, usage, args, {"aggregator": arguments.aggregator}, arguments.inputFields, arguments.outputFields
    )
    step = call.step
    kept = microseconds(arguments.keepFor, "keepFor", step, zero=True)
    if isinstance(call.operation, Mapping):
        if arguments.name is None:
            problem = "windows of several aggregators need a name, which identifies their state over restarts"
            raise step.wrong(f"{problem}: pass name=; write {usage}")
        stream, inputs, aggregation, _ = bundled(stream, group, call, usage)
        windowing = bundle_windowing(config, aggregation, kept)
    else:
        if call.outputs is None:
            raise step.wrong(f"name the output field; write {usage}")
        conditioned, inputs, target = Conditioned.of(stream).reading(call.operation, inputs_of(stream, call), step)
        stream = conditioned.stream
        windowing = read_windowing(config, target, select(stream.schema, inputs), call.outputs, kept, step)
    windowing = replace(windowing, emit=_checked_emit(arguments.emit, config, step))
    check_counts_once(stream._node, windowing.aggregator, stream._register.everyChange, step)
    if kept and not windowing.panes:
        raise step.wrong(
            "keepFor= keeps results in the state, but this state holds tuples: use a CombinerAggregator and a time "
            "window, or store the results in another state with persistentAggregate or partitionPersist"
        )
    return _WindowNodes(stream, group, inputs, windowing, factory, arguments.name, step).add_all()


def _checked_emit(emit: object, config: WindowConfig, step: Step) -> Emit:
    """Return `emit`. Refuse early results of windows by count, whose results have no bounds to identify them."""
    if emit not in ("final", "changes"):
        raise step.wrong(f"emit={brief(emit)}: expected 'final', or 'changes' for results before a window is complete")
    if emit == "changes" and isinstance(config, CountWindow):
        raise step.wrong(
            f"emit='changes' needs windows by time: the results of {config!r} do not identify their window. Use a "
            "duration or an event-time window; for a result that each tuple changes, use persistentAggregate and "
            "changes()"
        )
    return "changes" if emit == "changes" else "final"


def _check_keeps_all(factory: object, step: Step) -> None:
    """Refuse a state factory with ``ttlSecs``: the entries of an open window must not expire."""
    if ttl_of_factory(factory) is not None:
        raise step.wrong(
            f"{brief(factory)} has ttlSecs, but a window needs its entries until it is complete: remove ttlSecs; a "
            "window deletes entries that it no longer needs (keepFor= keeps results longer)"
        )


class _WindowNodes:
    """The nodes of one window verb: panes, watermark, window and results."""

    def __init__(
        self,
        stream: StreamBase[Any],
        group: tuple[str, ...],
        inputs: tuple[str, ...],
        windowing: Windowing,
        factory: StateFactory,
        name: str | None,
        step: Step,
    ) -> None:
        self._stream, self._group, self._inputs, self._windowing = stream, group, inputs, windowing
        self._factory, self._step = factory, step
        self._source, self._results_by = stream._node, select(stream.schema, group)
        self._keys = self._results_by
        if not group and fields.by_partition(windowing):
            self._source, self._group = self._numbered(), (fields.PARTITION,)
            self._keys = select(self._source.schema, self._group)
        self._time = fields.time_field(stream.schema, timestamp_field(windowing.config), step)
        fields.check_zone(windowing.config, self._time, step)
        self._name = name_of("a state", name, step, default=f"{stream._label}.{windowing.outputs.names[0]}")

    def add_all(self) -> nodes.Emitted:
        """Add the nodes to the plan, and return the one that emits the window results."""
        stream, step, windowing = self._stream, self._step, self._windowing
        inputs = select(stream.schema, self._inputs)
        keys, value = fields.state_fields(windowing, self._keys, inputs, self._time, step)
        outputs = fields.result_fields(windowing, self._results_by, self._time, step)
        step_checks.check_comparable(keys, step)
        source = self._panes() if windowing.panes else self._source
        window = nodes.Window(
            source,
            self._group,
            self._inputs,
            windowing,
            outputs,
            keys,
            self._spec(self._name),
            self._watermark(source),
            **step.gives(step_checks.appended(keys, StructType([value]), step, of="the key")),
        )
        return add_update(stream._register, stream._label, window, outputs, step)

    def _numbered(self) -> nodes.PartitionOf:
        step, number = self._step, StructType([StructField(fields.PARTITION, IntegerType(), False)])
        schema = step_checks.appended(self._stream.schema, number, step)
        placed = nodes.PartitionOf(self._stream._node, **step.gives(schema, ".partition"))
        self._add(placed)
        return placed

    def _panes(self) -> nodes.WindowPanes:
        step, schema = self._step, fields.pane_fields(self._windowing, self._keys, self._time, self._step)
        panes = nodes.WindowPanes(
            self._source,
            self._group,
            self._inputs,
            self._windowing,
            **step.gives(schema, ".panes"),
        )
        self._add(panes)
        return panes

    def _watermark(self, source: nodes.Node) -> nodes.Watermark | None:
        if isinstance(self._windowing.config, CountWindow):
            return None
        register, spec = self._stream._register, self._spec(watermark_name(self._name))
        return add_watermark(register, self._stream._label, source, self._windowing, spec, self._time, self._step)

    def _add(self, node: nodes.Node) -> None:
        self._stream._register.add(self._stream._label, node, part=True)

    def _spec(self, name: str) -> nodes.StateSpec:
        return state_spec(self._stream._register, name, self._factory, self._step)
