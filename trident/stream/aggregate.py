"""Many tuples of a batch to few: aggregate and partitionAggregate."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import StructField, StructType

from trident.base.errors import TopologyError
from trident.base.names import FieldsLike
from trident.base.step import Step
from trident.base.types import select
from trident.operations.aggregator_kinds import read_aggregator, read_folding
from trident.operations.aggregators import Aggregation, Reduction
from trident.operations.builtin_aggregators import Count
from trident.operations.functions import Declared
from trident.operations.output_fields import OutputsLike, read_outputs
from trident.plan import nodes, rules
from trident.stream.arguments import Arguments, read_arguments
from trident.stream.base import StreamBase, StreamT

VERBS: dict[nodes.Scope, str] = {"batch": "aggregate", "partition": "partitionAggregate"}


class AggregateVerbs(StreamBase[StreamT]):
    """Verbs that fold the tuples of a batch."""

    __slots__ = ()

    def aggregate(
        self,
        *args: object,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
    ) -> StreamT:
        """What an aggregator makes of the whole batch, also of an empty one; it replaces all fields.

        Nothing is carried to the next batch; for that there is `persistentAggregate`.
        Meaning: ``org.apache.storm.trident.Stream.aggregate``.

        Parameters
        ----------
        inputFields : str or list of str, optional
            The fields that the aggregator sees. Omitted: all fields; none for Count.
        aggregator : CombinerAggregator, ReducerAggregator or Aggregator
            Count(), Sum(), Average(), TopK(3) or one of your own. A combiner's partial results are made where the
            tuples are; for the other two kinds every tuple comes to one place. What a combiner or a reducer gives is
            one tuple, of what its ``present`` makes of the value where it has one; an Aggregator emits any number.
        outputFields : str or StructType
            One name (of an Aggregator as many as it emits), with the type where the aggregator does not tell it:
            ``"total decimal(10,2)"``. An input field's name may be used again.

        Examples
        --------
        >>> from trident import Sum, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.aggregate("n", Sum(), "total")
        Stream(words/1:aggregate(Sum): total bigint)
        """
        return aggregated(self, (), args, inputFields, aggregator, outputFields)

    def partitionAggregate(
        self,
        *args: object,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
    ) -> StreamT:
        """What an aggregator makes of every partition of the batch, also of an empty one; it replaces all fields.

        No tuple moves. The parameters are those of `aggregate`.
        Meaning: ``org.apache.storm.trident.Stream.partitionAggregate``.

        >>> from trident import Count, Sum, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["ox", "cow"]]))
        >>> counts = words.partitionAggregate(Count(), "n")
        >>> counts.aggregate("n", Sum(), "n").take(1)
        [Row(n=2)]
        """
        return aggregated(self, (), args, inputFields, aggregator, outputFields, "partition")


def aggregated(
    stream: StreamBase[StreamT],
    group: tuple[str, ...],
    args: Sequence[object],
    inputFields: FieldsLike | None,
    aggregator: object,
    outputFields: OutputsLike | None,
    scope: nodes.Scope = "batch",
) -> StreamT:
    """The aggregate of a stream by these group fields: a chain of one."""
    member, step = read_member(stream, scope, args, inputFields, aggregator, outputFields)
    return chained(stream, group, [member], scope, step)


def read_member(
    stream: StreamBase[Any],
    scope: nodes.Scope,
    args: Sequence[object],
    inputFields: FieldsLike | None,
    aggregator: object,
    outputFields: OutputsLike | None,
) -> tuple[nodes.Member, Step]:
    """One aggregator of an aggregate, read; and the step of the call."""
    verb = VERBS[scope]
    usage = f"{verb}([inputFields,] aggregator, outputFields)"
    call = read_arguments(stream._step(verb), usage, args, {"aggregator": aggregator}, inputFields, outputFields)
    inputs, declared = _folding(stream, call, usage)
    how, outputs = read_aggregator(call.operation, select(stream.schema, inputs), declared, call.step)
    return nodes.Member(inputs, how, outputs), call.step


def chained(
    stream: StreamBase[StreamT], group: tuple[str, ...], members: Sequence[nodes.Member], scope: nodes.Scope, step: Step
) -> StreamT:
    """The aggregate by these members."""
    schema = select(stream.schema, group)
    for member in members:
        schema = rules.appended(schema, member.outputs, step, of="the group")
    return stream._then(
        nodes.Aggregate(stream._node, group, tuple(members), scope, step=step.label, site=step.called, schema=schema)
    )


def folded(
    stream: StreamBase[Any], group: tuple[str, ...], call: Arguments, usage: str
) -> tuple[tuple[str, ...], Aggregation | Reduction, StructType]:
    """What a verb that folds tuples into a state was given, read: the input fields, the folding, and the state's
    fields."""
    inputs, declared = _folding(stream, call, usage)
    how = read_folding(call.operation, select(stream.schema, inputs), declared, call.step)
    output = StructType([StructField(how.output, how.type)])
    return inputs, how, rules.appended(select(stream.schema, group), output, call.step, of="the group")


def _folding(stream: StreamBase[Any], call: Arguments, usage: str) -> tuple[tuple[str, ...], Declared]:
    """The input fields of a verb that folds tuples, and its output as it was written."""
    if call.outputs is None:
        raise call.step.error(TopologyError, f"name the output field; write {usage}")
    return inputs_of(stream, call), read_outputs(call.outputs, call.step)


def inputs_of(stream: StreamBase[Any], call: Arguments) -> tuple[str, ...]:
    """The fields that an aggregator sees: those that are named, else all; none for one that only counts."""
    names = stream._inputs(call.inputs, call.step)
    return () if isinstance(call.operation, Count) else names
