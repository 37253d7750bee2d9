"""What outlives a batch: persistentAggregate, stateQuery, and the state itself."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.types import StructField, StructType

from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.names import FieldsLike, brief, check_name
from trident.base.step import Step
from trident.base.types import ddl, select, type_ddl
from trident.operations.aggregating import presented_type
from trident.operations.builtin_functions import MapGet
from trident.operations.functions import Declared, Query
from trident.operations.outputs import OutputsLike, own_types, read_outputs
from trident.operations.reading import bind, kind_of
from trident.plan import nodes, rules
from trident.plan.register import Register
from trident.stream.aggregate import folded
from trident.stream.base import StreamBase, unknown_verb
from trident.stream.call import Arguments, read_arguments
from trident.stream.shown import Shown

if TYPE_CHECKING:
    from trident.stream.stream import Stream

_PERSIST = "persistentAggregate(stateFactory, [inputFields,] aggregator, outputField, name=...)"
_QUERY = "stateQuery(state, [inputFields,] queryFunction, outputFields)"


class TridentState(Shown):
    """A state that a topology updates: ask it with `stateQuery`, or go on with its new values.

    Meaning: ``org.apache.storm.trident.TridentState``. Its identity is the topology's name and its own.
    """

    __slots__ = ("_label", "_node", "_register")

    def __init__(self, register: Register, node: nodes.PersistentAggregate, label: str) -> None:
        self._register = register
        self._node = node
        self._label = label

    @property
    def name(self) -> str:
        """The state's name: ``running.state(name)`` reads it while the topology runs."""
        return self._node.state.name

    @property
    def schema(self) -> StructType:
        """The key fields and the value."""
        return self._node.schema

    def _ends(self) -> Sequence[nodes.Node]:
        return [self._node]

    def newValuesStream(self) -> "Stream":
        """The keys that a batch touched with their values after it, one tuple a key.

        Meaning: ``org.apache.storm.trident.TridentState.newValuesStream``.
        """
        from trident.stream.stream import Stream

        return Stream(self._register, self._node, self._label)

    def __repr__(self) -> str:
        return f"TridentState({self.name!r}: {ddl(self.schema)}; {self._node.state.factory.kind.value})"

    def __getattr__(self, name: str) -> NoReturn:
        from trident.stream.stream import Stream

        verb = f"; the stream of its new values has: newValuesStream().{name}" if hasattr(Stream, name) else ""
        raise AttributeError(unknown_verb(self, name) if not verb else f"'TridentState' has no verb {name!r}{verb}")


class PersistVerbs(StreamBase):
    """Verbs that update and read states."""

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

    def stateQuery(
        self,
        state: TridentState,
        *args: object,
        inputFields: FieldsLike | None = None,
        function: object = None,
        outputFields: OutputsLike | None = None,
    ) -> "Stream":
        """Append to every tuple what a query function finds in a state.

        A batch sees the state as it was before the batch, a DRPC request sees what is committed; several states in one
        request are seen as of one batch.
        Meaning: ``org.apache.storm.trident.Stream.stateQuery``.

        Parameters
        ----------
        state : TridentState
            What a `persistentAggregate` of the same topology gave.
        inputFields : str or list of str, optional
            The fields to look up by: as many as the state has keys, of their types. Omitted: all fields (none for a
            state without keys).
        function : QueryFunction
            MapGet(), or an object with batchRetrieve(state, args) and execute(tuple, result, collector).
        outputFields : str, list of str or StructType
            New names; MapGet knows the type.

        Examples
        --------
        >>> from trident import Count, MapGet, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.state import MemoryMapState
        >>> topology = TridentTopology()
        >>> words = topology.newStream("words", FixedBatchSpout("word string", [[("dog",)]]))
        >>> counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count")
        >>> topology.newDRPCStream("lookup", "word string").stateQuery(counts, "word", MapGet(), "count")
        Stream(lookup()/1:stateQuery(MapGet): word string, count bigint)
        """
        step = self._step("stateQuery")
        if not isinstance(state, TridentState):
            raise step.error(TopologyError, f"{brief(state)} is no state of this topology; write {_QUERY}")
        if state._register is not self._register:
            raise step.error(TopologyError, f"state {state.name!r} belongs to another topology")
        call = read_arguments(step, _QUERY, args, {"function": function}, inputFields, outputFields)
        step, updated = call.step, state._node
        keys = select(updated.source.schema, updated.group)
        inputs = () if call.inputs is None and not keys.names else self._inputs(call.inputs, step)
        rules.query_keys(select(self.schema, inputs), keys, state.name, step)
        query, outputs = _read_query(call, updated)
        schema = rules.appended(self.schema, outputs, step)
        return self._then(
            nodes.StateQuery(
                self._node, inputs, updated, query, outputs, step=step.label, site=step.called, schema=schema
            )
        )


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
    call = read_arguments(step, _PERSIST, args, {"aggregator": aggregator}, inputFields, outputFields)
    step = call.step
    if rules.is_request(stream._node):
        raise step.error(TopologyError, "DRPC requests update no state; they read states with stateQuery")
    inputs, aggregation, schema = folded(stream, group, call, _PERSIST)
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
        f"like before everything else; write {_PERSIST}",
    )


def _state_name(stream: StreamBase, name: str | None, output: str, step: Step) -> str:
    try:
        return check_name("a state", f"{stream._label}.{output}" if name is None else name)
    except TopologyError as error:
        raise step.error(TopologyError, f"{error}{'; give it a name=' if name is None else ''}") from None


def _read_query(call: Arguments, updated: nodes.PersistentAggregate) -> tuple[Query, StructType]:
    """The query function, and its output fields with their types."""
    step, function = call.step, call.operation
    if isinstance(function, type) and kind_of(function):
        raise step.error(
            TopologyError, f"{function.__name__} is a class; give an instance of it, {function.__name__}()"
        )
    if kind_of(function) != "query":
        raise step.error(
            TopologyError,
            f"{brief(function)} is no query function; give MapGet() or an object with batchRetrieve(state, args) and "
            "execute(tuple, result, collector)",
        )
    if call.outputs is None:
        raise step.error(TopologyError, f"name the output field; write {_QUERY}")
    bind(function.batchRetrieve, 2, "batchRetrieve is called with the state and a list of tuples", step)
    bind(function.execute, 3, "execute is called with a tuple, its result and a collector", step)
    declared = read_outputs(call.outputs, step)
    assert step.function is not None
    if type(function) is MapGet:
        return Query(function, step.function, get=True), _get_output(declared, updated, step)
    if all(declared.typed):
        return Query(function, step.function), declared.schema
    types = own_types(function, len(declared.schema.names), step)
    if types is None:
        raise step.error(
            TypeDeclarationError,
            f"the types of ({', '.join(declared.schema.names)}) are not declared: write them with the fields, such as "
            f"'{declared.schema.names[0]} string', or give the query function an attribute outputType",
        )
    fields = [
        field if typed else StructField(field.name, kind)
        for field, typed, kind in zip(declared.schema.fields, declared.typed, types, strict=True)
    ]
    return Query(function, step.function), StructType(fields)


def _get_output(declared: Declared, updated: nodes.PersistentAggregate, step: Step) -> StructType:
    """The one field that MapGet gives: what the state holds, or what its aggregator presents."""
    if len(declared.schema.names) != 1:
        names = ", ".join(declared.schema.names)
        raise step.error(TopologyError, f"MapGet gives one field, not {len(declared.schema.names)} ({names})")
    output, held = declared.schema.fields[0], presented_type(updated.aggregation)
    if not declared.typed[0] and held is None:
        raise step.error(
            TypeDeclarationError,
            f"the type of {output.name!r} is not declared: {updated.aggregation.site} presents its values; write the "
            f"type with the field, such as '{output.name} double', or annotate what present(acc) returns",
        )
    if declared.typed[0] and held is not None and output.dataType != held:
        raise step.error(
            TypeDeclarationError,
            f"state {updated.state.name!r} gives {type_ddl(held)}, not {type_ddl(output.dataType)}; leave the type out",
        )
    return StructType([StructField(output.name, held or output.dataType)])
