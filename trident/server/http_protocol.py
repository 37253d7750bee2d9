"""Uvicorn's HTTP protocol over httptools, with the limits that uvicorn lacks: bytes and seconds in every phase.

A connection waits for a request, receives its head, receives its body, and sends the answer. Each phase has a limit in
bytes and a limit in seconds. A connection that exceeds a limit is closed. If all connections are in use, a new
connection replaces the one that has waited longest for its client.
"""

from asyncio import BaseTransport, TimerHandle
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from trident.server.limits import Limits

Tell = Callable[[str, int], None]

MOST_HEAD_BYTES = 64 << 10
"""The most bytes of a request in addition to its body: its line, headers and trailers."""

_MOST_FRAMING = 8
"""The most bytes that chunks may add to each byte of a body. A chunk of one byte adds five."""

_MOST_UNREAD = 1 << 20
"""The bytes beyond the limit of a body that are still accepted, so that the sender can read the refusal."""

_MOST_PIPELINED = 32
"""The most requests of one connection that may wait for the answer to an earlier request."""

_LOOK_SECONDS = 1.0
_CLOSING_SECONDS = 5.0
"""The seconds in which a closing connection must send its remaining bytes, and in which an unread body must end."""


class Phase(Enum):
    """The phase of a connection."""

    HEAD = "waits for a request, or receives its head"
    BODY = "receives a body"
    ANSWER = "has received a request"


class LimitedProtocol(HttpToolsProtocol):
    """The protocol of one connection.

    `tell` is called for input that is not a request, with the client's address and the status. `waiting` holds the
    connections of the server that wait for their clients to send something; the connection that has waited longest
    comes first.
    """

    _phase = Phase.HEAD
    _since = 0.0
    """The start of the phase (the event loop's time); for a connection that sends nothing, the start of its wait."""
    _bytes = _body = 0
    """The number of bytes of the request that were received so far, and the number of these that belong to its body."""
    _began = False
    """True if a part of a request has come, but not its end."""
    _stuck: float | None = None
    """The time since which no bytes of the answer are sent, or the connection does not end."""
    _timer: TimerHandle | None = None
    _running: RequestResponseCycle | None = None
    """The request in progress. Other requests of the connection may wait for its answer."""

    def __init__(self, limits: Limits, tell: Tell, waiting: "dict[LimitedProtocol, None]", **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._limits, self._tell, self._waiting = limits, tell, waiting
        self.access_log = False  # uvicorn would log it with keys if the root logger shows INFO

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(cast("Any", transport))
        self._since = self.loop.time()
        self._waiting[self] = None
        self._timer = self.loop.call_later(_LOOK_SECONDS, self._look)
        if len(self.connections) > self._limits.connections:
            next(iter(self._waiting)).make_room()

    def make_room(self) -> None:
        self._waiting.pop(self, None)
        self.connections.discard(self)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._waiting.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        self._give_up()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        super().eof_received()
        self._give_up()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _give_up(self) -> None:
        """Notify the request in progress that its client is gone, and drop the requests that wait for it.

        The connection is about to close, and its transport raises an error for later writes. Uvicorn itself reports
        only the last request of a connection.
        """
        self.pipeline.clear()
        for cycle in (self._running, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self.flow.resume_writing()

    def data_received(self, data: bytes) -> None:
        if not self._began:
            self._began = True
            if self._phase is Phase.HEAD:
                self._since = self.loop.time()
        self._bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._bytes > MOST_HEAD_BYTES + _MOST_FRAMING * self._body:
            self.send_400_response(f"the head of a request may have at most {MOST_HEAD_BYTES} bytes")
        elif self._body > self._limits.bodyBytes + _MOST_UNREAD:
            self.transport.close()  # the reader of the body has refused this body
            self._give_up()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase is Phase.HEAD:  # otherwise it is a trailer, which no handler reads
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= _MOST_PIPELINED:
            raise ValueError("too many requests are waiting for an answer")  # httptools answers it with 400
        self._phase, self._since = Phase.BODY, self.loop.time()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._phase, self._began = Phase.ANSWER, False
        # Data that ends a request may contain the beginning of the next request. That part is not counted.
        self._bytes = self._body = 0
        self._waiting.pop(self, None)
        super().on_message_complete()
        self._wait_if_answered()

    def on_message_begin(self) -> None:
        self._phase, self._began, self._since = Phase.HEAD, True, self.loop.time()
        super().on_message_begin()
        self.scope["trident.cut"] = self.transport.abort  # type: ignore[typeddict-unknown-key]

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_if_answered()

    def _wait_if_answered(self) -> None:
        """Record that the connection waits for its client, if its last request was answered."""
        if self.cycle.response_complete and not self.transport.is_closing():
            self._waiting[self] = None
            if self._phase is Phase.ANSWER:
                self._phase, self._since = Phase.HEAD, self.loop.time()

    def pause_writing(self) -> None:
        self._stuck = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stuck = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        self._tell("" if self.client is None else self.client[0], 400)
        super().send_400_response(msg)
        self._give_up()

    def _look(self) -> None:
        """Once a second, end the connection if its phase has taken too long."""
        self._timer = self.loop.call_later(_LOOK_SECONDS, self._look)
        now = self.loop.time()
        if self.transport.is_closing():
            self._stuck = now if self._stuck is None else self._stuck
            if now - self._stuck > _CLOSING_SECONDS:
                self.transport.abort()
        elif self._stuck is not None:
            if now - self._stuck > self._limits.answerSecs:
                self.transport.abort()  # uvicorn's close would wait until the client has read the rest
        elif self.flow.read_paused:
            self._since = now  # the client need not send anything: it waits for the server, which has separate limits
        elif now - self._since > self._seconds():
            if self._phase is Phase.HEAD and self._began and (self.cycle is None or self.cycle.response_complete):
                self._tell("" if self.client is None else self.client[0], 408)
                self.transport.write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            self.transport.close()
            self._give_up()

    def _seconds(self) -> float:
        """Return how long the phase may take."""
        if self._phase is Phase.ANSWER:
            return float("inf")  # the server has separate limits for its work
        if self._phase is Phase.BODY:
            # A handler that reads the body has answered after `bodySecs`.
            return self._limits.bodySecs + _CLOSING_SECONDS
        answered = self.cycle is not None and not self._began
        return self.timeout_keep_alive if answered else self._limits.headSecs


def http_protocol(limits: Limits, tell: Tell) -> "type[LimitedProtocol]":
    """Return the factory that uvicorn's ``http=`` calls for each connection of one server."""
    return cast("type[LimitedProtocol]", partial(LimitedProtocol, limits, tell, {}))
