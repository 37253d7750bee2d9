"""A client's conversation with a server, without network code: its requests, the txids it has seen, and its retries."""

import json
import logging
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple
from urllib.parse import quote, unquote

from trident_client.answers import SAFE_STATUSES, AnswerForm, RowsT, Session, call_body, error_of, json_body, key_text
from trident_client.changes import QUIET_SECONDS, Change, ChangesReader
from trident_client.durations import Duration, read_limit
from trident_client.errors import (
    MissingPackageError,
    ServerError,
    ServerUnavailableError,
    TagExistsError,
    TopologyError,
)
from trident_client.secret_references import read_secret

logger = logging.getLogger("trident.client")

TIMEOUT = 30.0
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
_SILENT_SECS = 1.0
"""The seconds without an answer after which the log says, once, that the client waits."""
_NETWORK_SECS = 5.0
"""The seconds that a client waits longer than the server, so that the server's answer about a timeout arrives first."""
_HEADERS = {"content-type": "application/json"}

_EXPIRED, _OTHER_HOST, _OTHER_ADDRESS = 10, 62, 64
"""OpenSSL's codes of certificates that are not trusted whatever their authority is (X509_V_ERR)."""
_ELSEWHERE = "Use a host name or address that the server's certificate has"
_WAYS_OUT = {
    _EXPIRED: "The server needs a new certificate",
    _OTHER_HOST: _ELSEWHERE,
    _OTHER_ADDRESS: _ELSEWHERE,
}
_OTHER_WAY_OUT = "Pass the certificate of the authority that signed the server's: ca='ca.pem', or --ca in a shell"


class Request(NamedTuple):
    """A request: its content, and the seconds for which the client waits for the answer.

    `least` are the least txids that the server must have.
    """

    method: str
    path: str
    limit: float
    least: Mapping[str, int]
    body: Callable[[Mapping[str, int]], bytes] | None = None
    query: Mapping[str, str] | None = None
    isPast: bool = False
    """Whether the request is about an earlier batch: the server must have `least`, but the answer shows older txids."""
    writes: str = ""
    """The change that the request makes, in words; "" if it only reads, so that it may be sent again."""

    @property
    def shown(self) -> Mapping[str, int]:
        """The least txids that the answer must show."""
        return {} if self.isPast else self.least

    def sent(self, accept: str) -> dict[str, Any]:
        """Return the arguments of httpx's ``request`` for an answer of this media type."""
        content = None if self.body is None else self.body(self.least)
        return {
            "method": self.method,
            "url": self.path,
            "content": content,
            "params": self.query,
            "headers": _HEADERS | {"accept": accept} | _least_header(self.least),
            "timeout": self.limit + _NETWORK_SECS,
        }


class Conversation(Generic[RowsT]):
    """Makes the requests of one client and reads the answers. Any thread may call."""

    def __init__(
        self,
        form: AnswerForm[RowsT],
        url: str,
        token: str | None,
        timeout: Duration,
        ca: str | None,
        cert: tuple[str, str] | None,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingPackageError("a client needs httpx: pip install 'trident-pyspark[client]'") from None
        limit = read_limit("timeout", timeout)
        assert limit is not None
        secret = None if token is None else read_secret("token", token)
        headers = {} if secret is None else {"authorization": f"Bearer {secret}"}
        self.form = form
        self.url = url
        self.httpx = httpx
        verify = True if ca is None and cert is None else _tls_context(ca, cert)
        self.options: dict[str, Any] = {"base_url": url, "headers": headers, "verify": verify}
        """The arguments of httpx's clients."""
        self.unreachable = httpx.TransportError
        """The errors of httpx that mean that no answer arrived."""
        self._timeout = limit
        self._session = Session()

    # --- requests ------------------------------------------------------------------------------------------------

    def execute(
        self, function: str, args: Sequence[Any], named: Mapping[str, Any], timeout: Duration | None
    ) -> Request:
        """Return the request that calls a DRPC function."""
        asked = read_limit("timeout", timeout)
        limit = self._timeout if asked is None else asked
        path = f"/drpc/{quote(function, safe='')}"
        return self._request("POST", path, limit, lambda least: call_body(args, named, limit, least))

    def keys(self, state: str, keys: Iterable[Any], asOf: Any = None) -> Request:
        """Return the request for the values of some keys of a state, as of an earlier batch if one is named."""
        listed = [list(key) if isinstance(key, tuple) else key for key in keys]

        def body(least: Mapping[str, int]) -> bytes:
            return json_body({"keys": listed, "minTxid": least} | _past(asOf))

        return self._request("POST", f"/state/{quote(state, safe='')}", self._timeout, body, isPast=asOf is not None)

    def sql(
        self,
        query: str,
        args: Sequence[Any] | Mapping[str, Any] | None,
        timeout: Duration | None,
        rows: int | None,
        asOf: Any = None,
    ) -> Request:
        """Return the request for the result of a SQL query."""
        asked = read_limit("timeout", timeout)
        limit = self._timeout if asked is None else asked

        def body(least: Mapping[str, int]) -> bytes:
            asks = {"query": query, "args": args, "timeout": asked, "maxRows": rows, "minTxid": least}
            return json_body(asks | _past(asOf))

        return self._request("POST", "/sql", limit, body, isPast=asOf is not None)

    def top(self, state: str, n: int, by: str | None, asOf: Any = None) -> Request:
        """Return the request for the entries with the greatest values."""
        return self._entries(state, {"top": str(n)} | ({} if by is None else {"by": by}), asOf)

    def range(
        self, state: str, ends: Mapping[str, Any], inclusive: str, limit: int, after: str | None, asOf: Any = None
    ) -> Request:
        """Return the request for a page of a range of keys, after the cursor `after`. An end may be None."""
        given = {"json": "true"} | {name: key_text(value) for name, value in ends.items() if value is not None}
        if "prefix" not in given or inclusive != "left":
            given["inclusive"] = inclusive
        return self._entries(state, given | {"limit": str(limit)} | ({} if after is None else {"after": after}), asOf)

    def by(self, state: str, fields: str, value: Any, limit: int, after: str | None, asOf: Any = None) -> Request:
        """Return the request for a page of the entries with a value in the fields of an index."""
        given = {"index": fields, "value": key_text(value), "json": "true", "limit": str(limit)}
        return self._entries(state, given | ({} if after is None else {"after": after}), asOf)

    def page(self, state: str, rows: int, after: str | None, asOf: Any = None) -> Request:
        """Return the request for the page of entries after the cursor `after`."""
        return self._entries(state, {"limit": str(rows)} | ({} if after is None else {"after": after}), asOf)

    def _entries(self, state: str, query: Mapping[str, str], asOf: Any) -> Request:
        given = {name: str(batch) for name, batch in _past(asOf).items()} | dict(query)
        return self._request("GET", f"/state/{quote(state, safe='')}", self._timeout, None, given, asOf is not None)

    def functions(self) -> Request:
        """Return the request for the list of functions."""
        return self._request("GET", "/drpc", self._timeout)

    def states(self) -> Request:
        """Return the request for the list of states."""
        return self._request("GET", "/state", self._timeout)

    def tags(self) -> Request:
        """Return the request for the list of tags."""
        return self._request("GET", "/tags", self._timeout)

    def tag(self, name: str, asOf: Any, states: Sequence[str] | None) -> Request:
        """Return the request that makes a tag."""

        def body(least: Mapping[str, int]) -> bytes:
            return json_body({"name": name, "states": states, "minTxid": least} | _past(asOf))

        return self._request("POST", "/tags", self._timeout, body)._replace(writes=f"tag {name!r} may have been made")

    def drop_tag(self, name: str) -> Request:
        """Return the request that drops a tag."""
        request = self._request("DELETE", f"/tags/{quote(name, safe='')}", self._timeout)
        return request._replace(writes=f"tag {name!r} may have been dropped")

    def _request(
        self,
        method: str,
        path: str,
        limit: float,
        body: Callable[[Mapping[str, int]], bytes] | None = None,
        query: Mapping[str, str] | None = None,
        isPast: bool = False,
    ) -> Request:
        return Request(method, path, limit, self._session.least, body, query, isPast)

    def stream(self, reader: ChangesReader[RowsT]) -> dict[str, Any]:
        """Return the arguments of httpx's ``stream`` for the changes of a state.

        A reader that continues at a given position gets the changes after it. A reader without a position begins with a
        batch that is no older than the txids this client has seen.
        """
        timeout = self.httpx.Timeout(_NETWORK_SECS + self._timeout, connect=_NETWORK_SECS, read=QUIET_SECONDS)
        sent = reader.sent()
        least = self._session.least if reader.position is None else {}
        return {**sent, "headers": sent["headers"] | _least_header(least), "timeout": timeout}

    def note_change(self, response: Any, change: Change[RowsT]) -> None:
        """Record a change from a feed. Later answers will show at least its batch."""
        group = response.headers.get("trident-group")
        if group is not None:
            self._session.note({unquote(group): change.txid})

    def patience(self) -> "Patience":
        """Return the pauses to make while a server does not answer, within the client's time limit."""
        return Patience(self._timeout)

    # --- answers -------------------------------------------------------------------------------------------------

    def rows(self, response: Any) -> RowsT:
        """Return the rows of an answer. Later answers will show at least the same batches."""
        rows = self.form.rows(response.content, response.headers)
        self._session.note(rows.txids)
        return rows

    def made_tag(self, response: Any) -> dict[str, Any]:
        """Return the tag in an answer. Later answers will show at least its batches."""
        tag: dict[str, Any] = response.json()["tag"]
        self._session.note(tag["txids"])
        return tag

    def outcome(self, response: Any, least: Mapping[str, int]) -> Exception | None:
        """Return None for an answer, or the error of a response after which to retry; raise any other error.

        Reads change nothing, so it is safe to send them again. An answer that shows older batches than `least` does not
        count as an answer: it may come from a cache between client and server.
        """
        if response.status_code == 200:
            shown = self.form.txids(response.content, response.headers) if least else {}
            behind = {group: txid for group, txid in least.items() if shown.get(group, txid) < txid}
            return (
                ServerError(f"{self.url}: Behind: the server is at {shown}, but the request needs {behind}")
                if behind
                else None
            )
        error = error_of(response.status_code, response.content, self.url)
        if response.status_code not in (*SAFE_STATUSES, 409) or isinstance(error, TagExistsError):
            raise error
        return error

    def no_answer(self, error: Exception, request: Request | None = None) -> ServerUnavailableError:
        """Return the error for a request that did not reach the server, or was not answered.

        It is raised at once for a request that may have changed something, because a repetition would fail by the
        effect of the first one, and for a certificate that is not trusted.
        """
        if (distrust := _distrust(error)) is not None:
            way_out = _WAYS_OUT.get(distrust.verify_code, _OTHER_WAY_OUT)
            raise ServerUnavailableError(f"{self.url} is not trusted: {error}. {way_out}") from error
        if request is None or not request.writes or isinstance(error, self.httpx.ConnectError):
            return ServerUnavailableError(f"{self.url} does not answer: {error}")
        raise ServerUnavailableError(f"{self.url} does not answer: {error}; {request.writes}: see tags()") from error


def _distrust(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """Return what made a connection fail if that was the server's certificate, otherwise None."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error


def _past(asOf: Any) -> dict[str, Any]:
    return {} if asOf is None else {"asOf": asOf}


def _least_header(least: Mapping[str, int]) -> dict[str, str]:
    # ASCII, because the names of batch groups may have any letters
    return {"trident-min-txid": json.dumps(dict(least))} if least else {}


def _tls_context(ca: str | None, cert: tuple[str, str] | None) -> ssl.SSLContext:
    """Return a TLS context that trusts `ca` and presents `cert`. Raises TopologyError if a file cannot be used."""
    try:
        context = ssl.create_default_context(cafile=ca)
        if cert is not None:
            context.load_cert_chain(*cert)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise TopologyError(f"ca={ca!r}, cert={cert!r}: {why}; expected PEM files, cert=(certificate, key)") from None
    return context


class Patience:
    """The pauses between the attempts of one request."""

    def __init__(self, limit: float) -> None:
        self._began = time.monotonic()
        self._deadline = self._began + limit
        self._pause = _FIRST_PAUSE
        self._told = False

    def next(self, error: Exception) -> float:
        """Return the seconds to wait before the request is sent again. Raises `error` if there is no time left."""
        pause, now = self._pause, time.monotonic()
        if now + pause >= self._deadline:
            raise error
        if not self._told and now + pause >= self._began + _SILENT_SECS:
            self._told = True
            logger.warning("%s; waiting for an answer, %.0f s at most", error, self._deadline - now)
        self._pause = min(pause * 2, _LONGEST_PAUSE)
        return pause
