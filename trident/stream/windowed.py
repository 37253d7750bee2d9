"""The verbs of a window's results: late tuples, the window's state and its watermark."""

from typing import Any, Generic, TypeVar

from trident.base.spark_types import ddl
from trident.base.verb_call import Step
from trident.operations.windows import EventTimeWindow, SessionWindow
from trident.plan import nodes
from trident.stream.base import StreamBase
from trident.stream.persist import PersistentVerbs
from trident.stream.state import StateT

PlainT = TypeVar("PlainT", bound=StreamBase[Any])
"""The class of the streams of late tuples."""


class WindowedVerbs(PersistentVerbs[Any, StateT], StreamBase[Any], Generic[PlainT, StateT]):
    """Verbs that only the stream of a window's results has."""

    __slots__ = ()

    def _ordinary(self, node: nodes.Node) -> PlainT:
        """Return an ordinary stream of a node's tuples."""
        raise NotImplementedError

    _before: nodes.Node
    """The node whose tuples entered the window."""

    def late(self) -> PlainT:
        """Return the late tuples as a stream: tuples whose windows had all closed, and tuples without a time.

        Trident has no counterpart. A late tuple is emitted unchanged, in the batch in which it came. If this stream is
        used, all tuples of a batch come to the driver, because which tuples are late is known only after the commit of
        the batches before. Raises TopologyError if the windows are not by event time.

        >>> from trident import Count, TridentTopology, TumblingEventTimeWindow
        >>> from trident.spouts import FixedBatchSpout
        >>> clicks = TridentTopology().newStream("clicks", FixedBatchSpout("url string, at timestamp", []))
        >>> clicks.window(TumblingEventTimeWindow("1 hour", "at"), Count(), "count").late()
        Stream(clicks/2:late: url string, at timestamp)
        """
        step = self._register.step(self._label, "late")
        window = self._window
        if not isinstance(window.windowing.config, EventTimeWindow | SessionWindow):
            raise step.wrong(f"{window.windowing.config!r} has no late tuples: only event-time windows have them")
        return self._ordinary(late_for(self, window, self._before, step))

    def state(self) -> StateT:
        """Return the state of the windows, for `stateQuery`.

        The state's key is the window's start and the group fields. The state holds the value of a window from the
        window's first tuple until the window's result has been emitted (or `keepFor` longer). Raises TopologyError if
        the state holds waiting tuples instead of values.

        >>> from trident import Count, MapGet, TridentTopology, TumblingEventTimeWindow
        >>> from trident.spouts import FixedBatchSpout
        >>> topology = TridentTopology()
        >>> clicks = topology.newStream("clicks", FixedBatchSpout("url string, at timestamp", []))
        >>> hours = TumblingEventTimeWindow("1 hour", "at")
        >>> counts = clicks.groupBy("url").window(hours, Count(), "count", keepFor="1 day")
        >>> asked = topology.newDRPCStream("hour", "hour timestamp, url string")
        >>> asked.stateQuery(counts.state(), "hour, url", MapGet(), "count")
        Stream(hour()/1:stateQuery(MapGet): hour timestamp, url string, count bigint)
        """
        window = self._window
        if not window.windowing.panes:
            step = self._register.step(self._label, "state")
            raise step.wrong(
                f"state {window.state.name!r} holds waiting tuples, not results: store the results in another state, "
                "with persistentAggregate or partitionPersist"
            )
        return self._state_of(window)

    def watermark(self) -> StateT:
        """Return the state that holds the watermark of the windows, for `stateQuery` with SnapshotGet.

        Raises TopologyError if the windows count tuples.

        >>> from trident import Count, SnapshotGet, TridentTopology, TumblingEventTimeWindow
        >>> from trident.spouts import FixedBatchSpout
        >>> topology = TridentTopology()
        >>> clicks = topology.newStream("clicks", FixedBatchSpout("url string, at timestamp", []))
        >>> hours = clicks.window(TumblingEventTimeWindow("1 hour", "at"), Count(), "count")
        >>> topology.newDRPCStream("time").stateQuery(hours.watermark(), SnapshotGet(), "watermark")
        Stream(time()/1:stateQuery(SnapshotGet): args string, watermark timestamp)
        """
        watermark = self._window.watermark
        if watermark is None:
            step = self._register.step(self._label, "watermark")
            raise step.wrong(f"{self._window.windowing.config!r} counts tuples and has no watermark")
        return self._state_of(watermark)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._window.step}: {ddl(self.schema)})"

    @property
    def _window(self) -> nodes.Window:
        assert isinstance(self._node, nodes.Emitted)
        assert isinstance(self._node.source, nodes.Window)
        return self._node.source


def late_for(
    stream: StreamBase[Any],
    by: nodes.EmittingUpdate,
    before: nodes.Node,
    step: Step,
    side: int | None = None,
) -> nodes.LateTuples:
    """Return the step for the tuples of `before` that are late for `by`. It is created at most once."""
    late = stream._register.late.get((by, side))
    if late is None:
        late = nodes.LateTuples(before, by, side, **step.gives(before.schema))
        stream._register.add(stream._label, late)
        stream._register.late[by, side] = late
    return late
