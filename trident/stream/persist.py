"""The verbs persistentAggregate and partitionPersist, which update states."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic

from pyspark.sql.types import DataType, StructType

from trident.base.names import FieldsLike
from trident.operations.aggregators import Reduction
from trident.operations.output_fields import OutputsLike
from trident.operations.updater_checks import emitted_fields, held_fields, read_updater
from trident.plan import nodes, step_checks
from trident.plan.replaced_values import check_counts_once
from trident.stream.aggregate import folded
from trident.stream.argument_types import AggregatorArgument, EvolveLike, IndexLike, UpdaterArgument
from trident.stream.arguments import Arguments, check_factory, read_arguments
from trident.stream.base import GroupwiseVerbs, StreamBase, StreamT
from trident.stream.indexes import with_indexes
from trident.stream.state import StateT
from trident.stream.state_specs import check_no_requests, state_spec, with_past

_USAGE = "persistentAggregate(stateFactory, [inputFields,] aggregator, outputField, name=...)"
_UPDATE_USAGE = "partitionPersist(stateFactory, [inputFields,] updater, [outputFields,] keyFields=, valueType=, name=)"


class PersistentVerbs(GroupwiseVerbs[StreamT], Generic[StreamT, StateT]):
    """The verb of both streams and grouped streams that updates a state."""

    __slots__ = ()

    def persistentAggregate(
        self,
        stateFactory: object,
        *args: AggregatorArgument,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
        name: str | None = None,
        evolve: EvolveLike = None,
        initialState: object = None,
        backfill: bool = False,
        index: IndexLike = None,
    ) -> StateT:
        """Combine the aggregate of every batch into a state.

        Without groups the state is one value without key fields; after `groupBy` it has one value for each key. Every
        batch is applied to the state once, whatever fails: `explain()` shows the guarantee for this spout and this
        state. Meaning: ``org.apache.storm.trident.Stream.persistentAggregate`` and
        ``org.apache.storm.trident.fluent.GroupedStream.persistentAggregate``.

        Parameters
        ----------
        stateFactory : StateFactory
            The kind and location of the state: ``MemoryMapState.transactional()``, ``RedisMapState.opaque(url)``.
        inputFields : str or list of str, optional
            The fields that the aggregator sees. Omitted: all fields; none for Count.
        aggregator : CombinerAggregator or ReducerAggregator
            Count(), Sum(), Min(), Max() or one that you wrote; or several combiners as a mapping from output fields,
            ``{"n": Count(), "total": Sum("price")}``; then the state's value has a field for each. A reducer
            (``init()``, ``reduce(curr, tuple)``) sees every tuple, one after the other, so all tuples come to the
            driver.
        outputFields : str or StructType
            One name, with a type if the aggregator does not declare it. Omit it for a mapping of aggregators.
        name : str, optional
            The state's name, its identity over restarts; ``<stream>.<output field>`` if omitted. Several aggregators
            need one.
        evolve : Evolution or list of Evolution, optional
            The former shapes of the values from which a start may continue; see `Evolution`.
        initialState : DataFrame, pyarrow.Table, path, state or InitialState, optional
            The initial content of a new state, before its first batch; see `InitialState`.
        backfill : bool
            True: a new state on existing streams first processes their earlier tuples, which are read again from the
            beginning of their sources. Default: it begins with the next batch.
        index : str or list, optional
            A field of the key or of the value, as readers see it, by which entries can be found:
            ``running.state(name).by("city", "Rome")``, `IndexGet`. The index is updated in the same commit as the
            state, and is a separate state, ``<name>.by.<fields>``. A list has one entry for each index; a tuple of
            names is an index by several fields, ``index=[("country", "city")]``.

        Raises
        ------
        DuplicateNameError
            If another step updates a state of this name.

        Examples
        --------
        >>> from trident import Count, Sum, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.state import MemoryMapState
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "total")
        TridentState('words.total': total bigint; opaque)
        >>> words.persistentAggregate(MemoryMapState.opaque(), {"n": Count(), "total": Sum("n")}, name="totals")
        TridentState('totals': n bigint, total bigint; opaque)
        >>> words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
        TridentState('counts': word string, count bigint; opaque)
        """
        stream, group = self._by_group()
        step = stream._step("persistentAggregate")
        check_factory(stateFactory, step, _USAGE)
        call = read_arguments(step, _USAGE, args, {"aggregator": aggregator}, inputFields, outputFields)
        step = call.step
        check_no_requests(stream._node, step)
        if isinstance(call.operation, Mapping) and name is None:
            problem = "a state of several aggregators needs a name, its identity over restarts"
            raise step.wrong(f"{problem}: give it name=; write {_USAGE}")
        spec = partial(state_spec, stream._register, name, stateFactory, step)  # type: ignore[arg-type]
        node = _aggregating(stream, group, call, lambda output: spec(f"{stream._label}.{output}"))
        node = with_past(node, evolve, initialState, backfill, step)
        stream._register.add(stream._label, node)
        return with_indexes(self._state_of(node), index)

    def _state_of(self, node: nodes.StateWriter) -> StateT:
        """Return the state that `node` updates."""
        raise NotImplementedError


class PersistVerbs(PersistentVerbs[StreamT, StateT], StreamBase[StreamT]):
    """Verbs of streams that update states."""

    __slots__ = ()

    def partitionPersist(
        self,
        stateFactory: object,
        *args: UpdaterArgument,
        inputFields: FieldsLike | None = None,
        updater: object = None,
        outputFields: OutputsLike | None = None,
        keyFields: OutputsLike | None = None,
        valueType: str | DataType | None = None,
        name: str | None = None,
        evolve: EvolveLike = None,
        initialState: object = None,
        backfill: bool = False,
    ) -> StateT:
        """Update a state with your code, which is called once for each batch, with all tuples of the batch.

        The updater sees the state as of the previous batch, and its changes of this batch. It runs on the driver, over
        tuples that are already frozen. Its changes are frozen before they are written, so each batch changes the state
        once, whatever fails. Any other effect of the updater may happen again. Meaning:
        ``org.apache.storm.trident.Stream.partitionPersist``, with all partitions in one call.

        Parameters
        ----------
        stateFactory : StateFactory
            The kind and location of the state.
        inputFields : str or list of str, optional
            The fields of the tuples that the updater gets. Omitted: all fields.
        updater : StateUpdater
            An object with ``updateState(state, tuples, collector)``, or a callable of these three. `state` is a
            `RemovableMapState`, or a `Snapshottable` if there are no key fields (``trident.state`` has both).
        outputFields : str, list of str or StructType, optional
            The fields that the collector takes. They are the fields of `newValuesStream`.
        keyFields : str, list of str or StructType, optional
            The state's key, ``"user long, day date"``; a field of the stream needs no type. Omitted: the updater's
            attribute ``keyFields``; if the updater has none, the state is one value.
        valueType : str or DataType
            The type of the state's values, ``"long"``. Omitted: the updater's attribute ``valueType``.
        name : str
            The state's name, its identity over restarts.
        evolve : Evolution or list of Evolution, optional
            The former shapes of the values from which a start may continue; see `Evolution`.
        initialState : DataFrame, pyarrow.Table, path, state or InitialState, optional
            The initial content of a new state, before its first batch; see `InitialState`.
        backfill : bool
            True: a new state on existing streams first processes their earlier tuples, which are read again from the
            beginning of their sources. Default: it begins with the next batch.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.state import MemoryMapState
        >>> def lastSeen(state, tuples, collector):
        ...     state.multiPut([t.user for t in tuples], [t.at for t in tuples])
        >>> visits = TridentTopology().newStream("visits", FixedBatchSpout("user long, at date", []))
        >>> visits.partitionPersist(MemoryMapState.opaque(), lastSeen, keyFields="user", valueType="date", name="seen")
        TridentState('seen': user bigint, value date; opaque)
        """
        step = self._step("partitionPersist")
        check_factory(stateFactory, step, _UPDATE_USAGE)
        call = read_arguments(step, _UPDATE_USAGE, args, {"updater": updater}, inputFields, outputFields)
        step = call.step
        check_no_requests(self._node, step)
        updating = read_updater(call.operation, step)
        keys, value = held_fields(call.operation, self.schema, keyFields, valueType, _UPDATE_USAGE, step)
        step_checks.check_comparable(keys, step)
        if name is None:
            raise step.wrong(f"the state needs a name, its identity over restarts; {_UPDATE_USAGE}")
        node = nodes.PartitionPersist(
            self._node,
            self._inputs(call.inputs, step),
            updating,
            emitted_fields(call.operation, call.outputs, step),
            keys,
            state_spec(self._register, name, stateFactory, step),  # type: ignore[arg-type]
            **step.gives(step_checks.appended(keys, StructType([value]), step, of="the key")),
        )
        node = with_past(node, evolve, initialState, backfill, step)
        self._register.add(self._label, node)
        return self._state_of(node)


def _aggregating(
    stream: StreamBase[Any], group: tuple[str, ...], call: Arguments, spec: Callable[[str], nodes.StateSpec]
) -> nodes.PersistentAggregate | nodes.PersistentReduce:
    step = call.step
    stream, inputs, how, schema = folded(stream, group, call, _USAGE)
    check_counts_once(stream._node, how.aggregator, stream._register.everyChange, step)
    node, inputs, how, schema = stream._to_fold(group, inputs, how, schema, step)
    if isinstance(how, Reduction):
        return nodes.PersistentReduce(node, group, inputs, how, spec(how.output), **step.gives(schema))
    return nodes.PersistentAggregate(node, group, inputs, how, spec(how.output), **step.gives(schema))
