"""The built-in query functions: MapGet, SnapshotGet, TupleCollectionGet, RangeGet, IndexGet."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from trident.base.argument_checks import check_whole_number
from trident.base.names import FieldsLike, brief, field_names
from trident.operations.functions import TridentCollector


@dataclass(frozen=True)
class MapGet:
    """A query that returns the value of each tuple's key in a state, or null if the state does not have the key.

    Meaning: ``org.apache.storm.trident.operation.builtin.MapGet``, and ``SnapshotGet`` over a state without key fields.
    """

    def batchRetrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        return list(state.multiGet(args))

    def execute(self, tuple: Any, result: Any, collector: TridentCollector) -> None:
        collector.emit([result])


@dataclass(frozen=True)
class EntryGet(MapGet):
    """The MapGet for keys that an index found. It always reads as of the index's batch."""


@dataclass(frozen=True)
class SnapshotGet:
    """A query that returns the one value of a state without key fields, or null if the state has no value yet.

    Meaning: ``org.apache.storm.trident.operation.builtin.SnapshotGet``.
    """

    def batchRetrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        return [state.get()] * len(args)

    def execute(self, tuple: Any, result: Any, collector: TridentCollector) -> None:
        collector.emit([result])


@dataclass(frozen=True)
class TupleCollectionGet:
    """A query that emits every tuple once for each entry of a state, with the entry's key fields and value.

    Meaning: ``org.apache.storm.trident.operation.builtin.TupleCollectionGet``.
    """

    def batchRetrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        return [state.getTuples() for _ in args]

    def execute(self, tuple: Any, result: Any, collector: TridentCollector) -> None:
        for entry in result:
            collector.emit(entry)


Inclusive = Literal["left", "right", "both", "neither"]
"""The ends that a range includes, in pandas' words: ``left`` is the low one, ``right`` is the high one."""


def ends_of(inclusive: str) -> tuple[bool, bool]:
    """Return whether a range includes its low and its high end.

    >>> ends_of("left")
    (True, False)
    """
    return inclusive in ("left", "both"), inclusive in ("right", "both")


@dataclass(frozen=True)
class RangeGet:
    """A query that emits every tuple once for each entry of a range of a state's keys, in the order of the keys.

    The input fields are the values of the first key fields, which must be equal, then the low and the high end of the
    next key field; a null end is no end. So ``"low, high"`` is a range of the first key field, and
    ``"city, low, high"`` a range of the second one within a city. The output fields are the key fields, then the value.

    Parameters
    ----------
    inclusive : "left", "right", "both" or "neither"
        The ends that belong to the range.
    limit : int, optional
        The most entries for each tuple: those with the first keys.

    Raises
    ------
    ValueError
        `inclusive` or `limit` is invalid.

    Examples
    --------
    >>> from trident import Count, RangeGet, TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.state import MemoryMapState
    >>> from trident.testing.local import start_local
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", FixedBatchSpout("word string", [["cow", "cat", "ant", "dog"]]))
    >>> counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    >>> asked = topology.newDRPCStream("between", "low string, high string")
    >>> _ = asked.stateQuery(counts, "low, high", RangeGet(), "word, count").project("word, count")
    >>> with start_local(topology, name="ranges") as running:
    ...     running.processAllAvailable()
    ...     running.drpc.execute("between", "b", "d")
    [Row(word='cat', count=1), Row(word='cow', count=1)]
    """

    inclusive: Inclusive = "left"
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.inclusive not in get_args(Inclusive):
            expected = ", ".join(map(repr, get_args(Inclusive)))
            raise ValueError(f"RangeGet(inclusive={brief(self.inclusive)}): expected {expected}")
        if self.limit is not None:
            check_whole_number("RangeGet: limit", self.limit, least=1, error=ValueError)

    def batchRetrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        return list(state.multiRange([self._range(tuple(values)) for values in args], limit=self.limit))

    def execute(self, tuple: Any, result: Any, collector: TridentCollector) -> None:
        for entry in result:
            collector.emit(entry)

    def _range(self, values: tuple[Any, ...]) -> tuple[Any, Any, Inclusive]:
        """Return the range of a tuple: its low end, its high end, and the ends that it includes."""
        *equal, low, high = values
        first, last = ends_of(self.inclusive)
        # Without an end, the range is bounded by the equal fields, which it includes.
        first, last = first or low is None, last or high is None
        inclusive: Inclusive = "both" if first and last else "left" if first else "right" if last else "neither"
        return self._end(equal, low), self._end(equal, high), inclusive

    def _end(self, equal: list[Any], end: Any) -> tuple[Any, ...] | None:
        return (tuple([*equal] if end is None else [*equal, end])) or None


@dataclass(frozen=True)
class IndexGet:
    """A query that emits every tuple once for each entry of a state whose indexed fields have given values.

    The state's verb names the fields: ``toTable("id", index="city")``. The input fields are the values to look for, in
    the order of the index's fields. The output fields are the key fields of the state, then the value, as for MapGet:
    names of its fields, or one other name for the whole. Entries come in no order. It consists of two queries, of the
    index and of the state, both as of the previous batch, even after the update of the state, because the index is
    updated later.

    Parameters
    ----------
    fields : str or list of str
        The fields of the index.

    Examples
    --------
    >>> from trident import IndexGet, TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.testing.local import start_local
    >>> topology = TridentTopology()
    >>> rows = FixedBatchSpout("id long, name string, city string", [[(1, "Ann", "Rome"), (2, "Bob", "Oslo")]])
    >>> users = topology.newStream("users", rows).toTable("id", name="users", index="city")
    >>> asked = topology.newDRPCStream("living", "place string")
    >>> _ = asked.stateQuery(users, "place", IndexGet("city"), "id, name").project("id, name")
    >>> with start_local(topology, name="index") as running:
    ...     running.processAllAvailable()
    ...     running.drpc.execute("living", "Rome")
    [Row(id=1, name='Ann')]
    """

    fields: FieldsLike

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return field_names(self.fields)

    def batchRetrieve(self, state: Any, args: Sequence[Any]) -> Sequence[Any]:
        raise TypeError("IndexGet is an argument of stateQuery, which replaces it by two queries; it cannot be called")

    def execute(self, tuple: Any, result: Any, collector: TridentCollector) -> None:
        raise TypeError("IndexGet is an argument of stateQuery, which replaces it by two queries; it cannot be called")


def answers_repeat(function: object) -> bool:
    """Return whether a query function always gives the same answer to the same tuple. A user's may not."""
    return type(function) in (MapGet, EntryGet, SnapshotGet, TupleCollectionGet, RangeGet)
