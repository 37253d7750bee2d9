"""Server-Sent Events of a topology: its status whenever it changes, and its progress events as they happen."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from time import monotonic

import msgspec
from starlette.requests import Request

from trident.base.argument_checks import whole_number_in
from trident.server.errors import RequestError
from trident.server.event_ring import EventRing
from trident.server.guards import Guards
from trident.server.request_context import context_of
from trident.server.request_slots import RequestSlots
from trident.server.route_types import InThread
from trident.server.sse import QUIET_SECONDS, STILL_HERE, EventStream, event
from trident.server.watched_topology import Watched

_READERS = 64
"""The most readers of one server."""

_LOOK_SECONDS = 0.1
_STATUS_SECONDS = 1.0


class EventStreams:
    """The readers of one server's events."""

    def __init__(self, watched: Watched, in_thread: InThread, guards: Guards) -> None:
        self._watched, self._in_thread, self._guards = watched, in_thread, guards
        self._readers = RequestSlots(
            "readers of /events at most", _READERS, shared=False, kind="TooManyReaders"
        )  # only full tokens may read them
        self._status = b""
        self._looked = -_STATUS_SECONDS

    def open(self, request: Request) -> EventStream:
        """Return an answer that continues until its reader disconnects.

        Raises RequestError if there are too many readers.

        The header Last-Event-ID, or the query ``after``, names the last event that the reader has.
        """
        ring = self._watched.events
        known = request.headers.get("last-event-id") or request.query_params.get("after", "")
        give_back = self._readers.demand(context_of(request).holder)
        return EventStream(self._events(ring, _place(known, ring)), give_back)

    async def _events(self, ring: EventRing | None, number: int) -> AsyncIterator[bytes]:
        """Yield the status and the kept events at once, then new events."""
        shown, spoke = b"", monotonic()
        # A reader's clock may be wrong, so rates and delays are computed by this server's clock.
        yield event("hello", msgspec.json.encode({"time": datetime.now(UTC).isoformat(timespec="milliseconds")}))
        while not self._guards.ending():
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

    async def _newest_status(self) -> bytes:
        """Return the status as JSON. All readers share one look-up per second."""
        if monotonic() - self._looked >= _STATUS_SECONDS:
            self._looked = monotonic()
            # A slow status is looked up again a second later, because events must not wait for it.
            with suppress(RequestError):
                self._status = msgspec.json.encode(await self._in_thread(self._watched.status))
        return self._status


def _place(known: str, ring: EventRing | None) -> int:
    """Return the number of a reader's last event; 0 if it has none, or only events of another run."""
    run, _, number = known.rpartition("-")
    return (whole_number_in(number) or 0) if ring is not None and run == ring.runId else 0
