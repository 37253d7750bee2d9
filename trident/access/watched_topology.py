"""An opened topology as seen by its page. It has txids but no progress events, because the driver is elsewhere."""

from collections.abc import Callable, Collection, Mapping

from trident.base.errors import LogError, StateError, TopologyError
from trident.base.iso_times import iso_time
from trident.plan.topology_protocol import TopologyPlan
from trident.reads.commit_times import CommitTimes
from trident.reads.stream_positions import StreamPosition
from trident.server.event_ring import EventRing
from trident.server.stop_advice import fault_of
from trident.server.watched_topology import GroupStatus, TopologyStatus, positions_of


class WatchedTopology:
    """The page's view of an opened topology: the protocol `Watched` (``server/watched_topology.py``) without a run.

    `committed` returns the last committed txid of each group, `times` when the batches of a group were committed,
    `positions` how far the streams have read.
    """

    def __init__(
        self,
        name: str,
        plan: TopologyPlan,
        committed: Callable[[], Mapping[str, int]],
        times: Callable[[str], CommitTimes],
        positions: Callable[[], Collection[StreamPosition]],
    ) -> None:
        self._name, self._committed, self._times, self._positions = name, committed, times, positions
        self.plan = plan
        self.lasting = True
        self.engine: str | None = None
        self.events: EventRing | None = None

    def status(self) -> TopologyStatus:
        """Return the txids that can be read now, or the reason why none can be read."""
        try:
            committed, streams = self._committed(), self._positions()
            groups = [self._group(group, txid, streams) for group, txid in committed.items()]
        except (StateError, LogError) as error:
            return TopologyStatus(self._name, "unreachable", [], fault=fault_of(error))
        return TopologyStatus(self._name, "following", groups)

    def _group(self, group: str, txid: int, streams: Collection[StreamPosition]) -> GroupStatus:
        time = self._times(group).of(txid)
        committed_at = None if time is None else iso_time(time)
        return GroupStatus(group, txid, committed_at, positions=positions_of(group, streams))

    def replay(self, stream: str, state: str, ids: Collection[str] | None) -> int:
        """Raise TopologyError, because only a driver puts dead letters back."""
        raise TopologyError(
            "only the driver can replay dead letters: open the page of running.serve(), or call "
            "running.replayDeadLetters there"
        )
