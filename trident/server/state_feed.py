"""``GET /state/<name>/changes``: the changes of a state, batch by batch, as Server-Sent Events."""

import asyncio
import base64
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from time import monotonic
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from trident.base.errors import ChangesMissedError, FencedError, StateClosedError, StateEndedError, TridentError
from trident.base.metrics import MetricsRegistry
from trident.reads.state_changes import Change, Position, StateChanges
from trident.server import bodies
from trident.server.errors import RequestError, body_of, status_of
from trident.server.freshness import Freshness
from trident.server.guards import Guards
from trident.server.limits import Limits
from trident.server.request_context import context_of
from trident.server.request_slots import GiveBack, RequestSlots
from trident.server.route_types import InThread
from trident.server.served_topology import Served
from trident.server.sse import QUIET_SECONDS, STILL_HERE, EventStream, event
from trident.server.waiting_requests import Waiting

logger = logging.getLogger(__name__)

READERS = 64
"""The most readers of one server's feeds."""

_LOOK_SECONDS = 0.02
"""Seconds between two reads of a group's committed txid, for all readers of the group together."""

_POSITION_SECONDS = 1.0
"""The least seconds between two events that give a reader its new position after batches without changes."""

_PAUSE_SECONDS = 0.5
"""Seconds after which a state that could not be read is read again."""


class StateFeed:
    """The readers of the changes of one server's states.

    A reader has no queue, only a position. A slow reader gets several batches as one change. A reader that does not
    receive a piece in time is disconnected; when it connects again, it continues at its position.
    """

    def __init__(
        self,
        served: Served,
        in_thread: InThread,
        metrics: MetricsRegistry,
        waiting: Waiting,
        limits: Limits,
        guards: Guards,
        shared: bool,
    ) -> None:
        self._served, self._in_thread, self._metrics = served, in_thread, metrics
        self._waiting, self._limits, self._guards = waiting, limits, guards
        self._freshness = Freshness(served, in_thread)
        self._places = RequestSlots("readers of changes at most", READERS, shared=shared, kind="TooManyReaders")
        self._readers = Counter[str]()
        self._looked: dict[str, tuple[float, int]] = {}
        """The time of the last read of each group's committed txid, and that txid."""

    async def open(self, request: Request) -> Response:
        """Return an answer that sends changes until its reader disconnects.

        The header Last-Event-ID, or the query ``after``, names the reader's position; without a position it begins with
        the next batch, or with ``snapshot=true`` with the whole state. Raises RequestError or TridentError if the
        changes cannot be read.
        """
        name, asked = request.path_params["state"], request.query_params
        if name not in self._served.states:
            raise RequestError(
                404, "StateNotFound", f"no state {name!r}; the states are {', '.join(self._served.states)}"
            )
        place, snapshot, form = _read_query(request.headers.get("last-event-id") or asked.get("after"), asked)
        give_back = self._places.demand(context_of(request).holder)
        try:
            return await self._opened(request, name, place, snapshot, form, give_back)
        except BaseException:
            give_back()
            raise

    async def _opened(
        self, request: Request, name: str, place: Position | None, snapshot: bool, form: str, give_back: GiveBack
    ) -> EventStream:
        await self._waiting.reach(request, {}, self._limits.timeoutSecs)
        try:
            changes = self._served.changes(name)
        except StateClosedError:
            raise
        except TridentError as error:
            raise RequestError(400, type(error).__name__, str(error)) from None
        began = await self._in_thread(lambda: changes.begin(place))
        reader = _Reader(name, changes, began, snapshot and place is None, form)
        self._count_readers(name, 1)

        def end() -> None:
            self._count_readers(name, -1)
            give_back()

        return EventStream(self._events(reader), end, {"Trident-Group": quote(changes.group)})

    async def _events(self, reader: "_Reader") -> AsyncIterator[bytes]:
        """Yield the reader's events until it disconnects, the server stops, or the changes end."""
        while not self._guards.ending():
            try:
                async for piece in self._round(reader):
                    reader.spoke = monotonic()
                    yield piece
            except ChangesMissedError as missed:
                # A snapshot replaces the missed changes, for a reader that accepts snapshots.
                body = {"from": missed.first, "to": missed.last, "message": str(missed)}
                yield event("missed", bodies.json_body(body))
                reader.snapshot = True
            except (FencedError, StateClosedError, RequestError):
                return  # this server or answer ends; the reader continues at its position
            except TridentError as error:
                known = await self._explained(reader, error)
                if status_of(known) != 503:
                    logger.info("changes of state %r end: %s", reader.state, known)
                    yield event("ended", bodies.json_body(body_of(known)["error"]))
                    return
                await asyncio.sleep(_PAUSE_SECONDS)
            if monotonic() - reader.spoke > QUIET_SECONDS:
                reader.spoke = monotonic()
                yield STILL_HERE

    async def _round(self, reader: "_Reader") -> AsyncIterator[bytes]:
        """Yield the next change.

        If there is no change, wait a little, and from time to time yield the reader's position.
        """
        if await self._is_due(reader):
            first = True
            async for part in self._parts(reader):
                if not (first and part.last and part.empty and not part.snapshot):
                    yield await self._piece(reader, part, first)
                first = False
        else:
            await asyncio.sleep(_LOOK_SECONDS)
        if reader.place.txid > reader.told and monotonic() - reader.spoke >= _POSITION_SECONDS:
            yield await self._position(reader)

    async def _is_due(self, reader: "_Reader") -> bool:
        """Return whether there is a change that the reader does not have.

        The committed txid is read once for all readers.
        """
        if reader.snapshot:
            return True
        group = reader.changes.group
        looked, txid = self._looked.get(group, (-1.0, -1))
        if txid <= reader.place.txid and monotonic() - looked >= _LOOK_SECONDS:
            self._looked[group] = (monotonic(), txid)  # other readers do not read it meanwhile
            txid = await self._in_thread(reader.changes.committed)
            self._looked[group] = (monotonic(), txid)
        return txid > reader.place.txid

    async def _parts(self, reader: "_Reader") -> AsyncIterator[Change]:
        """Yield the parts of the next change. After the last part, move the reader's position past the change."""
        changes = reader.changes
        parts: Iterator[Change] = changes.snapshot() if reader.snapshot else changes.after(reader.place)
        while (part := await self._in_thread(lambda: next(parts, None))) is not None:
            if part.last:
                reader.place = Position(reader.place.life, part.txid, part.digest)
                reader.snapshot = False
            yield part

    async def _explained(self, reader: "_Reader", error: TridentError) -> TridentError:
        """Return a StateEndedError if `error` occurred because the reader's incarnation of the state has ended.

        Otherwise return `error`.
        """
        try:
            await self._in_thread(lambda: reader.changes.begin(reader.place))
        except StateEndedError as ended:
            return ended
        except TridentError:
            pass  # the state or log cannot be read now: keep the first error
        return error

    # --- events --------------------------------------------------------------------------------------------------

    async def _piece(self, reader: "_Reader", part: Change, first: bool) -> bytes:
        committed = await self._committed_at(reader, part.txid)
        body: dict[str, Any] = {"after": reader.after(part), "txid": part.txid, "committedAt": committed}
        body |= {"first": first, "last": part.last}
        if reader.form == "arrow":
            body |= {"entries": _arrow(part.entries), "gone": _arrow(part.removed)}
        else:
            body |= {
                "fields": part.entries.column_names,
                **(
                    {"types": bodies.types_of(part.entries), "keys": part.removed.column_names}
                    if reader.form == "typed"
                    else {}
                ),
                "rows": bodies.json_rows(part.entries),
                "removed": bodies.json_rows(part.removed) if part.removed.num_columns else [[]] * part.removed.num_rows,
            }
        self._metrics.count(
            "trident_feed_rows_total",
            "Changed and removed keys sent to feeds of changes.",
            part.entries.num_rows + part.removed.num_rows,
            state=reader.state,
        )
        # Only the last part has an id: a reader that reconnects in between gets the whole change again.
        id = str(reader.place) if part.last else None
        if part.last:
            reader.told = part.txid
        return event("snapshot" if part.snapshot else "change", bodies.json_body(body), id)

    async def _position(self, reader: "_Reader") -> bytes:
        txid = reader.told = reader.place.txid
        body = {"txid": txid, "committedAt": await self._committed_at(reader, txid)}
        return event("position", bodies.json_body(body), str(reader.place))

    async def _committed_at(self, reader: "_Reader", txid: int) -> str | None:
        group = reader.changes.group
        told: str | None = (await self._freshness.of({group: txid}))["committedAt"][group]
        return told

    def _count_readers(self, state: str, by: int) -> None:
        self._readers[state] += by
        self._metrics.set(
            "trident_feed_readers", "Readers that have a feed of changes open.", self._readers[state], state=state
        )


class _Reader:
    """A reader: its position, the last txid that was reported to it, and whether it gets a snapshot next."""

    def __init__(self, state: str, changes: StateChanges, place: Position, snapshot: bool, form: str) -> None:
        self.state, self.changes, self.place, self.snapshot, self.form = state, changes, place, snapshot, form
        self.told = -1
        """The last txid that was reported to the reader."""
        self.spoke = -_POSITION_SECONDS
        """The monotonic time at which the last event was sent."""
        self._began = place.txid

    def after(self, part: Change) -> int:
        """Return the txid from which a part has all changes: that of the last position sent to the reader.

        Batches in between that changed nothing are not reported. So the reader sees a change that it lacks (guard
        "feed, no gap").
        """
        return part.after if part.snapshot else max(self._began, self.told)


def _read_query(known: str | None, asked: Any) -> tuple[Position | None, bool, str]:
    """Return the reader's position, whether it wants a snapshot, and the form of its rows.

    Raises RequestError if the query is wrong.
    """
    if unknown := set(asked) - {"after", "snapshot", "rows"}:
        raise RequestError(
            400, "InvalidQuery", f"unknown: {', '.join(sorted(unknown))}; expected after, snapshot, rows"
        )
    if twice := [name for name in asked if len(asked.getlist(name)) > 1]:
        raise RequestError(
            400, "InvalidQuery", f"{twice[0]} is given {len(asked.getlist(twice[0]))} times; give it once"
        )
    for name, accepted in (("snapshot", ("true", "false")), ("rows", ("json", "arrow", "typed"))):
        if asked.get(name, accepted[0]) not in accepted:
            raise RequestError(400, "InvalidQuery", f"{name}={asked[name]!r}: expected {' or '.join(accepted)}")
    snapshot = asked.get("snapshot") == "true"
    try:
        place = None if known is None else Position.read(known)
    except ValueError:
        raise RequestError(
            400, "InvalidQuery", f"after={known!r}: expected a txid, or the id of an event of this feed"
        ) from None
    return place, snapshot, asked.get("rows", "json")


def _arrow(table: pa.Table) -> str:
    return base64.b64encode(bodies.arrow_body(table)).decode()
