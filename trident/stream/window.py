"""The last tuples, or the tuples of a time: window, tumblingWindow, slidingWindow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pyspark.sql.types import IntegerType, StructField, StructType

from trident.base.errors import TopologyError
from trident.base.names import FieldsLike, brief, check_name
from trident.base.step import Step
from trident.base.types import select
from trident.operations.output_fields import OutputsLike
from trident.operations.window_aggregators import Windowing, read_windowing
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
from trident.plan import nodes, rules
from trident.plan import window_schema as fields
from trident.stream.aggregate import inputs_of
from trident.stream.arguments import read_arguments
from trident.stream.base import StreamBase
from trident.stream.checked_calls import Told
from trident_state.memory.factory import MemoryMapState

WindowedT = TypeVar("WindowedT", bound=StreamBase[Any])
"""The class of streams of a window's results."""

_REST = "[stateFactory,] [inputFields,] aggregator, outputFields, name=)"
_USAGES = {
    "window": f"window(config, {_REST}",
    "tumblingWindow": f"tumblingWindow(length, {_REST}",
    "slidingWindow": f"slidingWindow(length, slide, {_REST}",
}


class WindowVerbs(Told, Generic[WindowedT]):
    """Verbs that bring tuples of several batches together; a stream has them, and a grouped stream."""

    __slots__ = ()

    def _by_group(self) -> tuple[StreamBase[Any], tuple[str, ...]]:
        """Return the stream, and the fields by which it is grouped."""
        raise NotImplementedError

    def _results(self, node: nodes.Emitted) -> WindowedT:
        """Return the stream of a window's results."""
        raise NotImplementedError

    def window(
        self,
        config: WindowConfig,
        *args: object,
        stateFactory: object = None,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
        keepFor: Duration = 0,
        name: str | None = None,
    ) -> WindowedT:
        """What an aggregator makes of each window: one call for a window's tuples, over as many batches as it takes.

        What waits lives in a state of the topology: a window goes on where it stood after a restart, and a replay
        changes nothing, because what enters it is frozen. Results leave with the batch that completed the window.
        Over a whole stream there is one window at a time; `groupBy` before it gives each group its own.
        Meaning: ``org.apache.storm.trident.Stream.window``, whose windows in memory are lost at a restart.

        Parameters
        ----------
        config : TumblingCountWindow, SlidingCountWindow, TumblingDurationWindow, SlidingDurationWindow
            Or by event time, beyond Trident: TumblingEventTimeWindow, SlidingEventTimeWindow, SessionWindow. Their
            results begin with the fields ``windowStart`` and ``windowEnd``.
        stateFactory : StateFactory, optional
            Where tuples wait. Omitted: ``MemoryMapState.opaque()``, which lasts with a checkpointLocation.
        inputFields : str or list of str, optional
            The fields that the aggregator sees. Omitted: all fields; none for Count.
        aggregator : CombinerAggregator, ReducerAggregator or Aggregator
            By time a CombinerAggregator keeps one value a window and group; the others keep the tuples. An
            Aggregator's ``init`` gets the window's number in place of the batch's.
        outputFields : str, list of str or StructType
            What it gives, with types where it does not tell them.
        keepFor : str, number of seconds or timedelta, optional
            How long a result can still be asked for in the state after it has left: for a CombinerAggregator by time.
        name : str, optional
            The state's name, its identity over restarts; ``<stream>.<first output field>`` if omitted.

        Examples
        --------
        >>> from trident import Sum, TridentTopology, TumblingEventTimeWindow
        >>> from trident.spouts import FixedBatchSpout
        >>> clicks = TridentTopology().newStream("clicks", FixedBatchSpout("url string, at timestamp, n long", []))
        >>> hours = TumblingEventTimeWindow("1 hour", "at", lateness="5 minutes")
        >>> clicks.groupBy("url").window(hours, "n", Sum(), "sum")
        WindowedStream(clicks/1:window(Sum): windowStart timestamp, windowEnd timestamp, url string, sum bigint)
        """
        given = _Given("window", args, stateFactory, inputFields, aggregator, outputFields, keepFor, name)
        return self._results(windowed(*self._by_group(), config, given))

    def tumblingWindow(
        self,
        length: int | Duration,
        *args: object,
        stateFactory: object = None,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
        keepFor: Duration = 0,
        name: str | None = None,
    ) -> WindowedT:
        """`window` of every `length` tuples (a whole number), or of every `length` of batch time (``"5 seconds"``).

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
        given = _Given("tumblingWindow", args, stateFactory, inputFields, aggregator, outputFields, keepFor, name)
        stream, group = self._by_group()
        return self._results(windowed(stream, group, tumbling(length, stream._step(given.verb)), given))

    def slidingWindow(
        self,
        length: int | Duration,
        slide: int | Duration,
        *args: object,
        stateFactory: object = None,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
        keepFor: Duration = 0,
        name: str | None = None,
    ) -> WindowedT:
        """`window` of the last `length`, every `slide`: tuples where both are whole numbers, else batch time.

        Meaning: ``org.apache.storm.trident.Stream.slidingWindow``.

        >>> from trident import Count, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", []))
        >>> words.groupBy("word").slidingWindow("1 minute", "10 seconds", Count(), "count")
        WindowedStream(words/1:slidingWindow(Count): word string, count bigint)
        """
        given = _Given("slidingWindow", args, stateFactory, inputFields, aggregator, outputFields, keepFor, name)
        stream, group = self._by_group()
        return self._results(windowed(stream, group, sliding(length, slide, stream._step(given.verb)), given))


def tumbling(length: int | Duration, step: Step) -> WindowConfig:
    """A tumbling window by count for a whole number, else by duration."""
    _check_fractions(step, length=length)
    return TumblingCountWindow(length) if _counts(length) else TumblingDurationWindow(length)  # type: ignore[arg-type]


def sliding(length: int | Duration, slide: int | Duration, step: Step) -> WindowConfig:
    """A sliding window by count for whole numbers, else by duration."""
    _check_fractions(step, length=length, slide=slide)
    if _counts(length) != _counts(slide):
        raise step.error(
            TopologyError,
            f"length={length!r} and slide={slide!r}: both are whole numbers, of tuples, or both durations, such as "
            "'1 minute'",
        )
    if _counts(length):
        return SlidingCountWindow(length, slide)  # type: ignore[arg-type]
    return SlidingDurationWindow(length, slide)


def _check_fractions(step: Step, **given: object) -> None:
    """A number here is a number of tuples: seconds are said with their unit."""
    for name, value in given.items():
        if isinstance(value, float):
            raise step.error(
                TopologyError,
                f"{name}={value!r}: a whole number counts tuples, and a duration has its unit, '{value:g} seconds'",
            )


def _counts(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


@dataclass(frozen=True, slots=True)
class _Given:
    """What a verb was given beside its window."""

    verb: str
    args: Sequence[object]
    factory: object
    inputFields: FieldsLike | None
    aggregator: object
    outputFields: OutputsLike | None
    keepFor: Duration
    name: str | None


def windowed(stream: StreamBase[Any], group: tuple[str, ...], config: WindowConfig, given: _Given) -> nodes.Emitted:
    """Add the steps of a stream's windows by these group fields, and return the last, which gives the results."""
    step, usage = stream._step(given.verb), _USAGES[given.verb]
    if not isinstance(config, WindowConfig):
        raise step.error(
            TopologyError,
            f"{brief(config)} is no window; give TumblingCountWindow(3), TumblingDurationWindow('5 seconds'), "
            f"TumblingEventTimeWindow('1 hour', 'at') or the like; write {usage}",
        )
    if rules.is_request(stream._node):
        raise step.error(TopologyError, "DRPC requests fill no window; they read states with stateQuery")
    factory, args = given.factory, given.args
    if factory is None and args and _is_factory(args[0]):
        factory, args = args[0], args[1:]
    factory = MemoryMapState.opaque() if factory is None else factory
    _check_factory(factory, step, usage)
    call = read_arguments(step, usage, args, {"aggregator": given.aggregator}, given.inputFields, given.outputFields)
    step = call.step
    if call.outputs is None:
        raise step.error(TopologyError, f"name the output field; write {usage}")
    inputs = inputs_of(stream, call)
    kept = microseconds(given.keepFor, "keepFor", step, zero=True)
    windowing = read_windowing(config, call.operation, select(stream.schema, inputs), call.outputs, kept, step)
    if kept and not windowing.panes:
        raise step.error(
            TopologyError,
            "keepFor keeps results in the state, and this one holds tuples: give a CombinerAggregator and a window by "
            "time, or take the results on, into persistentAggregate or partitionPersist",
        )
    return _Plan(stream, group, inputs, windowing, factory, given.name, step).made()


def _is_factory(given: object) -> bool:
    return all(hasattr(given, name) for name in ("kind", "survives", "open")) and not isinstance(given, type)


def _check_factory(factory: object, step: Step, usage: str) -> None:
    if not _is_factory(factory):
        raise step.error(
            TopologyError,
            f"{brief(factory)} is no state factory: give MemoryMapState.opaque(), RedisMapState.opaque(url) or the "
            f"like; write {usage}",
        )
    if getattr(factory, "ttlSecs", None) is not None:
        raise step.error(
            TopologyError,
            f"{brief(factory)} forgets, and a window holds what it has until it is complete: give a state that keeps "
            "all keys; a window's own entries go when they are not needed any more (keepFor= keeps results longer)",
        )


class _Plan:
    """The nodes of one window."""

    def __init__(
        self,
        stream: StreamBase[Any],
        group: tuple[str, ...],
        inputs: tuple[str, ...],
        windowing: Windowing,
        factory: object,
        name: str | None,
        step: Step,
    ) -> None:
        self._stream, self._group, self._inputs, self._windowing = stream, group, inputs, windowing
        self._factory, self._step = factory, step
        self._source, self._results_by = stream._node, select(stream.schema, group)
        self._keys = self._results_by
        if not group and fields.by_partition(windowing.config):
            self._source, self._group = self._numbered(), (fields.PARTITION,)
            self._keys = select(self._source.schema, self._group)
        self._time = fields.time_field(stream.schema, timestamp_field(windowing.config), step)
        self._name = self._checked(f"{stream._label}.{windowing.outputs.names[0]}" if name is None else name, name)

    def made(self) -> nodes.Emitted:
        """Add the steps, and return the one that gives the window's results."""
        stream, step, windowing = self._stream, self._step, self._windowing
        inputs = select(stream.schema, self._inputs)
        keys, value = fields.state_fields(windowing, self._keys, inputs, self._time, step)
        outputs = fields.result_fields(windowing, self._results_by, self._time, step)
        rules.group_keys(keys, step)
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
            step=step.label,
            site=step.called,
            schema=rules.appended(keys, StructType([value]), step, of="the key"),
        )
        self._add(window)
        emitted = nodes.Emitted(window, step=f"{step.label}.results", site=step.called, schema=outputs)
        self._add(emitted)
        stream._register.emitted[window] = emitted
        return emitted

    def _numbered(self) -> nodes.PartitionOf:
        step, number = self._step, StructType([StructField(fields.PARTITION, IntegerType(), False)])
        schema = rules.appended(self._stream.schema, number, step)
        placed = nodes.PartitionOf(self._stream._node, step=f"{step.label}.partition", site=step.called, schema=schema)
        self._add(placed)
        return placed

    def _panes(self) -> nodes.WindowPanes:
        step, schema = self._step, fields.pane_fields(self._windowing, self._keys, self._time, self._step)
        panes = nodes.WindowPanes(
            self._source,
            self._group,
            self._inputs,
            self._windowing,
            step=f"{step.label}.panes",
            site=step.called,
            schema=schema,
        )
        self._add(panes)
        return panes

    def _watermark(self, source: nodes.Node) -> nodes.Watermark | None:
        if isinstance(self._windowing.config, CountWindow):
            return None
        step, none = self._step, StructType([])
        value = StructType([StructField("watermark", self._time)])
        spec = self._spec(self._checked(f"{self._name}.watermark", self._name))
        watermark = nodes.Watermark(
            source, self._windowing, none, spec, step=f"{step.label}.watermark", site=step.called, schema=value
        )
        self._add(watermark)
        return watermark

    def _add(self, node: nodes.Node) -> None:
        self._stream._register.add(self._stream._label, node, part=not isinstance(node, nodes.Window))

    def _spec(self, name: str) -> nodes.StateSpec:
        self._stream._register.check_free(name, self._step)
        return nodes.StateSpec(name, self._factory)  # type: ignore[arg-type]

    def _checked(self, name: str, given: str | None) -> str:
        try:
            return check_name("a state", name)
        except TopologyError as error:
            raise self._step.error(TopologyError, f"{error}{'; give it a name=' if given is None else ''}") from None
