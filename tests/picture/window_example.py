"""The topology with windows in the golden files."""

from tests.support.topologies import DeclaredSpout, DeclaredState
from trident import (
    Count,
    MapGet,
    Max,
    SnapshotGet,
    Sum,
    TridentTopology,
    TumblingCountWindow,
    TumblingEventTimeWindow,
)
from trident_spouts.executor import SpoutKind


def hours() -> TridentTopology:
    """Return a topology with windows by event time and by count, their late tuples, and a query of their states."""
    topology = TridentTopology()
    state = DeclaredState()
    clicks = topology.newStream("clicks", DeclaredSpout(SpoutKind.OPAQUE, "url string, at timestamp, n long"))
    config = TumblingEventTimeWindow("1 hour", "at", lateness="5 minutes")
    windows = clicks.groupBy("url").window(config, state, "n", Sum(), "total", keepFor="1 day", name="hours")
    windows.late().persistentAggregate(state, Count(), "late", name="late")
    windows.groupBy("url").persistentAggregate(state, "total", Max(), "best", name="best")
    threes = clicks.window(TumblingCountWindow(3), state, "n", Max(), "most", name="threes")
    threes.persistentAggregate(state, "most", Max(), "most", name="most")
    asked = topology.newDRPCStream("hour", "hour timestamp, url string")
    asked.stateQuery(windows.state(), "hour, url", MapGet(), "total").stateQuery(
        windows.watermark(), SnapshotGet(), "time"
    )
    return topology
