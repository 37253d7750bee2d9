"""The protocol by which the page asks a served topology for its plan, status, progress events and dead letters."""

from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any, Literal, Protocol

import msgspec

from trident.plan.topology_protocol import TopologyPlan
from trident.reads.stream_positions import StreamPosition
from trident.server.event_ring import EventRing

Condition = Literal["running", "inactive", "stopped", "failed", "following", "unreachable"]
"""The condition of a topology. If its driver is in this process: "running", "stopped" (ended in good order) or "failed"
(ended by an error). Otherwise "following" (commits of the driver show here) or "unreachable" (its states cannot be read
now)."""


class SourceStatus(msgspec.Struct):
    """The progress of a stream's source: `read` out of `known`, in `unit`. The difference is the `lag`."""

    stream: str
    unit: str
    read: int
    known: int
    lag: int


class PositionStatus(msgspec.Struct):
    """The position of a stream after batch `frozen`: how far each part of its source was read, for the first parts.

    `more` is the number of further parts.
    """

    stream: str
    frozen: int
    parts: dict[str, Any]
    more: int = 0


class WindowStatus(msgspec.Struct):
    """The time of a window: its watermark (ISO 8601; None before the first tuple), and the number of late rows."""

    state: str
    watermark: str | None
    numRowsDroppedByWatermark: int


class CallStatus(msgspec.Struct):
    """A call of user code that is over its limit: its name, its start (ISO 8601), and the line that it is executing."""

    call: str
    since: str | None
    at: str | None


class GroupStatus(msgspec.Struct):
    """A batch group: its last committed txid and, if the driver is in this process, the group's activity."""

    name: str
    committed: int
    committedAt: str | None = None
    """The time of the commit of batch `committed` (ISO 8601, by the driver's clock); None if it is not known."""
    isActive: bool | None = None
    """True if the group's loop is running; None if the driver is in another process."""
    inFlight: dict[str, str] = {}
    """The attempts in flight, each with its state."""
    waitingFor: str | None = None
    hanging: list[CallStatus] = []
    windows: list[WindowStatus] = []
    sources: list[SourceStatus] = []
    positions: list[PositionStatus] = []
    """The positions of the group's streams; empty if the topology was opened without its log."""


_PARTS = 100
"""The most parts of a source in a status, which readers ask for again and again."""


def positions_of(group: str, streams: Iterable[StreamPosition]) -> list[PositionStatus]:
    """Return the positions of a group's streams, in the form of a status."""
    return [
        PositionStatus(
            at.stream, at.frozen, dict(islice(at.position.items(), _PARTS)), max(0, len(at.position) - _PARTS)
        )
        for at in streams
        if at.batchGroup == group
    ]


class Fault(msgspec.Struct):
    """An error that stopped a topology: its type and message, and those of its causes, nearest cause first."""

    type: str
    message: str
    causes: list[str]
    meaning: str
    """The meaning of the error, in one sentence."""
    kept: str
    """The consequences for batches and states."""
    wayOut: list[str]
    """The steps by which the user can continue."""


class TopologyStatus(msgspec.Struct):
    """The status of a topology."""

    name: str
    condition: Condition
    groups: list[GroupStatus]
    engine: str | None = None
    runId: str | None = None
    fault: Fault | None = None
    hanging: list[CallStatus] = []
    """The DRPC requests that hang."""
    lasting: bool = True
    """False if states and positions are lost at the end of the run's process, because its log does not last."""


class Watched(Protocol):
    """The view of a topology that its page shows."""

    @property
    def plan(self) -> TopologyPlan:
        """The topology's plan."""
        ...

    @property
    def lasting(self) -> bool:
        """False if states and positions are lost at the end of the run's process, because its log does not last."""
        ...

    @property
    def engine(self) -> str | None:
        """The engine that computes the batches; None if the driver is in another process."""
        ...

    @property
    def events(self) -> EventRing | None:
        """The newest progress events; None if the driver is in another process."""
        ...

    def status(self) -> TopologyStatus:
        """Return the current status. This may query a store."""
        ...

    def replay(self, stream: str, state: str, ids: Collection[str] | None) -> int:
        """Put dead letters back into a stream, and return their number. Raises TridentError if that is not possible."""
        ...
