"""DRPCClient and AsyncDRPCClient: DRPC functions and states of a topology that a server answers for."""

import time
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any
from urllib.parse import quote

from trident.base.durations import Duration, read_limit
from trident.base.errors import MissingPackageError, ServerUnavailableError
from trident.base.secrets import read_secret
from trident.client.answers import (
    ARROW,
    SAFE_STATUSES,
    ServedRows,
    Session,
    call_body,
    error_of,
    json_body,
    read_table,
)

_TRIES = 5
_PAUSE = 0.05
_TIMEOUT = 30.0
_HEADERS = {"content-type": "application/json", "accept": ARROW}


class DRPCClient:
    """Asks the DRPC functions and states of a topology over HTTP. Any thread may ask.

    Its answers never go back: each shows at least the batches that earlier answers to this client showed. A request
    is asked again while the server says that it cannot answer yet: reads change nothing, so that is safe.

    Source of the meaning: ``org.apache.storm.utils.DRPCClient``.

    Parameters
    ----------
    url : str
        The server's address, ``"http://host:port"``.
    token : str, optional
        The server's token, or ``env:NAME`` or ``file:path`` that holds it.
    timeout : duration
        The time for a request that names none; the server stops working on it then.

    Raises
    ------
    MissingPackageError
        The package httpx is not installed (extra ``trident-pyspark[client]``).

    Examples
    --------
    >>> from trident import Count, DRPCClient, MapGet, TridentTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.state import MemoryMapState
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"], ["dog"]]))
    >>> counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    >>> _ = topology.newDRPCStream("count", "word string").stateQuery(counts, "word", MapGet(), "count")
    >>> with topology.start(engine="embedded", name="served") as running, running.serve() as server:
    ...     running.processAllAvailable()
    ...     with DRPCClient(server.url) as client:
    ...         print(client.execute("count", "dog"), client.get("counts", "cat"))
    [Row(word='dog', count=2)] 1
    """

    def __init__(self, url: str, *, token: str | None = None, timeout: Duration = _TIMEOUT) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingPackageError("a client needs httpx: pip install 'trident-pyspark[client]'") from None
        limit = read_limit("timeout", timeout)
        assert limit is not None
        secret = None if token is None else read_secret("token", token)
        headers = {} if secret is None else {"authorization": f"Bearer {secret}"}
        self._failed = httpx.TransportError
        self._timeout = limit
        self._session = Session()
        self._http = httpx.Client(base_url=url, headers=headers, timeout=limit + 5.0)
        self.url = url

    def execute(self, function: str, /, *args: Any, timeout: Duration | None = None, **named: Any) -> ServedRows:
        """Ask a DRPC function, and return its rows; see `LocalDRPC.execute` for arguments and errors.

        Raises
        ------
        ServerUnavailableError
            The server does not answer within the timeout.
        """
        limit = read_limit("timeout", timeout)
        limit = self._timeout if limit is None else limit
        response = self._ask(
            "POST",
            f"/drpc/{quote(function, safe='')}",
            limit,
            lambda: call_body(args, named, limit, self._session.least),
        )
        rows = read_table(response.content, response.headers)
        self._session.note(rows.txids)
        return rows

    def get(self, state: str, key: Any, default: Any = None) -> Any:
        """Return the value of one key of a state, or the default where nothing is stored."""
        value = self.multiGet(state, [key])[0]
        return default if value is None else value

    def multiGet(self, state: str, keys: Iterable[Any]) -> list[Any]:
        """Return one value for each key, all as of one batch; None where nothing is stored.

        A key is a value, or a tuple of several key fields' values.
        """
        listed = [list(key) if isinstance(key, tuple) else key for key in keys]
        response = self._ask(
            "POST",
            f"/state/{quote(state, safe='')}",
            self._timeout,
            lambda: json_body({"keys": listed, "minTxid": self._session.least}),
        )
        rows = read_table(response.content, response.headers)
        self._session.note(rows.txids)
        return [row.value for row in rows]

    def top(self, state: str, n: int, by: str | None = None) -> ServedRows:
        """Return the `n` entries with the greatest values, as of one batch; `by` ranks by this field of the values."""
        return self._rows(state, {"top": str(n)} | ({} if by is None else {"by": by}))

    def scan(self, state: str, pageRows: int = 1000) -> Iterator[ServedRows]:
        """Yield all entries of a state in pages; each page is as of the batch that it names."""
        after: str | None = None
        while True:
            page = self._rows(state, {"limit": str(pageRows)} | ({} if after is None else {"after": after}))
            yield page
            after = page.after
            if after is None:
                return

    def _rows(self, state: str, query: Mapping[str, str]) -> ServedRows:
        response = self._ask("GET", f"/state/{quote(state, safe='')}", self._timeout, None, query)
        rows = read_table(response.content, response.headers)
        self._session.note(rows.txids)
        return rows

    def _ask(self, method: str, path: str, limit: float, body: Any, query: Mapping[str, str] | None = None) -> Any:
        """Return the answer to a request. Ask again while the server cannot answer, for `limit` seconds."""
        deadline, pause = time.monotonic() + limit, _PAUSE
        failure: Exception
        while True:
            try:
                response = self._http.request(
                    method, path, content=None if body is None else body(), params=query, headers=_HEADERS
                )
            except self._failed as error:
                failure = ServerUnavailableError(f"{self.url} does not answer: {error}")
            else:
                if response.status_code == 200:
                    return response
                failure = error_of(response.status_code, response.content, self.url)
                if response.status_code not in (*SAFE_STATUSES, 409):
                    raise failure
            if time.monotonic() + pause >= deadline:
                raise failure
            time.sleep(pause)
            pause = min(pause * 2, 1.0)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> "DRPCClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"DRPCClient({self.url!r})"
