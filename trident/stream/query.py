"""The verb stateQuery, which reads a state."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from pyspark.sql.types import DataType, StructField, StructType

from trident.base.errors import TypeDeclarationError
from trident.base.names import FieldsLike, brief, did_you_mean
from trident.base.spark_types import ddl, select, type_ddl
from trident.base.verb_call import Step
from trident.operations.callables import bind, check_no_lifecycle, operation_kind
from trident.operations.functions import Declared, Query
from trident.operations.output_fields import OutputsLike, own_types, read_outputs
from trident.operations.query_functions import EntryGet, IndexGet, MapGet, RangeGet, SnapshotGet, TupleCollectionGet
from trident.plan import nodes, step_checks
from trident.plan.state_schema import function_of, keys_of, parts_of, queried_parts, shown_type, value_fields, value_of
from trident.stream.argument_types import QueryArgument
from trident.stream.arguments import Arguments, check_replace, read_arguments
from trident.stream.base import GroupwiseVerbs, StreamT
from trident.stream.index_queries import add_index_query
from trident.stream.state import StateBase

AsOf = Literal["committed"]
"""The batch as of which a query reads another stream's state: "committed" is the last committed one."""

_USAGE = "stateQuery(state, [inputFields,] queryFunction, outputFields)"


class QueryVerbs(GroupwiseVerbs[StreamT]):
    """Verbs that read states."""

    __slots__ = ()

    def stateQuery(
        self,
        state: StateBase[Any],
        *args: QueryArgument,
        inputFields: FieldsLike | None = None,
        function: object = None,
        outputFields: OutputsLike | None = None,
        replace: bool = False,
        asOf: AsOf | None = None,
    ) -> StreamT:
        """Append to every tuple the answer of a query function on a state. The resulting stream is not grouped.

        A batch sees the state as it was before the batch. For that, the stream and the streams that feed the state
        become one batch group: they share txids, commit together, and stop together. With ``asOf="committed"`` they
        stay separate. A DRPC request sees the last committed batch, the same batch in all states that it reads.
        Meaning: ``org.apache.storm.trident.Stream.stateQuery`` and
        ``org.apache.storm.trident.fluent.GroupedStream.stateQuery``.

        Parameters
        ----------
        state : TridentState
            The result of a `persistentAggregate`, a `partitionPersist` or a `newStaticState` of the same topology.
        inputFields : str or list of str, optional
            For MapGet the fields to look up by: as many as the state has key fields, of the same types. Omitted: all
            fields (none for a state without key fields). A function that you wrote gets tuples of these fields, of any
            types.
        function : QueryFunction
            MapGet() for the value of a key, SnapshotGet() for a state without key fields, TupleCollectionGet() for all
            entries of a state, RangeGet() for those of a range, IndexGet("city") for those with a value in the fields
            of an index, or an object with batchRetrieve(state, args) and execute(tuple, result, collector).
        outputFields : str, list of str or StructType
            Names for the answers. The built-in functions know the types (TupleCollectionGet and RangeGet: the key
            fields, then the value). If a value is a struct, as with `toTable` and several aggregators,
            ``MapGet(), "n, total"`` gives the fields of these names; a single other name means the whole struct.
        replace : bool
            True: an output field with the name of a field of the tuple replaces that field, as in `Stream.each`.
        asOf : "committed", optional
            Read a state of other streams as of their last batch that is committed when this batch commits. The answers
            are frozen with the batch, so a replay gets the same ones. Which batch of the other streams is read depends
            on how quickly the streams run. DRPC requests always read committed values.

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
        stream, _ = self._by_group()
        step = stream._step("stateQuery")
        if not isinstance(state, StateBase):
            raise step.wrong(f"{brief(state)} is not a state of this topology; write {_USAGE}")
        if state._register is not stream._register:
            raise step.wrong(f"state {state.name!r} {stream._register.why_foreign(state._register)}")
        call = read_arguments(step, _USAGE, args, {"function": function}, inputFields, outputFields)
        step, updated = call.step, state._node
        check_replace(replace, step, _USAGE)
        if asOf not in (None, *get_args(AsOf)):
            raise step.wrong(f"asOf={brief(asOf)}: expected 'committed'; omit it to read as of the previous batch")
        if isinstance(call.operation, IndexGet):
            if asOf is not None:
                raise step.wrong("asOf='committed' reads one state as of one batch, but an index is a second state")
            found: StreamT = add_index_query(stream, state, call, call.operation.names, replace)
            return found
        query, outputs = _read_query(call, updated)
        keys = keys_of(updated)
        whole = not keys.names or isinstance(query.function, TupleCollectionGet)
        inputs = () if call.inputs is None and whole else stream._inputs(call.inputs, step)
        if query.get:
            step_checks.check_query_keys(select(stream.schema, inputs), keys, state.name, step)
        if isinstance(query.function, RangeGet):
            step_checks.check_range_keys(select(stream.schema, inputs), keys, state.name, step)
        schema = step_checks.appended(stream.schema, outputs, step, replace=replace)
        committed = asOf is not None and not step_checks.is_request(stream._node)
        kind = nodes.CommittedQuery if committed else nodes.StateQuery
        return stream._then(kind(stream._node, inputs, updated, query, outputs, **step.gives(schema)))


def _read_query(call: Arguments, updated: nodes.HeldState) -> tuple[Query, StructType]:
    """Read the query function of a `stateQuery` call. Return the function, and its output fields with types."""
    step, function = call.step, call.operation
    if isinstance(function, type) and operation_kind(function):
        raise step.wrong(f"{function.__name__} is a class; give an instance of it, {function.__name__}()")
    if operation_kind(function) != "query":
        raise step.wrong(
            f"{brief(function)} is not a query function; give MapGet() or an object with batchRetrieve(state, args) "
            "and execute(tuple, result, collector)"
        )
    check_no_lifecycle(function, step)
    if call.outputs is None:
        raise step.wrong(f"name the output field; write {_USAGE}")
    bind(function.batchRetrieve, 2, "batchRetrieve is called with the state and a list of tuples", step, yields=True)
    bind(function.execute, 3, "execute is called with a tuple, the tuple's result and a collector", step)
    declared = read_outputs(call.outputs, step)
    assert step.function is not None
    if type(function) in (MapGet, EntryGet, SnapshotGet):
        if type(function) is SnapshotGet and keys_of(updated).names:
            keys = ddl(keys_of(updated))
            raise step.wrong(f"state {updated.state.name!r} has the key fields ({keys}): give MapGet()")
        return Query(function, step.function, get=True), _get_output(declared, updated, step)
    if type(function) in (TupleCollectionGet, RangeGet):
        return Query(function, step.function), _entry_outputs(declared, updated, step)
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


def _get_output(declared: Declared, updated: nodes.HeldState, step: Step) -> StructType:
    """Return the output fields of MapGet or SnapshotGet with their types.

    There is one field, or, if the value is a struct, the struct's fields that the outputs name.
    """
    fields = value_fields(updated)
    if fields is not None and queried_parts(updated, declared.schema.names) is not None:
        return _part_outputs(declared, fields, updated, step)
    if len(declared.schema.names) != 1:
        names = ", ".join(declared.schema.names)
        what = "" if step.function is None else step.function.name
        raise step.wrong(f"{what} returns one field, not {len(declared.schema.names)} ({names})")
    return StructType([_shown_value(declared.schema.fields[0], declared.typed[0], updated, step)])


def _part_outputs(
    declared: Declared, parts: Mapping[str, DataType], updated: nodes.HeldState, step: Step
) -> StructType:
    """Return the output fields that are named after fields of the state's value, with their types."""
    fields = []
    for field, typed in zip(declared.schema.fields, declared.typed, strict=True):
        if field.name not in parts:
            listed = ", ".join(parts)
            raise step.wrong(
                f"the value of state {updated.state.name!r} has the fields ({listed}), not {field.name!r}: name the "
                f"fields that you want, or use one other name for the whole struct{did_you_mean(field.name, parts)}"
            )
        kind = parts[field.name]
        _check_type(field, typed, kind, step)
        fields.append(StructField(field.name, kind))
    return StructType(fields)


def _entry_outputs(declared: Declared, updated: nodes.HeldState, step: Step) -> StructType:
    """Return the user's output fields of TupleCollectionGet and RangeGet: the key fields and the value."""
    keys, parts = keys_of(updated), parts_of(updated)
    given = declared.schema.fields
    names = [*keys.names, *([value_of(updated).name] if parts is None else parts)]
    if len(given) != len(names):
        raise step.wrong(
            f"an entry of state {updated.state.name!r} is ({', '.join(names)}): name {len(names)} output fields, got "
            f"{len(given)}"
        )
    known = [*keys.fields, *(StructField(name, member.presented) for name, member in (parts or {}).items())]
    fields = []
    for field, typed, own in zip(given, declared.typed, known, strict=False):
        _check_type(field, typed, own.dataType, step)
        fields.append(StructField(field.name, own.dataType))
    if parts is None:
        fields.append(_shown_value(given[-1], declared.typed[-1], updated, step))
    return StructType(fields)


def _check_type(output: StructField, typed: bool, kind: DataType, step: Step) -> None:
    """Raise an error if the declared type of an output field is not `kind`."""
    if typed and output.dataType != kind:
        raise step.error(
            TypeDeclarationError,
            f"{output.name!r} is {type_ddl(kind)}, not {type_ddl(output.dataType)}; remove the type",
        )


def _shown_value(output: StructField, typed: bool, updated: nodes.HeldState, step: Step) -> StructField:
    """Return the output field for a state's value, with the type that the aggregator's `present` returns.

    Without `present` queries see the stored value.
    """
    held = shown_type(updated)
    if not typed and held is None:
        raise step.error(
            TypeDeclarationError,
            f"the type of {output.name!r} is not declared: queries get the result of {function_of(updated)}; declare "
            f"the type with the field, such as '{output.name} double', or annotate the return type of present(acc)",
        )
    if typed and held is not None and output.dataType != held:
        raise step.error(
            TypeDeclarationError,
            f"state {updated.state.name!r} holds {type_ddl(held)}, not {type_ddl(output.dataType)}; remove the type",
        )
    return StructField(output.name, held or output.dataType)
