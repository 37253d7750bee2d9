"""Requests that wait until this server has a batch that their client has already seen."""

import asyncio
from collections.abc import Mapping

import msgspec
from starlette.requests import Request

from trident.server.connection import while_connected
from trident.server.errors import RequestError
from trident.server.request_context import context_of
from trident.server.request_slots import RequestSlots
from trident.server.route_types import InThread
from trident.server.served_topology import Served

HEADER = "trident-min-txid"
"""The header of any request that reads: the least txids that its answer must show, by batch group, in JSON."""

WAITING = 256
"""The most requests that wait at the same time."""

_HEADER_SECONDS = 2.0
"""The most seconds that a request waits for the txids in its header. Then its client tries again, here or elsewhere."""

_LOOK_SECONDS = 0.02
"""Seconds between two reads of the committed txids, for all waiting requests together."""


class Waiting:
    """The requests of one server that wait for a txid. One check serves all of them, and none blocks a thread."""

    def __init__(self, served: Served, in_thread: InThread, shared: bool) -> None:
        self._served, self._in_thread = served, in_thread
        self._places = RequestSlots("requests that wait for a later batch at most", WAITING, shared=shared)
        self._waiters: dict[asyncio.Future[None], Mapping[str, int]] = {}
        self._watch: asyncio.Task[None] | None = None
        self._committed: Mapping[str, int] = {}

    async def reach(self, request: Request, least: Mapping[str, int], timeout: float) -> Mapping[str, int]:
        """Wait until each group has committed its txid in `least` and in the request's header.

        Return these txids, merged.

        So a client never gets an answer older than an earlier answer, even from another server. Raises RequestError
        after `timeout` seconds, or if the client leaves.
        """
        if in_header := _in_header(request):
            timeout = min(timeout, _HEADER_SECONDS)
            least = {group: max(least.get(group, -1), in_header.get(group, -1)) for group in {**least, **in_header}}
        if not least or not self._behind(least, await self._in_thread(lambda: self._served.asOfTxid)):
            return least
        context = context_of(request)
        with self._places.taken(context.holder):
            context.leave()  # requests that can be answered now must not wait for the others
            await while_connected(request, self._wait(least, timeout))
        context.enter()
        return least

    async def _wait(self, least: Mapping[str, int], timeout: float) -> None:
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[arrived] = least
        if self._watch is None:
            self._watch = asyncio.create_task(self._look())
        try:
            async with asyncio.timeout(timeout):
                await arrived
        except TimeoutError:
            behind = self._behind(least, self._committed) or least
            at = ", ".join(
                f"{group} is at txid {self._committed.get(group)}, not {txid}" for group, txid in behind.items()
            )
            raise RequestError(
                409,
                "Behind",
                f"this server has not reached the client's txid: {at}. If the topology was reset, its txids started "
                "over: create a new client",
            ) from None
        finally:
            del self._waiters[arrived]

    async def _look(self) -> None:
        """While requests wait, check from time to time which of them can be answered."""
        try:
            while self._waiters:
                try:
                    self._committed = await self._in_thread(lambda: self._served.asOfTxid)
                except Exception as error:  # raised in each waiting request
                    self._end(error)
                else:
                    self._end(None)
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._watch = None

    def _end(self, error: Exception | None) -> None:
        for arrived, least in self._waiters.items():
            if arrived.done():
                continue
            if error is not None:
                arrived.set_exception(error)
            elif not self._behind(least, self._committed):
                arrived.set_result(None)

    @staticmethod
    def _behind(least: Mapping[str, int], committed: Mapping[str, int]) -> dict[str, int]:
        """Return the groups that lack batches. Groups of other topologies are ignored."""
        return {group: txid for group, txid in least.items() if committed.get(group, txid) < txid}


def _in_header(request: Request) -> dict[str, int]:
    text = request.headers.get(HEADER)
    if text is None:
        return {}
    try:
        return msgspec.json.decode(text.encode(), type=dict[str, int])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise RequestError(400, "InvalidHeader", f"Trident-Min-Txid: expected txids by batch group: {error}") from None
