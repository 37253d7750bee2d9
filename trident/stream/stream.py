"""The classes of streams and states, assembled from families of verbs.

The verbs of each of the four classes return objects of the others, so only this module knows all four. A family of
verbs has a separate file and names the classes by type parameters: ``StreamT`` in that file is `Stream`.
"""

from trident.plan import nodes
from trident.plan.step_register import Register
from trident.stream.aggregate import AggregateVerbs
from trident.stream.aggregator_chain import ChainVerbs
from trident.stream.apply_assembly import AssemblyVerbs
from trident.stream.changes import AsChangesVerbs, ChangeVerbs, GroupedChangeVerbs
from trident.stream.dead_letters import DeadLetterVerbs
from trident.stream.delta_output import DeltaOutputVerbs
from trident.stream.duplicates import DuplicateVerbs
from trident.stream.extremes import ExtremeVerbs
from trident.stream.grouped import GroupedVerbs
from trident.stream.interval_joins import IntervalJoinVerbs
from trident.stream.jdbc_output import JdbcOutputVerbs
from trident.stream.joins import JoinVerbs
from trident.stream.kafka_changes import KafkaChangeVerbs
from trident.stream.kafka_output import KafkaOutputVerbs
from trident.stream.map import MapVerbs
from trident.stream.metrics import MetricVerbs
from trident.stream.outputs import OutputVerbs
from trident.stream.persist import PersistentVerbs, PersistVerbs
from trident.stream.preview import PreviewVerbs
from trident.stream.query import QueryVerbs
from trident.stream.repartition import RepartitionVerbs
from trident.stream.split import SplitVerbs
from trident.stream.state import StateBase
from trident.stream.state_changes import StateChangesVerbs
from trident.stream.stateful import StatefulVerbs
from trident.stream.stateful_each import StatefulEachVerbs
from trident.stream.tables import TableVerbs
from trident.stream.time_joins import JoinedVerbs
from trident.stream.upserts import AsUpsertsVerbs, UpsertVerbs
from trident.stream.window import WindowVerbs
from trident.stream.window_joins import WindowJoinVerbs
from trident.stream.windowed import WindowedVerbs


class Stream(
    MapVerbs["Stream"],
    RepartitionVerbs["Stream", "GroupedStream"],
    AggregateVerbs["Stream"],
    ChainVerbs["Stream"],
    ExtremeVerbs["Stream"],
    PersistVerbs["Stream", "TridentState"],
    QueryVerbs["Stream"],
    JoinVerbs["Stream"],
    SplitVerbs["Stream"],
    OutputVerbs["Stream"],
    KafkaOutputVerbs["Stream"],
    JdbcOutputVerbs["Stream"],
    DeltaOutputVerbs["Stream"],
    MetricVerbs["Stream"],
    DeadLetterVerbs["Stream"],
    PreviewVerbs["Stream"],
    WindowVerbs["WindowedStream", "EarlyStream"],
    DuplicateVerbs["Stream", "StatefulStream"],
    StatefulEachVerbs["Stream", "StatefulStream"],
    TableVerbs["Stream", "TridentState"],
    IntervalJoinVerbs["Stream", "JoinedStream"],
    WindowJoinVerbs["Stream", "JoinedStream"],
    AssemblyVerbs["Stream"],
    AsChangesVerbs["Stream", "ChangeStream"],
    AsUpsertsVerbs["Stream", "UpsertStream"],
):
    """A description of the steps of every batch, begun by `TridentTopology.newStream`.

    It is immutable: each verb returns a new stream, and a stream may be used several times. Nothing runs before
    `TridentTopology.start`. Meaning: ``org.apache.storm.trident.Stream``.
    """

    __slots__ = ()

    def _new(self, node: nodes.Node, label: str, register: Register | None = None) -> "Stream":
        return Stream(self._register if register is None else register, node, label)

    def _grouped(self, fields: tuple[str, ...]) -> "GroupedStream":
        return GroupedStream(self, fields)

    def _by_group(self) -> "tuple[Stream, tuple[str, ...]]":
        return self, ()

    def _results(self, node: nodes.Emitted) -> "WindowedStream":
        return WindowedStream(self._register, node, self._label, self._node)

    def _early_results(self, node: nodes.Emitted) -> "EarlyStream":
        return EarlyStream(self._register, node, self._label, self._node)

    def _through(self, node: nodes.Emitted) -> "StatefulStream":
        return StatefulStream(self._register, node, self._label)

    def _paired(self, node: nodes.Emitted, label: str) -> "JoinedStream":
        return JoinedStream(self._register, node, label)

    def _state_of(self, node: nodes.StateWriter) -> "TridentState":
        return TridentState(self._register, node, self._label)

    def _of_changes(self, node: nodes.Node) -> "ChangeStream":
        return ChangeStream(self._register, node, self._label)

    def _of_upserts(self, node: nodes.Node) -> "UpsertStream":
        return UpsertStream(self._register, node, self._label)


class GroupedStream(GroupedVerbs[Stream, "TridentState", "WindowedStream", "EarlyStream", "StatefulStream"]):
    """A grouped stream, returned by `Stream.groupBy`. The next verb works on each group separately.

    Meaning: ``org.apache.storm.trident.fluent.GroupedStream``.
    """

    __slots__ = ()

    def _results(self, node: nodes.Emitted) -> "WindowedStream":
        return self.toStream()._results(node)

    def _early_results(self, node: nodes.Emitted) -> "EarlyStream":
        return self.toStream()._early_results(node)

    def _through(self, node: nodes.Emitted) -> "StatefulStream":
        return self.toStream()._through(node)

    def _state_of(self, node: nodes.StateWriter) -> "TridentState":
        return self.toStream()._state_of(node)


class WindowedStream(WindowedVerbs[Stream, "TridentState"], Stream):
    """The stream of a window's results, returned by `window`. It also has `late`, `state` and `watermark`."""

    __slots__ = ("_before",)

    def __init__(self, register: Register, node: nodes.Emitted, label: str, before: nodes.Node) -> None:
        super().__init__(register, node, label)
        self._before = before

    def _ordinary(self, node: nodes.Node) -> Stream:
        return self._new(node, self._label)


class StatefulStream(StatefulVerbs[Stream, "TridentState"], Stream):
    """The stream that `dropDuplicates` and `statefulEach` return. It also has `late`, `state` and `watermark`."""

    __slots__ = ()


class JoinedStream(JoinedVerbs[Stream], Stream):
    """The stream of the pairs of `intervalJoin` or `windowJoin`. It also has `late`."""

    __slots__ = ()


class ChangeStream(
    ChangeVerbs["ChangeStream", "TridentState", Stream],
    RepartitionVerbs["ChangeStream", "GroupedChanges"],
    PersistentVerbs["ChangeStream", "TridentState"],
    OutputVerbs["ChangeStream"],
    KafkaOutputVerbs["ChangeStream"],
    KafkaChangeVerbs["ChangeStream"],
    JdbcOutputVerbs["ChangeStream"],
    DeltaOutputVerbs["ChangeStream"],
    MetricVerbs["ChangeStream"],
    SplitVerbs["ChangeStream"],
    PreviewVerbs["ChangeStream"],
):
    """A stream of changes: each tuple adds or removes a row. `asChanges` and `changes` of a state return it.

    Its last field is ``_change_type``. Verbs that work row by row keep it; the others are refused.
    """

    __slots__ = ()

    _plain_type = Stream

    def _new(self, node: nodes.Node, label: str, register: Register | None = None) -> "ChangeStream":
        return ChangeStream(self._register if register is None else register, node, label)

    def _grouped(self, fields: tuple[str, ...]) -> "GroupedChanges":
        return GroupedChanges(self, fields)

    def _by_group(self) -> "tuple[ChangeStream, tuple[str, ...]]":
        return self, ()

    def _plain(self) -> Stream:
        return Stream(self._register, self._node, self._label)

    def _state_of(self, node: nodes.StateWriter) -> "TridentState":
        return TridentState(self._register, node, self._label)


class EarlyStream(WindowedVerbs[Stream, "TridentState"], ChangeStream):
    """The changes of window results, returned by `window` with ``emit="changes"``.

    It also has `late`, `state` and `watermark`.
    """

    __slots__ = ("_before",)

    def __init__(self, register: Register, node: nodes.Emitted, label: str, before: nodes.Node) -> None:
        super().__init__(register, node, label)
        self._before = before

    def _ordinary(self, node: nodes.Node) -> Stream:
        return Stream(self._register, node, self._label)


class UpsertStream(UpsertVerbs["UpsertStream", "TridentState", Stream], PreviewVerbs["UpsertStream"]):
    """A stream of upserts: each tuple is the latest row of its key, or deletes the key. `asUpserts` returns it.

    Its last field is ``_change_type``. A replaced or deleted row comes without its values. `toTable` keeps the rows;
    `changes` of that table has the values, too.
    """

    __slots__ = ()

    _plain_type = Stream

    def _new(self, node: nodes.Node, label: str, register: Register | None = None) -> "UpsertStream":
        return UpsertStream(self._register if register is None else register, node, label)

    def _plain(self) -> Stream:
        return Stream(self._register, self._node, self._label)

    def _state_of(self, node: nodes.StateWriter) -> "TridentState":
        return TridentState(self._register, node, self._label)


class GroupedChanges(GroupedChangeVerbs[ChangeStream, "TridentState"]):
    """A grouped stream of changes, returned by `groupBy` of a stream of changes."""

    __slots__ = ()

    def _state_of(self, node: nodes.StateWriter) -> "TridentState":
        return self.toStream()._state_of(node)


class TridentState(StateChangesVerbs[ChangeStream], StateBase[Stream]):
    """A state that a topology updates or reads. `stateQuery` reads it; `newValuesStream` is the stream of its changes.

    The topology's name and the state's name identify a state. Meaning: ``org.apache.storm.trident.TridentState``.
    """

    __slots__ = ()

    _stream_type = Stream

    def _of_changes(self, node: nodes.Node) -> ChangeStream:
        return ChangeStream(self._register, node, self._label)
