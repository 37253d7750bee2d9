"""The verbs aggregate and partitionAggregate."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructField, StructType

from trident.base.names import FieldsLike
from trident.base.spark_types import select
from trident.base.verb_call import Step
from trident.operations.aggregates.base import BuiltinAggregator
from trident.operations.aggregates.count import Count
from trident.operations.aggregator_kinds import bundle_member, read_aggregator, read_folding
from trident.operations.aggregators import Aggregation, Reduction
from trident.operations.bundles import Bundle, BundleMember
from trident.operations.functions import Declared
from trident.operations.output_fields import OutputsLike, read_outputs
from trident.plan import nodes, step_checks
from trident.stream.aggregate_conditions import Conditioned
from trident.stream.argument_types import AggregatorArgument
from trident.stream.arguments import Arguments, operation_site, read_arguments, several
from trident.stream.base import GroupwiseVerbs, StreamBase, StreamT

VERBS: dict[nodes.Scope, str] = {"batch": "aggregate", "partition": "partitionAggregate"}


class AggregateVerbs(GroupwiseVerbs[StreamT]):
    """Verbs that replace the tuples of a batch, or of each of its groups, by the result of an aggregator."""

    __slots__ = ()

    def aggregate(
        self,
        *args: AggregatorArgument,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
    ) -> StreamT:
        """Replace the batch, or after `groupBy` each group, by the result of an aggregator over all its tuples.

        An empty batch also gives a result; after `groupBy` it has no groups and gives none. A group's result begins
        with the group fields. The aggregator starts afresh in the next batch. `persistentAggregate` aggregates over
        batches. Meaning: ``org.apache.storm.trident.Stream.aggregate`` and
        ``org.apache.storm.trident.fluent.GroupedStream.aggregate``.

        Parameters
        ----------
        inputFields : str or list of str, optional
            The fields that the aggregator sees. Omitted: all fields; none for Count.
        aggregator : CombinerAggregator, ReducerAggregator, Aggregator or callable
            Count(), Sum(), Average(), TopK(3) or one that you wrote. A combiner makes partial results in the processes
            that have the tuples; for the other two kinds all tuples of a group first move to one process. A combiner or
            a reducer gives one tuple with its value, or with the result of its ``present(value)`` if it has that
            method. An Aggregator emits any number. A callable from pandas Series (or one DataFrame) to one value is
            called once, with all tuples.
        outputFields : str or StructType
            One name (for an Aggregator, one for each value that it emits), with a type if the aggregator does not
            declare it: ``"total decimal(10,2)"``. A name may be that of an input field.

        Examples
        --------
        >>> from trident import Sum, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.aggregate("n", Sum(), "total")
        Stream(words/1:aggregate(Sum): total bigint)
        >>> words.groupBy("word").aggregate("n", Sum(), "total")
        Stream(words/2:aggregate(Sum): word string, total bigint)
        """
        return self._aggregated("batch", args, inputFields, aggregator, outputFields)

    def partitionAggregate(
        self,
        *args: AggregatorArgument,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
    ) -> StreamT:
        """Replace every partition, even an empty one, or each group in it, by the result of an aggregator.

        No tuple moves, so a group with tuples in several partitions gives several results. The parameters are those of
        `aggregate`.
        Meaning: ``org.apache.storm.trident.Stream.partitionAggregate`` and
        ``org.apache.storm.trident.fluent.GroupedStream.partitionAggregate``.

        >>> from trident import Count, Sum, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["ox", "cow"]]))
        >>> counts = words.partitionAggregate(Count(), "n")
        >>> counts.aggregate("n", Sum(), "n").take(1)
        [Row(n=2)]
        """
        return self._aggregated("partition", args, inputFields, aggregator, outputFields)

    def _aggregated(
        self,
        scope: nodes.Scope,
        args: Sequence[object],
        inputFields: FieldsLike | None,
        aggregator: object,
        outputFields: OutputsLike | None,
    ) -> StreamT:
        stream, group = self._by_group()
        read, members, step = read_members(Conditioned.of(stream), scope, args, inputFields, aggregator, outputFields)
        extended: StreamBase[StreamT] = read.stream
        return chained(extended, group, scope, members, step)


def read_members(
    stream: Conditioned,
    scope: nodes.Scope,
    args: Sequence[object],
    inputFields: FieldsLike | None,
    aggregator: object,
    outputFields: OutputsLike | None,
) -> tuple[Conditioned, list[nodes.Member], Step]:
    """Return the stream to aggregate, the call's aggregators as chain members, and the call's step."""
    verb = VERBS[scope]
    usage = f"{verb}([inputFields,] aggregator, outputFields)"
    call = read_arguments(stream.own._step(verb), usage, args, {"aggregator": aggregator}, inputFields, outputFields)
    members = list[nodes.Member]()
    for each in several(call) if isinstance(call.operation, Mapping) else [call]:
        stream, inputs, target, declared = _folding(stream, each, usage)
        how, outputs = read_aggregator(target, select(stream.stream.schema, inputs), declared, each.step)
        members.append(nodes.Member(inputs, how, outputs))
    return stream, members, call.step


def chained(
    stream: StreamBase[StreamT], group: tuple[str, ...], scope: nodes.Scope, members: Sequence[nodes.Member], step: Step
) -> StreamT:
    """Add an aggregate of these members to `stream`, grouped by the fields `group`, and return its stream."""
    schema = select(stream.schema, group)
    for member in members:
        schema = step_checks.appended(schema, member.outputs, step, of="the group")
    return stream._then(nodes.Aggregate(stream._node, group, tuple(members), scope, **step.gives(schema)))


def folded(
    stream: StreamBase[Any], group: tuple[str, ...], call: Arguments, usage: str
) -> tuple[StreamBase[Any], tuple[str, ...], Aggregation | Reduction, StructType]:
    """Return the stream that a call folds into a state, the input fields, the folding, and the state's value fields."""
    if isinstance(call.operation, Mapping):
        return bundled(stream, group, call, usage)
    read, inputs, how = _read_folding(Conditioned.of(stream), call, usage)
    output = StructType([StructField(how.output, how.type)])
    schema = step_checks.appended(select(stream.schema, group), output, call.step, of="the group")
    return read.stream, inputs, how, schema


def bundled(
    stream: StreamBase[Any], group: tuple[str, ...], call: Arguments, usage: str
) -> tuple[StreamBase[Any], tuple[str, ...], Aggregation, StructType]:
    """Return the result of `folded` for a call with several combiners."""
    schema, members, read = select(stream.schema, group), list[BundleMember](), Conditioned.of(stream)
    for each in several(call):
        read, inputs, how = _read_folding(read, each, usage)
        members.append(bundle_member(inputs, how, each.step))
        field = StructType([StructField(how.output, how.type)])
        schema = step_checks.appended(schema, field, each.step, of="the group")
    bundle = Bundle(tuple(members))
    inputs = tuple(name for name in read.stream.schema.names if any(name in member.inputs for member in members))
    output = "value"  # the field that holds the structs of a frozen batch, beside the group fields
    while output in map(str.lower, group):
        output += "_"
    return read.stream, inputs, Aggregation(bundle, operation_site(call.operation), output, bundle.type), schema


def _read_folding(
    stream: Conditioned, call: Arguments, usage: str
) -> tuple[Conditioned, tuple[str, ...], Aggregation | Reduction]:
    stream, inputs, target, declared = _folding(stream, call, usage)
    return stream, inputs, read_folding(target, select(stream.stream.schema, inputs), declared, call.step)


def _folding(stream: Conditioned, call: Arguments, usage: str) -> tuple[Conditioned, tuple[str, ...], Any, Declared]:
    """Return the stream, the input fields and the aggregator of a call, and its output fields as the user wrote them.

    Raises TopologyError if the call names no output field.
    """
    if call.outputs is None:
        raise call.step.wrong(f"name the output field; write {usage}")
    read, inputs, target = stream.reading(call.operation, inputs_of(stream.own, call), call.step)
    return read, inputs, target, read_outputs(call.outputs, call.step)


def inputs_of(stream: StreamBase[Any], call: Arguments) -> tuple[str, ...]:
    """Return the input fields of an aggregator: those in the call, otherwise all fields (none for Count)."""
    own = call.operation.inputFields if isinstance(call.operation, BuiltinAggregator) else None
    if own is not None and call.inputs is not None:
        listed = ", ".join(own)
        problem = (
            f"the call names the input fields {call.inputs!r}, but the aggregator also names input fields, {listed!r}"
        )
        raise call.step.wrong(f"{problem}: name them once")
    names = stream._inputs(call.inputs if own is None else list(own), call.step)
    return () if isinstance(call.operation, Count) else names
