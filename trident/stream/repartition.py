"""Verbs that choose the partition of a tuple (shuffle, partitionBy, broadcast and others), groupBy, and name."""

from typing import Generic, TypeVar

from trident.base.argument_checks import check_whole_number
from trident.base.names import FieldsLike
from trident.operations.callables import bind, read_operation
from trident.operations.functions import Call
from trident.plan import nodes, step_checks
from trident.plan.nodes import Placing
from trident.stream.argument_types import FunctionArgument
from trident.stream.arguments import name_of, read_arguments
from trident.stream.base import StreamBase, StreamT
from trident.stream.ordered_changes import check_hint

GroupedT = TypeVar("GroupedT")
"""The class of grouped streams."""

_PARTITION = "partition([inputFields,] function)"


class RepartitionVerbs(StreamBase[StreamT], Generic[StreamT, GroupedT]):
    """Verbs that choose the partition or the group of a tuple, and the number of partitions."""

    __slots__ = ()

    def shuffle(self) -> StreamT:
        """Spread the tuples evenly over the partitions.

        Meaning: ``org.apache.storm.trident.Stream.shuffle``.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["dog", "cat"]]))
        >>> words.shuffle().parallelismHint(4)
        Stream(words/2:parallelismHint(4): word string)
        """
        return self._placed(Placing.SHUFFLE)

    def localOrShuffle(self) -> StreamT:
        """Spread the tuples evenly, unless there are already as many partitions as `parallelismHint` sets.

        Meaning: ``org.apache.storm.trident.Stream.localOrShuffle``.
        """
        return self._placed(Placing.LOCAL_OR_SHUFFLE)

    def partitionBy(self, *fields: FieldsLike) -> StreamT:
        """Bring tuples with equal values of these fields to the same partition, which is the same in every batch.

        Meaning: ``org.apache.storm.trident.Stream.partitionBy``.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.partitionBy("word")
        Stream(words/1:partitionBy: word string, n bigint)
        """
        step = self._step(Placing.FIELDS.value)
        names = self._named(fields, step)
        step_checks.check_comparable(step_checks.chosen(self.schema, names, step), step)
        return self._then(nodes.Repartition(self._node, Placing.FIELDS, names, **step.gives(self.schema)))

    def groupBy(self, *fields: FieldsLike) -> GroupedT:
        """Group the tuples with equal values of these fields for the next verb. Nulls are equal to each other.

        Meaning: ``org.apache.storm.trident.Stream.groupBy``.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.groupBy("word")
        GroupedStream(words/0:newStream(FixedBatchSpout): word string, n bigint; by word)
        """
        step = self._step("groupBy")
        names = self._named(fields, step)
        step_checks.check_comparable(step_checks.chosen(self.schema, names, step), step)
        return self._grouped(names)

    def broadcast(self) -> StreamT:
        """Copy every tuple to every partition.

        Without a `parallelismHint` there is one partition. Meaning: ``org.apache.storm.trident.Stream.broadcast``.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["dog", "cat"]]))
        >>> len(words.broadcast().parallelismHint(3).take(10))
        6
        """
        return self._placed(Placing.BROADCAST)

    def global_(self) -> StreamT:
        """Bring all tuples of all batches to the first partition.

        Meaning: ``org.apache.storm.trident.Stream.global``; ``global`` is a keyword of Python.
        """
        return self._placed(Placing.GLOBAL)

    def batchGlobal(self) -> StreamT:
        """Bring all tuples of a batch to one partition.

        A batch goes to the same partition at every attempt; other batches go to other partitions.

        Meaning: ``org.apache.storm.trident.Stream.batchGlobal``.
        """
        return self._placed(Placing.BATCH_GLOBAL)

    def identityPartition(self) -> StreamT:
        """Leave every tuple in its partition. The number of partitions stays the same.

        Meaning: ``org.apache.storm.trident.Stream.identityPartition``.
        """
        return self._placed(Placing.IDENTITY)

    def partition(
        self, *args: FunctionArgument, inputFields: FieldsLike | None = None, function: object = None
    ) -> StreamT:
        """Bring every tuple to the partition that your function chooses.

        The function gets one positional argument for each input field (without input fields: one TridentTuple of all
        fields), then the number of partitions. It returns the index of a partition, from 0 on, or a list of indices: a
        copy of the tuple goes to each of these partitions. Without a `parallelismHint` there is one partition.
        Meaning: ``org.apache.storm.trident.Stream.partition`` with a ``CustomStreamGrouping``.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> numbers = TridentTopology().newStream("numbers", FixedBatchSpout("n long", [[1, 2, 3]]))
        >>> numbers.partition("n", lambda n, partitions: n % partitions).parallelismHint(2)
        Stream(numbers/2:parallelismHint(2): n bigint)
        """
        call = read_arguments(self._step(Placing.CUSTOM.value), _PARTITION, args, {"function": function}, inputFields)
        step = call.step
        inputs = self._inputs(call.inputs, step)
        operation, _ = read_operation(call.operation, step, tuples=call.inputs is None)
        if operation.call not in (Call.VALUES, Call.TUPLE):
            raise step.wrong(f"partition takes a plain callable; write {_PARTITION}")
        if operation.many:
            raise step.wrong("it yields its partitions one by one; return an index, or a list of indices")
        count = 1 if operation.call is Call.TUPLE else len(inputs)
        what = (
            "one TridentTuple"
            if operation.call is Call.TUPLE
            else (f"one argument for each field ({', '.join(inputs)})")
        )
        bind(operation.target, count + 1, f"it is called with {what} and the number of partitions", step)
        return self._then(nodes.Repartition(self._node, Placing.CUSTOM, inputs, operation, **step.gives(self.schema)))

    def parallelismHint(self, count: int) -> StreamT:
        """Set the number of partitions, from the last repartitioning before this step to the first one after it.

        If there are several hints between two repartitionings, the greatest applies. Tuples that come straight from a
        spout are spread evenly over that many partitions. Meaning: ``org.apache.storm.trident.Stream.parallelismHint``,
        which counts tasks.

        Raises TopologyError if the hint would reorder changes of which a table or an output needs the last one of each
        key: partition them by the key first.
        """
        step = self._step(f"parallelismHint({count})")
        check_whole_number("count", count, error=lambda problem: step.wrong(problem))
        hint = nodes.ParallelismHint(self._node, count, **step.gives(self.schema))
        check_hint(self._register, hint)
        return self._then(hint)

    def name(self, name: str) -> StreamT:
        """Name the steps after this one, for errors, events and pictures. Their numbers start at 0 again.

        Meaning: ``org.apache.storm.trident.Stream.name``.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> numbers = TridentTopology().newStream("numbers", FixedBatchSpout("n long", [[1, 2, 3]]))
        >>> numbers.name("even").filter("n", lambda n: n % 2 == 0)
        Stream(even/0:filter(<lambda>): n bigint)
        """
        step = self._step("name")
        return self._new(self._node, name_of("a stream", name, step))

    def _grouped(self, fields: tuple[str, ...]) -> GroupedT:
        """Return this stream grouped by `fields`."""
        raise NotImplementedError

    def _placed(self, how: Placing) -> StreamT:
        step = self._step(how.value)
        return self._then(nodes.Repartition(self._node, how, **step.gives(self.schema)))
