"""Where streams meet: merge, join, multiReduce."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trident.operations.join_kinds import JoinOutFieldsMode, JoinType, JoinTypes
from trident.operations.output_fields import OutputsLike
from trident.plan.register import Register
from trident.stream.display import Shown
from trident.stream.joins import joined, merged
from trident.stream.multireduce import multi_reduced
from trident.stream.stream import GroupedStream, Stream

if TYPE_CHECKING:
    from trident.operations.multireducers import GroupedMultiReducer, MultiReducer


class Meetings(Shown):
    """Verbs of a topology that make one stream of several."""

    _register: Register

    def merge(
        self, *streams: Stream, outputFields: OutputsLike | None = None, sourceField: str | None = None
    ) -> Stream:
        """The tuples of all these streams, WITHIN ONE BATCH: their spouts share txids from here on.

        By position: the types must be the same, the names are the first stream's unless others are given. No tuple is
        dropped for being there twice. `sourceField` names one more field, which holds the name of the stream that a
        tuple comes from. Meaning: ``org.apache.storm.trident.TridentTopology.merge``.

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
        """All combinations of tuples with equal keys, one of each stream, WITHIN ONE BATCH.

        Tuples that arrive in different batches never meet; a state that is asked with `stateQuery` remembers.
        Null keys meet, as in Trident and unlike SQL.
        Meaning: ``org.apache.storm.trident.TridentTopology.join``.

        Parameters
        ----------
        streams : list of Stream
            Two or more.
        keys : list of fields, one for each stream, or one text for all
            ``["id", "user_id"]``, ``["a, b", ["c", "d"]]``, ``"id"``. They pair up by position and need equal types.
        outputFields : str or list of str, optional
            Names for the keys, then every stream's other fields. Needed where two streams share a name.
        joinType : str or list of JoinType
            "inner" (default); for two streams "left" (the second may be missing), "right" and "full"; for any number a
            list that says of each stream whether it must be there (`JoinType.INNER`) or may be missing
            (`JoinType.OUTER`): a key of which an INNER stream has no tuple leaves nothing, and an OUTER stream without
            tuples of the key gives nulls. The key is then that of a stream that is there.
        mode : str or JoinOutFieldsMode
            "compact" (default): the keys once. "preserve": all fields of every stream, in their order, all of them null
            where the stream is missing.

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
        """What a reducer emits that sees the tuples of all these streams, WITHIN ONE BATCH.

        Plain streams: partition by partition, once for every partition of every batch, also an empty one. Tuples stay
        in their partitions; where no `parallelismHint` says how many there are, the whole batch is one. Grouped
        streams: group by group, each stream by its own group fields, which pair up by position.
        Meaning: ``org.apache.storm.trident.TridentTopology.multiReduce``.

        Parameters
        ----------
        streams : list of Stream, or list of GroupedStream
            Two or more.
        inputFields : list of fields, one for each stream, or one text for all; None
            What the reducer sees of each stream; None means all fields.
        reducer : MultiReducer or GroupedMultiReducer
            The one for plain, the other for grouped streams.
        outputFields : str, list of str or StructType
            What it emits, with types: ``"user string, total long"``. Group fields are not put before.

        Examples
        --------
        See `MultiReducer` and `GroupedMultiReducer`.
        """
        return multi_reduced(self._register, streams, inputFields, reducer, outputFields)


def _flat(streams: Sequence[Any]) -> list[Stream]:
    """The streams, also where they came as one list."""
    if len(streams) == 1 and isinstance(streams[0], list | tuple):
        return list(streams[0])
    return list(streams)
