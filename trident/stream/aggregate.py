"""Many tuples of a batch to one: aggregate."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import StructField, StructType

from trident.base.errors import TopologyError
from trident.base.names import FieldsLike
from trident.base.step import Step
from trident.base.types import select
from trident.operations.aggregating import read_aggregation
from trident.operations.aggregators import Aggregation, Reduction
from trident.operations.builtin_aggregators import Count
from trident.operations.functions import Declared
from trident.operations.outputs import OutputsLike, read_outputs
from trident.plan import nodes, rules
from trident.stream.base import StreamBase
from trident.stream.call import Arguments, read_arguments

if TYPE_CHECKING:
    from trident.stream.stream import Stream

_USAGE = "aggregate([inputFields,] aggregator, outputField)"


class AggregateVerbs(StreamBase):
    """Verbs that fold the tuples of a batch."""

    __slots__ = ()

    def aggregate(
        self,
        *args: object,
        inputFields: FieldsLike | None = None,
        aggregator: object = None,
        outputFields: OutputsLike | None = None,
    ) -> "Stream":
        """One tuple for the whole batch, also for an empty one: the aggregator's value, which replaces all fields.

        Nothing is carried to the next batch; for that there is `persistentAggregate`.
        Meaning: ``org.apache.storm.trident.Stream.aggregate``.

        Parameters
        ----------
        inputFields : str or list of str, optional
            The fields that the aggregator sees. Omitted: all fields; none for Count.
        aggregator : CombinerAggregator
            Count(), Sum(), Min(), Max() or one of your own.
        outputFields : str or StructType
            One name, with the type where the aggregator does not tell it: ``"total decimal(10,2)"``.

        Examples
        --------
        >>> from trident import Sum, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.aggregate("n", Sum(), "total")
        Stream(words/1:aggregate(Sum): total bigint)
        """
        return aggregated(self, (), args, inputFields, aggregator, outputFields)


def aggregated(
    stream: StreamBase,
    group: tuple[str, ...],
    args: Sequence[object],
    inputFields: FieldsLike | None,
    aggregator: object,
    outputFields: OutputsLike | None,
) -> "Stream":
    """The aggregate of a stream by these group fields."""
    step = stream._step("aggregate")
    call = read_arguments(step, _USAGE, args, {"aggregator": aggregator}, inputFields, outputFields)
    inputs, aggregation, schema = folded(stream, group, call, _USAGE)
    step = call.step
    return stream._then(
        nodes.Aggregate(stream._node, group, inputs, aggregation, step=step.label, site=step.called, schema=schema)
    )


def folded(
    stream: StreamBase, group: tuple[str, ...], call: Arguments, usage: str
) -> tuple[tuple[str, ...], Aggregation, StructType]:
    """What an aggregating verb was given, read: the input fields, the aggregation, and the fields that leave."""
    inputs, declared = folding(stream, call, usage)
    aggregation = read_aggregation(call.operation, select(stream.schema, inputs), declared, call.step)
    return inputs, aggregation, leaving(stream, group, aggregation, call.step)


def folding(stream: StreamBase, call: Arguments, usage: str) -> tuple[tuple[str, ...], Declared]:
    """The input fields of a verb that folds tuples, and its output as it was written."""
    if call.outputs is None:
        raise call.step.error(TopologyError, f"name the output field; write {usage}")
    return _inputs(stream, call, call.step), read_outputs(call.outputs, call.step)


def leaving(stream: StreamBase, group: tuple[str, ...], aggregation: Aggregation | Reduction, step: Step) -> StructType:
    """The group fields, then what tuples are folded to."""
    output = StructType([StructField(aggregation.output, aggregation.type)])
    return rules.appended(select(stream.schema, group), output, step, of="the group")


def _inputs(stream: StreamBase, call: Arguments, step: Step) -> tuple[str, ...]:
    """The input fields; all where none are named, but none for an aggregator that only counts."""
    if call.inputs is None and isinstance(call.operation, Count):
        return ()
    return stream._inputs(call.inputs, step)
