"""Where tuples go: partitionBy, groupBy."""

from typing import TYPE_CHECKING, cast

from trident.base.names import FieldsLike
from trident.plan import nodes, rules
from trident.stream.base import StreamBase

if TYPE_CHECKING:
    from trident.stream.grouped import GroupedStream
    from trident.stream.stream import Stream


class RepartitionVerbs(StreamBase):
    """Verbs that say which tuples meet."""

    __slots__ = ()

    def partitionBy(self, *fields: FieldsLike) -> "Stream":
        """Bring tuples with equal values of these fields into one partition.

        Meaning: ``org.apache.storm.trident.Stream.partitionBy``.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.partitionBy("word")
        Stream(words/1:partitionBy: word string, n bigint)
        """
        step = self._step("partitionBy")
        names = self._named(fields, step)
        rules.chosen(self.schema, names, step)
        return self._then(nodes.PartitionBy(self._node, names, step=step.label, site=step.called, schema=self.schema))

    def groupBy(self, *fields: FieldsLike) -> "GroupedStream":
        """Take the tuples with equal values of these fields as one group for what comes next. Nulls are one group.

        Meaning: ``org.apache.storm.trident.Stream.groupBy``.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string, n long", [[("dog", 2)]]))
        >>> words.groupBy("word")
        GroupedStream(words/0:newStream(FixedBatchSpout): word string, n bigint; by word)
        """
        from trident.stream.grouped import GroupedStream

        step = self._step("groupBy")
        names = self._named(fields, step)
        rules.group_keys(rules.chosen(self.schema, names, step), step)
        return GroupedStream(cast("Stream", self), names)
