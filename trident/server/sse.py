"""Server-Sent Events: their format, and an answer whose reader must keep up."""

import asyncio
from contextlib import suppress
from typing import Any

from starlette.responses import StreamingResponse

QUIET_SECONDS = 15.0
"""Seconds without news after which a reader gets a comment, so that proxies keep the connection open."""

STILL_HERE = b": still here\n\n"

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

_PATIENCE = 20.0
"""The most seconds in which a reader must receive one piece. Otherwise its connection is closed. When it connects
again, it gets what it missed."""


class EventStream(StreamingResponse):
    """A stream of events. If its reader does not receive a piece in time, the connection is closed."""

    async def stream_response(self, send: Any) -> None:
        async def send_in_time(message: Any) -> None:
            async with asyncio.timeout(_PATIENCE):
                await send(message)

        # An answer that ends too early has its connection closed by uvicorn, which is what is wanted here.
        with suppress(TimeoutError):
            await super().stream_response(send_in_time)


def event(kind: str, json: bytes, id: str | None = None) -> bytes:
    r"""Return an event in the format of Server-Sent Events.

    >>> event("position", b"{}", "7")
    b'id: 7\nevent: position\ndata: {}\n\n'
    """
    named = b"" if id is None else f"id: {id}\n".encode()
    return b"%sevent: %s\ndata: %s\n\n" % (named, kind.encode(), json)
