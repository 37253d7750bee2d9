"""The limits of a server: how much a client may send, request and wait for."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server. A request beyond a limit gets an answer with an error type, at little cost.

    Parameters
    ----------
    bodyBytes : int
        The bytes of a request's body (413 beyond).
    bodySecs : float
        The seconds that a body may take to arrive (408 beyond).
    keys : int
        The keys of one multi-get (413 beyond).
    rows : int
        The rows of one page of a scan, of a top list, and of the result of a SQL query.
    timeoutSecs : float
        The seconds that an answer may take, and the greatest timeout that a client may ask for (504 beyond).
    inFlight : int
        The requests that are answered at the same time, each until its answer is sent (503 beyond). If a server has
        several tokens, no token can use all of them.
    connections : int
        The open connections. For one more, the server closes the connection that has waited longest for its client.
    sqlBytes : int
        The bytes of the states that one SQL query reads, and of its memory (413 beyond). Two queries work at a time.
    requestsPerSec : float, optional
        The requests of one address in a second (429 beyond); as many may come at once after a pause.
    headSecs : float
        The seconds that the head of a request may take to arrive (408 beyond).
    answerSecs : float
        The seconds within which a client must receive the next 64 KiB of its answer. Otherwise its connection is
        closed.
    proxies : collection of str
        The addresses of proxies in front of the server. Their header X-Forwarded-For is accepted as the client's
        address. From other addresses the header is ignored.
    """

    bodyBytes: int = 1 << 20
    bodySecs: float = 10.0
    keys: int = 10_000
    rows: int = 10_000
    timeoutSecs: float = 30.0
    inFlight: int = 256
    connections: int = 2_000
    sqlBytes: int = 256 << 20
    requestsPerSec: float | None = None
    headSecs: float = 10.0
    answerSecs: float = 20.0
    proxies: Collection[str] = ()
