"""What outlives a batch: persistentAggregate."""

from collections.abc import Sequence

from trident.base.errors import TopologyError
from trident.base.names import FieldsLike, brief, check_name
from trident.base.step import Step
from trident.operations.outputs import OutputsLike
from trident.plan import nodes, rules
from trident.stream.aggregate import folded
from trident.stream.base import StreamBase
from trident.stream.call import read_arguments
from trident.stream.state import TridentState

_USAGE = "persistentAggregate(stateFactory, [inputFields,] aggregator, outputField, name=...)"


class PersistVerbs(StreamBase):
    """Verbs that update states."""

    __slots__ = ()

    def persistentAggregate(
        self,
        stateFactory: object,
        *args: object,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
        name: str | None = None,
    ) -> TridentState:
        """Combine the aggregate of every batch into one value that outlives the batch.

        The state has no key fields; `groupBy` before it gives one value for each key. Every batch lands in it once,
        whatever fails: `explain()` says what is promised for this spout and this state.
        Meaning: ``org.apache.storm.trident.Stream.persistentAggregate``.

        Parameters
        ----------
        stateFactory : StateFactory
            Where and how it is kept: ``MemoryMapState.transactional()``, ``RedisMapState.opaque(url)``.
        inputFields : str or list of str, optional
            The fields that the aggregator sees. Omitted: all fields; none for Count.
        aggregator : CombinerAggregator
            Count(), Sum(), Min(), Max() or one of your own.
        outputFields : str or StructType
            One name, with the type where the aggregator does not tell it.
        name : str, optional
            The state's name, its identity over restarts; ``<stream>.<output field>`` if omitted.

        Raises
        ------
        DuplicateNameError
            Where another step updates a state of this name.

        Examples
        --------
        >>> from trident import Sum, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.state import MemoryMapState
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "total")
        TridentState('words.total': total bigint; opaque)
        """
        return persisted(self, (), stateFactory, args, inputFields, aggregator, outputFields, name)


def persisted(
    stream: StreamBase,
    group: tuple[str, ...],
    factory: object,
    args: Sequence[object],
    inputFields: FieldsLike | None,
    aggregator: object,
    outputFields: OutputsLike | None,
    name: str | None,
) -> TridentState:
    """The state of a stream's aggregates by these group fields."""
    step = stream._step("persistentAggregate")
    _check_factory(factory, step)
    call = read_arguments(step, _USAGE, args, {"aggregator": aggregator}, inputFields, outputFields)
    step = call.step
    if rules.is_request(stream._node):
        raise step.error(TopologyError, "DRPC requests update no state; they read states with stateQuery")
    inputs, aggregation, schema = folded(stream, group, call, _USAGE)
    spec = nodes.StateSpec(_state_name(stream, name, aggregation.output, step), factory)  # type: ignore[arg-type]
    stream._register.check_free(spec.name, step)
    node = nodes.PersistentAggregate(
        stream._node, group, inputs, aggregation, spec, step=step.label, site=step.called, schema=schema
    )
    stream._register.add(stream._label, node)
    return TridentState(stream._register, node, stream._label)


def _check_factory(factory: object, step: Step) -> None:
    if all(hasattr(factory, name) for name in ("kind", "survives", "open")) and not isinstance(factory, type):
        return
    called = callable(factory) and not isinstance(factory, type)
    hint = "call it, " if called else ""
    raise step.error(
        TopologyError,
        f"{brief(factory)} is no state factory: {hint}give MemoryMapState.opaque(), RedisMapState.opaque(url) or the "
        f"like before everything else; write {_USAGE}",
    )


def _state_name(stream: StreamBase, name: str | None, output: str, step: Step) -> str:
    try:
        return check_name("a state", f"{stream._label}.{output}" if name is None else name)
    except TopologyError as error:
        raise step.error(TopologyError, f"{error}{'; give it a name=' if name is None else ''}") from None
