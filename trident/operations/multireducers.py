"""Reducers over the tuples of several streams."""

from dataclasses import dataclass
from typing import Any, Protocol

from trident.base.callsite import CallSite, site_of
from trident.base.errors import TopologyError
from trident.base.short_texts import brief
from trident.base.verb_call import Step
from trident.operations.callables import bind, check_not_class
from trident.operations.functions import TridentCollector


class MultiReducer(Protocol):
    """Sees the tuples of several streams, partition by partition (``org.apache.storm.trident.operation.MultiReducer``).

    In every partition of every batch, even an empty one, ``init`` is called once, then ``execute`` for each tuple, then
    ``complete``. Each of the three may emit tuples, with one value for each declared output field. ``init`` returns the
    partition's own state, a list or an object that the other calls change in place. Tuples of different streams come in
    any order. An optional attribute ``outputType`` (DDL, "string" or "string, long") declares the types if the output
    fields do not.

    >>> class CountEach:
    ...     def init(self, collector):
    ...         return [0, 0]
    ...
    ...     def execute(self, state, streamIndex, tuple, collector):
    ...         state[streamIndex] += 1
    ...
    ...     def complete(self, state, collector):
    ...         collector.emit(state)
    >>> from trident import TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> topology = TridentTopology()
    >>> a = topology.newStream("a", FixedBatchSpout("word string", [["ox", "cow"]]))
    >>> b = topology.newStream("b", FixedBatchSpout("n long", [[1]]))
    >>> topology.multiReduce([a, b], ["word", "n"], CountEach(), "words long, numbers long").take(1)
    [Row(words=2, numbers=1)]
    """

    def init(self, collector: TridentCollector) -> Any:
        """Return the state of a partition before its first tuple."""
        ...

    def execute(self, state: Any, streamIndex: int, tuple: Any, collector: TridentCollector) -> None:
        """Add `tuple`, a TridentTuple of the input fields of stream `streamIndex`, to the partition's state."""
        ...

    def complete(self, state: Any, collector: TridentCollector) -> None:
        """End the partition: it has no further tuples in this batch."""
        ...


class GroupedMultiReducer(Protocol):
    """Sees the tuples of several grouped streams, group by group.

    ``init`` is called at the first tuple of a group in any stream, ``complete`` at the end of the batch. `group` is a
    TridentTuple of the group fields, under the names that they have in the first stream. The group fields are not added
    to the tuples that the reducer emits. Otherwise it works like a `MultiReducer`.
    Meaning: ``org.apache.storm.trident.operation.GroupedMultiReducer``.

    >>> class Balance:
    ...     def init(self, collector, group):
    ...         return [0]
    ...
    ...     def execute(self, state, streamIndex, group, tuple, collector):
    ...         state[0] += tuple.amount if streamIndex == 0 else -tuple.amount
    ...
    ...     def complete(self, state, group, collector):
    ...         collector.emit([group.user, state[0]])
    >>> from trident import TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> topology = TridentTopology()
    >>> paid = topology.newStream("paid", FixedBatchSpout("user string, amount long", [[("Ann", 9), ("Bob", 4)]]))
    >>> spent = topology.newStream("spent", FixedBatchSpout("who string, amount long", [[("Ann", 2), ("Ann", 3)]]))
    >>> both = [paid.groupBy("user"), spent.groupBy("who")]
    >>> topology.multiReduce(both, "amount", Balance(), "user string, left long").take(2)
    [Row(user='Ann', left=4), Row(user='Bob', left=4)]
    """

    def init(self, collector: TridentCollector, group: Any) -> Any:
        """Return the state of a group before its first tuple."""
        ...

    def execute(self, state: Any, streamIndex: int, group: Any, tuple: Any, collector: TridentCollector) -> None:
        """Add `tuple`, a TridentTuple of the input fields of stream `streamIndex`, to the group's state."""
        ...

    def complete(self, state: Any, group: Any, collector: TridentCollector) -> None:
        """End the group: it has no further tuples in this batch."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class MultiReduction:
    """A MultiReducer or a GroupedMultiReducer in a plan."""

    reducer: Any
    site: CallSite


_PLAIN = {
    "init": (1, "collector"),
    "execute": (4, "state, streamIndex, tuple, collector"),
    "complete": (2, "state, collector"),
}
_GROUPED = {
    "init": (2, "collector, group"),
    "execute": (5, "state, streamIndex, group, tuple, collector"),
    "complete": (3, "state, group, collector"),
}


def read_multi_reducer(target: Any, grouped: bool, step: Step) -> MultiReduction:
    """Read `target` as a GroupedMultiReducer if `grouped` is true, otherwise as a MultiReducer."""
    calls = _GROUPED if grouped else _PLAIN
    if not all(callable(getattr(target, name, None)) for name in calls):
        methods = ", ".join(f"{name}({arguments})" for name, (_, arguments) in calls.items())
        raise step.error(TopologyError, f"{brief(target)} is not a MultiReducer: give an object with {methods}")
    check_not_class(target, step)
    kind = "grouped" if grouped else "not grouped"
    for name, (count, arguments) in calls.items():
        bind(getattr(target, name), count, f"it is called with ({arguments}), because the streams are {kind}", step)
    return MultiReduction(target, site_of(target))
