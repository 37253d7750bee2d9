"""The guards of a server, as one layer around all of its endpoints.

Every request passes the same guards in the same order: host, rate, token, rights, requests in flight. Each request is
recorded once, in the audit log and in the metrics. This also holds for an unknown path, a wrong method, a probe, a file
of the page, and a stream. A handler cannot skip a guard.
"""

import asyncio
import logging
import math
import time
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from trident.server import bodies
from trident.server.access_rules import NOBODY, AccessRules, Grant
from trident.server.connection import CLIENT_GONE, client_gone
from trident.server.endpoints import Endpoint, Found, find_endpoint
from trident.server.errors import RequestError, body_of, status_of
from trident.server.limits import Limits
from trident.server.rate_limit import RateLimit
from trident.server.request_context import RequestContext
from trident.server.request_record import Ledger
from trident.server.request_slots import RequestSlots
from trident.server.sse import EventStream
from trident.server.timeouts import Alarms
from trident.server.unsent_answers import Unsent

logger = logging.getLogger(__name__)

_PIECE = 64 << 10
"""The most bytes of an answer that are sent at once. The next bytes wait until the client has received these."""


class Guards:
    """The ASGI application around the endpoints of a server."""

    def __init__(self, rules: AccessRules, limits: Limits, ledger: Ledger) -> None:
        self._rules, self._limits, self._ledger = rules, limits, ledger
        self._rate = None if limits.requestsPerSec is None else RateLimit(limits.requestsPerSec)
        self._in_flight = RequestSlots("requests in flight at most", limits.inFlight, shared=rules.hasSeveralTokens)
        self._unsent = Unsent()
        self.alarms = Alarms()
        """The limits of time of the requests."""
        self.endpoints: Sequence[Endpoint] = ()
        self.ending: Callable[[], bool] = lambda: False
        """A function that returns whether the server is about to stop. Endless answers then end."""

    def tell_no_request(self, client: str, status: int) -> None:
        """Record bytes that were not a request; see `Ledger`."""
        self._ledger.tell_no_request(client, status)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request. This never raises: an error becomes an answer, or the end of the connection."""
        if scope["type"] != "http":
            return
        found = find_endpoint(self.endpoints, scope)
        request = Request(scope | {"path_params": found.parameters}, receive, send)
        told = _Told(request, found.endpoint, self._ledger, self._unsent, send)
        try:
            await self._answer(request, found, told.send)
        except asyncio.CancelledError:  # the server stops, and no longer waits for this answer
            if not told.isBegun:
                stopping = RequestError(503, "Stopping", "the server is stopping; try again", {"Connection": "close"})
                await refusal(stopping)(scope, receive, told.send)
        except (ClientDisconnect, OSError):
            pass  # the client disconnected before it had its answer
        except Exception as error:
            log_failure("an answer was interrupted", error)
        finally:
            told.end()

    async def _answer(self, request: Request, found: Found, send: Any) -> None:
        context = RequestContext(NOBODY, self._in_flight, self.alarms)
        request.scope["trident.context"] = context
        try:
            response = await self._checked(request, found, context)
            if isinstance(response, EventStream):
                context.leave()  # a stream holds another place until it ends
            if response.status_code == CLIENT_GONE:
                return
            await response(request.scope, request.receive, send)
        finally:
            context.leave()

    async def _checked(self, request: Request, found: Found, context: RequestContext) -> Response:
        """Return the answer of the endpoint, or the refusal of the first guard that rejects the request."""
        try:
            self._check(request, found, context)
            if found.endpoint is None:
                raise _no_door(request, found)
            return await found.endpoint.answer(request)
        except ClientDisconnect:
            return refusal(client_gone())
        except Exception as error:
            return refusal(error, context.grant)

    def _check(self, request: Request, found: Found, context: RequestContext) -> None:
        endpoint, headers = found.endpoint, request.headers
        probe = endpoint is not None and endpoint.isProbe
        self._check_host_and_rate(request, probe)
        if endpoint is None or endpoint.needsToken:
            context.grant = self._rules.grant_of(headers.get("authorization"))
            if endpoint is None or not endpoint.checksRights:
                context.grant.check(found.parameters.get("function"), found.parameters.get("state"))
        elif probe and self._rules.knows(headers.get("host", "")):
            context.grant = self._rules.grant_if_any(headers.get("authorization"))
        if not probe:
            context.enter()

    def _check_host_and_rate(self, request: Request, probe: bool) -> None:
        """Raise RequestError for a wrong host, or if the client has sent too many requests recently."""
        if not probe:
            self._rules.check_host(request.headers.get("host", ""))
        # Clients may share a token, so an address identifies a client here, even with a token. Probes have a separate
        # rate, because other clients behind the supervisor's address must not make it believe that the process hangs.
        client = client_of(request)
        if self._rate is not None and (wait := self._rate.wait(f"probe {client}" if probe else client)):
            raise RequestError(
                429,
                "TooManyRequests",
                f"{self._limits.requestsPerSec:g} requests per second are allowed; try again in {wait:.3g} s",
                {"Retry-After": str(math.ceil(wait))},
            )


class _Told:
    """Sends an answer to its client, piece by piece, and records the request once."""

    def __init__(self, request: Request, endpoint: Endpoint | None, ledger: Ledger, unsent: Unsent, send: Any) -> None:
        self._request, self._ledger, self._unsent, self._send = request, ledger, unsent, send
        self._path = None if endpoint is None else endpoint.path
        self._began = time.perf_counter()
        self.isBegun = False

    def tell(self, status: int) -> None:
        """Record the request with the status of its answer, unless it was recorded before."""
        if not self.isBegun:
            self.isBegun = True
            scope = self._request.scope
            raw = scope.get("raw_path") or scope["path"].encode(errors="replace")
            seconds = time.perf_counter() - self._began
            self._ledger.tell(client_of(self._request), scope["method"], raw, self._path, status, seconds)

    async def send(self, message: Any) -> None:
        """Send a part of the answer. This returns when the client has received the earlier pieces."""
        if message["type"] == "http.response.start":
            self.tell(message["status"])
        body = message.get("body", b"")
        last = max(0, (len(body) - 1) // _PIECE * _PIECE)
        cut = self._request.scope.get("trident.cut", _nothing)
        for at in range(0, last, _PIECE):
            self._unsent.note(self, len(body) - at, cut)
            await self._send({**message, "body": body[at : at + _PIECE], "more_body": True})
        await self._send({**message, "body": body[last:]} if last else message)

    def end(self) -> None:
        """Record that the answer is complete."""
        self._unsent.note(self, 0, _nothing)
        self.tell(CLIENT_GONE)


def _nothing() -> None: ...


def client_of(request: Request) -> str:
    """Return the address of a client."""
    client = request.scope.get("client")
    return client[0] if client else ""


def json_answer(content: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer in JSON."""
    return Response(bodies.json_body(content), status, headers, bodies.JSON)


def refusal(error: Exception, grant: Grant | None = None) -> Response:
    """Return the answer to a request that failed. Errors of the server are logged under a number."""
    status = status_of(error)
    number = log_failure("a request failed", error) if status == 500 else ""
    headers = error.headers if isinstance(error, RequestError) else None
    return json_answer(body_of(error, grant is not None and grant.isLimited, number), status, headers)


def log_failure(what: str, error: Exception) -> str:
    """Log the file and line of an error, and return the number under which the log has it.

    The texts of errors are not logged, because errors of a user's function may contain arguments, keys and values.
    """
    number = uuid.uuid4().hex[:8]
    lines = list[str]()
    cause: BaseException | None = error
    while cause is not None and len(lines) < 200:
        lines.append(f"  {type(cause).__name__}, raised at:")
        frames = traceback.extract_tb(cause.__traceback__)[-20:]
        lines += [f"    {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    logger.error("%s (number %s): %s\n%s", what, number, type(error).__name__, "\n".join(lines))
    return number


def _no_door(request: Request, found: Found) -> RequestError:
    method, path = request.method, request.scope["path"]
    hint = "GET /openapi.json describes the API"
    if found.allowed:
        allow = {"Allow": ", ".join(found.allowed)}
        return RequestError(405, "MethodNotAllowed", f"{method} {path}: Method Not Allowed; {hint}", allow)
    return RequestError(404, "NotFound", f"{method} {path}: Not Found; {hint}")
