"""Server-Sent Events: their format, and an endless answer."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from starlette.responses import StreamingResponse

QUIET_SECONDS = 15.0
"""Seconds without an event after which a reader gets a comment, so that proxies keep the connection open."""

STILL_HERE = b": still here\n\n"

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(StreamingResponse):
    """A stream of events, which holds one of the server's places for readers until it ends.

    If a reader does not receive a piece in time, its connection is closed (`Limits.answerSecs`). When it connects
    again, it gets the events that it missed.
    """

    def __init__(
        self, events: AsyncIterator[bytes], give_back: Callable[[], None], more: Mapping[str, str] = {}
    ) -> None:
        super().__init__(events, 200, {**HEADERS, **more}, "text/event-stream")
        self._give_back = give_back

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            if scope["method"] == "HEAD":
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await send({"type": "http.response.body", "body": b""})
            else:
                await super().__call__(scope, receive, send)
        finally:
            self._give_back()


def event(kind: str, json: bytes, id: str | None = None) -> bytes:
    r"""Return an event in the format of Server-Sent Events.

    >>> event("position", b"{}", "7")
    b'id: 7\nevent: position\ndata: {}\n\n'
    """
    named = b"" if id is None else f"id: {id}\n".encode()
    return b"%sevent: %s\ndata: %s\n\n" % (named, kind.encode(), json)
