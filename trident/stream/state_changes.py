"""The changes of a state with values before and after each batch, and the join of two tables."""

from typing import Any, Generic, cast

from trident.base.names import FieldsLike
from trident.operations.output_fields import OutputsLike
from trident.stream.base import StreamT
from trident.stream.state import StateBase
from trident.stream.state_images import changes_of
from trident.stream.table_joins import joined


class StateChangesVerbs(Generic[StreamT]):
    """Verbs of a state that return changes."""

    __slots__ = ()

    def changes(self) -> StreamT:
        """Return a stream of each batch's changes: the values before the batch and after it.

        For each key that the batch changed: ``insert`` if the key is new, ``delete`` if it left the state, otherwise
        ``update_preimage`` with the value before, and ``update_postimage`` with the value after. A key whose value
        stays the same gives nothing. Values are as queries see them: the mean, for `Average`. A later aggregate over
        the changes is exact; one over `newValuesStream` would count a key again at each change.

        >>> from trident import Count, TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.state import MemoryMapState
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["dog"]]))
        >>> counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        >>> counts.changes().groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "words", name="having")
        TridentState('having': n bigint, words struct<tuples:bigint>; opaque)
        """
        state = cast("StateBase[Any]", self)
        stream: StreamT = state._of_changes(changes_of(state))
        return stream

    def join(
        self,
        other: StateBase[Any],
        keys: FieldsLike | None = None,
        joinType: str = "inner",
        outputFields: OutputsLike | None = None,
    ) -> StreamT:
        """Return the changes of the join of two tables: the rows that each batch adds and removes.

        Both states are from `persistentAggregate` or `toTable`. A change on either side changes the joined rows,
        exactly once: ``toTable`` of the result, by the key of this table, holds the current join of both tables.
        `joinTable` instead joins each tuple with the table as it was when the tuple came. Meaning:
        ``org.apache.kafka.streams.kstream.KTable.join`` (and ``leftJoin``), by key and by foreign key, but with both
        images of each change.

        Parameters
        ----------
        other : TridentState
            The table whose values are appended to those of this one.
        keys : str or list of str, optional
            The fields of this table that hold the key of a row in `other`, in the order of the key fields of `other`.
            A row with a null in one of these fields has no partner. An index of these fields is kept in a separate
            state, ``<this table>.by.<fields>``. Omitted: rows with equal keys are joined.
        joinType : str
            "inner" (default): rows that have a partner. "left": all rows of this table; the fields of `other` are null
            if a row has no partner.
        outputFields : str or list of str, optional
            Names for the fields of `other`. Required if this table has a field of the same name.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> topology = TridentTopology()
        >>> users = topology.newStream("users", FixedBatchSpout("id long, name string", [])).toTable("id")
        >>> cities = topology.newStream("cities", FixedBatchSpout("id long, city string", [])).toTable("id")
        >>> users.join(cities, joinType="left")
        ChangeStream(users/2:join: id bigint, name string, city string, _change_type string)
        >>> orders = topology.newStream("orders", FixedBatchSpout("id long, user long, price long", [])).toTable("id")
        >>> orders.join(users, "user")
        ChangeStream(orders/11:join(user): id bigint, user bigint, price bigint, name string, _change_type string)
        """
        state = cast("StateBase[Any]", self)
        stream: StreamT = state._of_changes(joined(state, other, keys, joinType, outputFields))
        return stream
