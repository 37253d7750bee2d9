"""SQL over HTTP: each query has the rights of its token, and the limits of the server."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from trident.base.errors import SqlError
from trident.reads.committed_reads import ReadAbandoned
from trident.server import bodies
from trident.server.connection import while_connected
from trident.server.errors import RequestError
from trident.server.freshness import Freshness
from trident.server.limits import Limits
from trident.server.request_context import context_of
from trident.server.request_slots import RequestSlots
from trident.server.row_answers import row_answer
from trident.server.served_topology import Served
from trident.server.waiting_requests import Waiting
from trident.sql.sql_limits import SqlLimits
from trident.sql.sql_result import SqlResult

_WAITING = 16
"""The most queries that work or wait for their turn."""

_AT_ONCE = 2
"""The most queries that run at the same time, each with separate memory."""

_PATIENCE = 2.0
"""Seconds after a query's time limit within which it is ended with its own error."""

Body = Callable[[Request], Awaitable[bytes]]
TimedThread = Callable[[Callable[[], SqlResult], float], Awaitable[SqlResult]]


class SqlAnswers:
    """The SQL queries of one server. Its methods run in the server's event loop."""

    def __init__(
        self,
        served: Served,
        in_thread: TimedThread,
        waiting: Waiting,
        freshness: Freshness,
        limits: Limits,
        body: Body,
        shared: bool,
    ) -> None:
        self._served, self._in_thread, self._limits, self._body = served, in_thread, limits, body
        self._waiting, self._freshness = waiting, freshness
        self._places = RequestSlots("SQL queries at most", _WAITING, shared=shared)
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def answer(self, request: Request) -> Response:
        """Answer with the rows of a query."""
        grant = context_of(request).grant
        grant.check_any_state()
        wanted = bodies.read_body(await self._body(request), bodies.SqlWanted)
        limits = self._limited(wanted)
        await self._waiting.reach(request, wanted.minTxid, limits.seconds)
        over = False

        def check() -> None:
            if over:
                raise ReadAbandoned

        def work() -> SqlResult:
            allow = partial(grant.check, None)
            try:
                return self._served.queries.run(wanted.query, wanted.args, limits, allow, check, wanted.asOf)
            except ValueError as error:
                if wanted.asOf is None:
                    raise
                raise RequestError(400, "InvalidBody", str(error)) from None

        with self._places.taken(context_of(request).holder):
            try:
                result = await while_connected(request, self._in_turn(work, limits.seconds))
            finally:
                over = True  # a query whose client has left ends
        fresh = await self._freshness.of(result.txids)
        return row_answer(request, result.toArrow(), fresh)

    async def _in_turn(self, work: Callable[[], SqlResult], seconds: float) -> SqlResult:
        try:
            async with asyncio.timeout(seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise RequestError(
                503,
                "Overloaded",
                f"the query could not start within {seconds:g} s, because other queries were running; try again",
                {"Retry-After": "1"},
            ) from None
        try:
            return await self._in_thread(work, seconds + _PATIENCE)
        finally:
            self._turns.release()

    def _limited(self, wanted: bodies.SqlWanted) -> SqlLimits:
        """Return the limits of a query: those that it sets, at most the server's."""
        asked: dict[str, tuple[Any, float]] = {
            "timeout": (wanted.timeout, self._limits.timeoutSecs),
            "maxRows": (wanted.maxRows, self._limits.rows),
        }
        for name, (value, most) in asked.items():
            if value is not None and not 0 < value <= most:
                raise RequestError(400, "InvalidBody", f"{name}={value:g}: expected a number up to {most:g}")
        try:
            return SqlLimits.of(
                wanted.timeout or self._limits.timeoutSecs, wanted.maxRows or self._limits.rows, self._limits.sqlBytes
            )
        except SqlError as error:
            raise RequestError(400, "InvalidBody", str(error)) from None
