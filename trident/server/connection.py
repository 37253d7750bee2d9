"""The connection of a request: if the client disconnects, the work on its request is cancelled."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import Request

from trident.server.errors import RequestError
from trident.server.request_context import context_of

_T = TypeVar("_T")

_UNWATCHED = 0.1
"""Seconds of work after which the connection is watched. Most answers take less, and a watch needs a task."""

CLIENT_GONE = 499
"""The status of a request whose client disconnected, in metrics and the audit log. No client receives it."""


async def while_connected(request: Request, work: Awaitable[_T]) -> _T:
    """Return the result of `work`. Call this only after the body of the request was read, or if it is not needed.

    If the client disconnects meanwhile, `work` is cancelled, and a RequestError is raised.
    """
    worker, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert worker is not None
    gone = False
    watch: asyncio.Task[None] | None = None

    async def watching() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        worker.cancel()

    def begin() -> None:
        nonlocal watch
        watch = loop.create_task(watching())

    alarm = context_of(request).alarms.after(_UNWATCHED, begin)
    try:
        return await work
    except asyncio.CancelledError:
        if not gone:
            raise
        worker.uncancel()
        raise client_gone() from None
    finally:
        alarm.cancel()
        if watch is not None:
            watch.cancel()


def client_gone() -> RequestError:
    """Return the error that ends the work on a request after its client has disconnected. It is not a server error."""
    return RequestError(CLIENT_GONE, "ClientGone", "the client has disconnected")
