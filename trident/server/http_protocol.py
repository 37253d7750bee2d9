"""Uvicorn's HTTP protocol over httptools, with a limit that uvicorn lacks: the size of a request's head in bytes."""

from typing import TYPE_CHECKING

MOST_HEAD_BYTES = 64 << 10
"""The most bytes of a request's line and headers. Uvicorn has the same limit with h11."""

if TYPE_CHECKING:
    from asyncio import Protocol


def http_protocol() -> "type[Protocol] | str":
    """Return the value for uvicorn's ``http=``: the limited protocol, or h11 if httptools is not installed."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "h11"

    class Limited(HttpToolsProtocol):
        _head: int | None = 0
        """The bytes so far of an incomplete head; None while a body is read."""

        _ended = False
        """True if a request ended within the last data."""

        def data_received(self, data: bytes) -> None:
            self._ended = False
            super().data_received(data)
            # Data with the end of a request is its body, for the most part, and no head.
            if self._head is None or self._ended:
                return
            self._head += len(data)
            if self._head > MOST_HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response(f"the head of a request may have {MOST_HEAD_BYTES} bytes at most")

        def on_headers_complete(self) -> None:
            self._head = None
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._head, self._ended = 0, True
            super().on_message_complete()

    return Limited
