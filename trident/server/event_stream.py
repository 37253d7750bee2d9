"""Server-Sent Events of a topology: its status whenever it changes, and its progress events as they happen."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime
from time import monotonic

import msgspec
from starlette.requests import Request
from starlette.responses import StreamingResponse

from trident.base.checks import whole_number_in
from trident.server.errors import RequestError
from trident.server.event_ring import EventRing
from trident.server.route_types import InThread
from trident.server.sse import HEADERS, QUIET_SECONDS, STILL_HERE, EventStream, event
from trident.server.watched import Watched

_READERS = 64
"""The most readers of one server."""

_LOOK_SECONDS = 0.1
_STATUS_SECONDS = 1.0


class EventStreams:
    """The readers of one server's events."""

    def __init__(self, watched: Watched, in_thread: InThread) -> None:
        self._watched, self._in_thread = watched, in_thread
        self._readers = 0
        self._status = b""
        self._looked = -_STATUS_SECONDS

    def open(self, request: Request) -> StreamingResponse:
        """Return an answer that continues until its reader disconnects.

        Raises RequestError if there are too many readers.

        The header Last-Event-ID, or the query ``after``, names the last event that the reader has.
        """
        if self._readers >= _READERS:
            raise RequestError(503, "TooManyReaders", f"{_READERS} readers have /events open", {"Retry-After": "5"})
        ring = self._watched.events
        known = request.headers.get("last-event-id") or request.query_params.get("after", "")
        ending = getattr(request.app.state, "ending", lambda: False)
        return EventStream(self._events(ring, _place(known, ring), ending), 200, HEADERS, "text/event-stream")

    async def _events(self, ring: EventRing | None, number: int, ending: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Yield the status and the kept events at once, then new ones."""
        self._readers += 1
        try:
            shown, spoke = b"", monotonic()
            # A reader's clock may be wrong: rates and delays are told by this server's.
            yield event("hello", msgspec.json.encode({"time": datetime.now(UTC).isoformat(timespec="milliseconds")}))
            while not ending():
                pieces = []
                status = await self._newest_status()
                if status != shown:
                    shown = status
                    pieces.append(event("status", status))
                if ring is not None:
                    missed, events = ring.after(number)
                    if missed:
                        pieces.append(event("missed", msgspec.json.encode({"events": missed})))
                    pieces += [event("progress", each.json, f"{ring.runId}-{each.number}") for each in events]
                    number = events[-1].number if events else number
                if not pieces and monotonic() - spoke > QUIET_SECONDS:
                    pieces.append(STILL_HERE)
                if pieces:
                    spoke = monotonic()
                    yield b"".join(pieces)
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._readers -= 1

    async def _newest_status(self) -> bytes:
        """Return the status as JSON. It is looked up once a second for all readers together."""
        if monotonic() - self._looked >= _STATUS_SECONDS:
            self._looked = monotonic()
            # A status that does not come in time is looked up again a second later: the events must not wait for it.
            with suppress(RequestError):
                self._status = msgspec.json.encode(await self._in_thread(self._watched.status))
        return self._status


def _place(known: str, ring: EventRing | None) -> int:
    """Return the number of the last event that a reader has; 0 if it has no event, or only events of another run."""
    run, _, number = known.rpartition("-")
    return (whole_number_in(number) or 0) if ring is not None and run == ring.runId else 0
