"""The verbs of a topology that combine several streams into one: merge, join, multiReduce."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trident.operations.join_kinds import JoinOutFieldsMode, JoinType, JoinTypes
from trident.operations.output_fields import OutputsLike
from trident.plan.step_register import Register
from trident.stream.display import Drawable
from trident.stream.joins import joined, merged
from trident.stream.multireduce import multi_reduced
from trident.stream.stream import GroupedStream, Stream

if TYPE_CHECKING:
    from trident.operations.multireducers import GroupedMultiReducer, MultiReducer


class TopologyJoinVerbs(Drawable):
    """Verbs of a topology that combine several streams into one."""

    _register: Register

    def merge(
        self, *streams: Stream, outputFields: OutputsLike | None = None, sourceField: str | None = None
    ) -> Stream:
        """Merge the tuples of all these streams, WITHIN ONE BATCH: from then on their spouts share txids.

        Fields are matched by position and must have the same types. They get the names of the first stream's fields, or
        those in `outputFields`. Without `outputFields`, a field whose name the first stream has at another position is
        refused. Equal tuples are all kept. `sourceField` names one more field, which holds the name of the stream that
        a tuple comes from. Meaning: ``org.apache.storm.trident.TridentTopology.merge``.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> topology = TridentTopology()
        >>> a = topology.newStream("a", FixedBatchSpout("word string", [[("dog",)]]))
        >>> b = topology.newStream("b", FixedBatchSpout("text string", [[("cat",)]]))
        >>> topology.merge(a, b)
        Stream(a-b/0:merge: word string)
        >>> topology.merge(a, b, sourceField="source").take(2)
        [Row(word='dog', source='a'), Row(word='cat', source='b')]
        """
        return merged(self._register, _flat(streams), outputFields, sourceField)

    def join(
        self,
        streams: Sequence[Stream],
        keys: object,
        outputFields: OutputsLike | None = None,
        joinType: JoinTypes = JoinType.INNER,
        mode: str = JoinOutFieldsMode.COMPACT,
    ) -> Stream:
        """Combine tuples with equal keys, one from each stream, in every combination, WITHIN ONE BATCH.

        Tuples of different batches are never joined: see `Stream.joinTable` and `Stream.intervalJoin`. Null keys
        are equal, as in Trident and unlike SQL.
        Meaning: ``org.apache.storm.trident.TridentTopology.join``.

        Parameters
        ----------
        streams : list of Stream
            Two or more.
        keys : list of fields, one for each stream, or one text for all
            ``["id", "user_id"]``, ``["a, b", ["c", "d"]]``, ``"id"``. Key fields are matched by position and need
            equal types.
        outputFields : str or list of str, optional
            Names for the keys, then for every stream's other fields. Required if two streams have a field of the same
            name.
        joinType : str or list of JoinType
            "inner" (default); for two streams "left" (the second may lack the key), "right" and "full"; for any number
            a list with `JoinType.INNER` or `JoinType.OUTER` for each stream. If an INNER stream has no tuple with a
            key, there is no result for this key. If an OUTER stream has none, its fields are null, and the key is taken
            from another stream.
        mode : str or JoinOutFieldsMode
            "compact" (default): a result has the keys once. "preserve": a result has all fields of every stream in
            their order, and all fields of a stream are null if the stream lacks the key.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> topology = TridentTopology()
        >>> a = topology.newStream("a", FixedBatchSpout("id long, x string", [[(1, "x")]]))
        >>> b = topology.newStream("b", FixedBatchSpout("key long, x string", [[(1, "y")]]))
        >>> topology.join([a, b], ["id", "key"], "id, ax, bx")
        Stream(a-b/0:join(id): id bigint, ax string, bx string)
        >>> c = topology.newStream("c", FixedBatchSpout("id long, z string", [[(1, "z"), (2, "zz")]]))
        >>> topology.join([a, b, c], ["id", "key", "id"], "id, ax, bx, z", ["outer", "outer", "inner"]).take(2)
        [Row(id=1, ax='x', bx='y', z='z'), Row(id=2, ax=None, bx=None, z='zz')]
        """
        return joined(self._register, streams, keys, outputFields, joinType, mode)

    def multiReduce(
        self,
        streams: Sequence[Stream] | Sequence[GroupedStream],
        inputFields: object,
        reducer: "MultiReducer | GroupedMultiReducer",
        outputFields: OutputsLike,
    ) -> Stream:
        """Reduce the tuples of all these streams with one reducer, WITHIN ONE BATCH.

        For plain streams the reducer runs once for every partition of every batch, empty ones included. Tuples stay in
        their partitions; without a `parallelismHint` the whole batch is one partition. For grouped streams the reducer
        runs once for every group. Each stream has separate group fields, which are matched by position.
        Meaning: ``org.apache.storm.trident.TridentTopology.multiReduce``.

        Parameters
        ----------
        streams : list of Stream, or list of GroupedStream
            Two or more.
        inputFields : list of fields, one for each stream, or one text for all; None
            The fields of each stream that the reducer sees. None means all fields.
        reducer : MultiReducer or GroupedMultiReducer
            A MultiReducer for plain streams, a GroupedMultiReducer for grouped ones.
        outputFields : str, list of str or StructType
            The fields that the reducer emits, with types: ``"user string, total long"``. Group fields are not
            prepended.

        Examples
        --------
        See `MultiReducer` and `GroupedMultiReducer`.
        """
        return multi_reduced(self._register, streams, inputFields, reducer, outputFields)


def _flat(streams: Sequence[Any]) -> list[Stream]:
    """Return the streams of a call as a list. `streams` are the streams themselves, or one list of them."""
    if len(streams) == 1 and isinstance(streams[0], list | tuple):
        return list(streams[0])
    return list(streams)
