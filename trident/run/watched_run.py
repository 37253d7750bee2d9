"""A running topology as its page shows it: the status, the newest progress events, and the replay of dead letters."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from pyspark.sql import Row

from trident.base.iso_times import iso_time
from trident.display.display import Condition as RunCondition
from trident.plan.topology_protocol import TopologyPlan
from trident.reads.commit_times import CommitTimes
from trident.reads.stream_positions import StreamPosition
from trident.server.event_ring import EventRing
from trident.server.stop_advice import fault_of
from trident.server.watched_topology import (
    CallStatus,
    Condition,
    GroupStatus,
    SourceStatus,
    TopologyStatus,
    WindowStatus,
    positions_of,
)
from trident.telemetry.event_time import DROPPED
from trident.telemetry.progress import Progress
from trident_spouts.executor import ReadSoFar

_CONDITIONS: Mapping[RunCondition, Condition] = {
    "ACTIVE": "running",
    "INACTIVE": "inactive",
    "REBALANCING": "running",
    "STOPPED": "stopped",
    "FAILED": "failed",
}


class Run(Protocol):
    """The part of a running topology that its page uses."""

    name: str
    runId: str
    progress: Progress

    @property
    def engine(self) -> str: ...

    @property
    def status(self) -> dict[str, Any]: ...

    @property
    def condition(self) -> RunCondition: ...

    @property
    def readSoFar(self) -> Mapping[str, ReadSoFar]: ...

    @property
    def positions(self) -> Mapping[str, StreamPosition]: ...

    def exception(self) -> BaseException | None: ...

    def commitTimes(self, group: str) -> CommitTimes: ...

    def group_of_stream(self, stream: str) -> str: ...

    def replayDeadLetters(self, stream: str, where: Callable[[Row], bool] | None = None, *, state: str) -> int: ...


class WatchedRun:
    """The `Watched` of a running topology.

    It keeps the newest events: the events that the run still has, and all later events.
    """

    def __init__(self, run: Run, plan: TopologyPlan, lasting: bool) -> None:
        self._run = run
        self.plan, self.lasting = plan, lasting
        self.engine: str | None = run.engine
        self.events: EventRing | None = EventRing(run.runId)
        run.progress.listen(self.events.add, fromRecent=True)

    def status(self) -> TopologyStatus:
        """Return the present status of the run, or the reason why it has stopped."""
        told, error = self._run.status, self._run.exception()
        condition = "failed" if error is not None else _CONDITIONS[self._run.condition]
        sources: dict[str, list[SourceStatus]] = {}
        for stream, read in self._run.readSoFar.items():
            group = self._run.group_of_stream(stream)
            sources.setdefault(group, []).append(SourceStatus(stream, read.unit, read.done, read.total, read.lag))
        return TopologyStatus(
            self._run.name,
            condition,
            [self._group(name, group, sources.get(name, [])) for name, group in told["groups"].items()],
            self._run.engine,
            self._run.runId,
            None if error is None else fault_of(error, self.lasting),
            _calls(told["hanging"]),
            self.lasting,
        )

    def _group(self, name: str, told: Mapping[str, Any], sources: list[SourceStatus]) -> GroupStatus:
        committed = self._run.commitTimes(name).at_hand(told["committed"])
        return GroupStatus(
            name,
            told["committed"],
            None if committed is None else iso_time(committed),
            told["isActive"],
            told["inFlight"],
            told["waitingFor"],
            _calls(told["hanging"]),
            [
                WindowStatus(state, window["watermark"], window.get(DROPPED, 0))
                for state, window in told.get("windows", {}).items()
            ],
            sources,
            positions_of(name, self._run.positions.values()),
        )

    def replay(self, stream: str, state: str, ids: Collection[str] | None) -> int:
        """Put the dead letters with these ids back into a stream. Return how many were put back."""
        wanted = None if ids is None else frozenset(ids)
        return self._run.replayDeadLetters(
            stream, None if wanted is None else lambda letter: letter.id in wanted, state=state
        )


def _calls(hanging: Collection[Mapping[str, Any]]) -> list[CallStatus]:
    return [CallStatus(call["call"], call["since"], call["at"]) for call in hanging]
