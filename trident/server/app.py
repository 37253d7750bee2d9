"""The web application over a served topology: DRPC functions, states, and the server's health."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pyarrow as pa
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from trident.base.checks import whole_number_in
from trident.base.errors import TridentError
from trident.base.json_values import from_json, jsonable
from trident.base.metrics import MetricsRegistry
from trident.base.short_texts import brief, short_repr
from trident.base.values import type_name
from trident.reads.keys_from_json import key_of_json, key_of_text
from trident.reads.state_view import StateView
from trident.server import bodies, metrics_page, page_routes
from trident.server.access_rules import AccessRules
from trident.server.connection import while_connected
from trident.server.desk import Desk
from trident.server.errors import RequestError, body_of, status_of
from trident.server.freshness import Freshness
from trident.server.limits import Limits
from trident.server.openapi import description
from trident.server.rate_limit import RateLimit
from trident.server.route_types import Handler
from trident.server.served import Served
from trident.server.state_feed import StateFeed
from trident.server.state_pages import page_of, value_fields
from trident.user_calls.threads import Threads

logger = logging.getLogger(__name__)
audit = logging.getLogger("trident.audit")

_T = TypeVar("_T")
_LOOK_SECONDS = 0.005
"""Seconds between two looks at the committed txid, for a request that waits for a later txid."""


def web_app(served: Served, rules: AccessRules, limits: Limits) -> Starlette:
    """Return the ASGI application that answers from `served`."""
    return _Answers(served, rules, limits).app()


class _Answers:
    """The answers of one server. Its methods run in one event loop; reads and functions run in threads."""

    def __init__(self, served: Served, rules: AccessRules, limits: Limits) -> None:
        self._served, self._rules, self._limits = served, rules, limits
        self._threads = Threads("trident-server", most=32, idle=10.0)
        self._desks = {name: Desk(served.drpc.function(name)) for name in served.drpc.functions}
        self._freshness = Freshness(served, self._in_thread)
        self._requests = MetricsRegistry()
        self._feed = StateFeed(served, self._in_thread, self._requests)
        self._rate = None if limits.requestsPerSec is None else RateLimit(limits.requestsPerSec)
        self._in_flight = 0

    def app(self) -> Starlette:
        app = Starlette(
            routes=[
                *metrics_page.routes(self._served, self._requests, self._guarded, self._in_thread),
                Route("/drpc", self._guarded(self._functions), methods=["GET"]),
                Route("/drpc/{function}", self._guarded(self._execute), methods=["POST"]),
                Route("/state", self._guarded(self._states), methods=["GET"]),
                # One route for both methods: an answer 405 names all that the path allows.
                Route("/state/{state}", self._guarded(self._state), methods=["GET", "POST"]),
                Route("/state/{state}/changes", self._guarded(self._feed.open), methods=["GET"]),
                Route("/state/{state}/{key:path}", self._guarded(self._get), methods=["GET"]),
                *page_routes.routes(self._served, self._guarded, self._in_thread, self._body, self._count),
                Route("/openapi.json", self._guarded(self._description), methods=["GET"]),
                Route("/healthz", self._health, methods=["GET"]),
                Route("/readyz", self._ready, methods=["GET"]),
            ],
            exception_handlers={HTTPException: _no_route},
        )
        app.router.routes = metrics_page.counting_routes(app.router.routes, self._requests)
        return app

    # --- every request -------------------------------------------------------------------------------------------

    def _guarded(self, answer: Handler) -> Handler:
        """Return an endpoint that checks rights, limits the requests in flight, and turns errors into answers."""

        async def endpoint(request: Request) -> Response:
            began = time.perf_counter()
            response = await checked(request)
            _tell(request, response, time.perf_counter() - began)
            return response

        async def checked(request: Request) -> Response:
            self._in_flight += 1
            try:
                rights = self._rules.check(request.headers.get("host", ""), request.headers.get("authorization"))
                if rights is not None:
                    rights.check(request.path_params.get("function"), request.path_params.get("state"))
                self._check_rate(request)
                if self._in_flight > self._limits.inFlight:
                    raise RequestError(
                        503, "Overloaded", f"{self._limits.inFlight} requests are in flight", {"Retry-After": "1"}
                    )
                return await answer(request)
            except Exception as error:
                return _refusal(error)
            finally:
                self._in_flight -= 1

        return endpoint

    def _check_rate(self, request: Request) -> None:
        """Raise RequestError if the client has sent too many requests lately."""
        # All clients of a server with a token have the same one, so an address stands for a client there, too.
        client = "" if request.client is None else request.client.host
        if self._rate is not None and (wait := self._rate.wait(client)):
            raise RequestError(
                429,
                "TooManyRequests",
                f"{self._limits.requestsPerSec:g} requests a second are allowed; ask again in {wait:.3g} s",
                {"Retry-After": str(math.ceil(wait))},
            )

    async def _body(self, request: Request) -> bytes:
        """Return the body of a request that is JSON. Raises RequestError if it is too large or too slow."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != bodies.JSON:
            raise RequestError(415, "UnsupportedMediaType", f"the body must be {bodies.JSON}")
        most, chunks, size = self._limits.bodyBytes, list[bytes](), 0
        try:
            async with asyncio.timeout(self._limits.bodySecs):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > most:
                        raise RequestError(413, "BodyTooLarge", f"the body may have {most} bytes at most")
                    chunks.append(chunk)
        except TimeoutError:
            raise RequestError(408, "BodyTooSlow", f"the body took over {self._limits.bodySecs:g} s") from None
        return b"".join(chunks)

    async def _in_thread(self, work: Callable[[], _T], timeout: float | None = None) -> _T:
        """Return the result of `work`, which runs in a thread.

        Raises RequestError if it takes longer than `timeout` seconds.
        """
        limit = self._limits.timeoutSecs if timeout is None else timeout
        try:
            async with asyncio.timeout(limit):
                return await asyncio.wrap_future(self._threads.submit(work))
        except TimeoutError:
            raise RequestError(504, "ReadTimeout", f"no answer within {limit:g} s") from None

    async def _reach(self, least: Mapping[str, int], timeout: float) -> None:
        """Wait until each group has committed its txid in `least`. Raises RequestError after `timeout` seconds.

        So a client never gets an answer older than one that it had before, whichever server it asks.
        """
        deadline = asyncio.get_running_loop().time() + timeout
        while least:
            committed = await self._in_thread(lambda: self._served.asOfTxid)
            behind = {group: txid for group, txid in least.items() if committed.get(group, txid) < txid}
            if not behind:
                return
            if asyncio.get_running_loop().time() >= deadline:
                at = ", ".join(f"{group} is at txid {committed[group]}, not {txid}" for group, txid in behind.items())
                raise RequestError(409, "Behind", f"this server is behind what the client has seen: {at}")
            await asyncio.sleep(_LOOK_SECONDS)

    # --- DRPC ----------------------------------------------------------------------------------------------------

    async def _functions(self, request: Request) -> Response:
        listed = [self._served.drpc.function(name).signature for name in self._served.drpc.functions]
        return _json({"functions": dict(zip(self._served.drpc.functions, listed, strict=True))})

    async def _execute(self, request: Request) -> Response:
        function = self._served.drpc.function(request.path_params["function"])
        call = bodies.read_body(await self._body(request), bodies.DrpcCall)
        timeout = self._timeout(call.timeout)
        declared = {field.name: field.type for field in function.arguments}
        if isinstance(call.args, dict):
            named = {name: _argument(name, declared.get(name), value) for name, value in call.args.items()}
            values = function.bind((), named)
        else:
            known = [_argument(name, declared[name], value) for name, value in zip(declared, call.args, strict=False)]
            values = function.bind([*known, *call.args[len(known) :]], {})
        await self._reach(call.minTxid, timeout)
        # A function may work for long; other reads are over before anybody looks whether the client has gone.
        result = await while_connected(request, self._desks[function.name].ask(values, timeout))
        return _rows(request, result.toArrow(), await self._freshness.of(result.txids))

    def _timeout(self, asked: float | None) -> float:
        most = self._limits.timeoutSecs
        if asked is not None and not 0 < asked <= most:
            raise RequestError(
                400, "InvalidBody", f"timeout={asked:g}: expected seconds, more than 0 and at most {most:g}"
            )
        return most if asked is None else asked

    # --- states --------------------------------------------------------------------------------------------------

    async def _states(self, request: Request) -> Response:
        described = [_described(self._served.state(name)) for name in self._served.states]
        return _json({"topology": self._served.name, "states": described})

    def _view(self, request: Request) -> StateView:
        name = request.path_params["state"]
        if name not in self._served.states:
            raise RequestError(
                404, "StateNotFound", f"no state {name!r}; the states are {', '.join(self._served.states)}"
            )
        return self._served.state(name)

    async def _get(self, request: Request) -> Response:
        """Answer with the value of one key. In the path a text key is written without quotes, any other key as JSON."""
        view = self._view(request)
        text = request.path_params["key"]
        key = () if not len(view.keyFields) else key_of_text(text, view.keyFields, view.name)
        values, txid = await self._in_thread(lambda: view.multiGetWithTxid([key]))
        if values[0] is None:
            raise RequestError(404, "StateKeyNotFoundError", f"state {view.name!r} has nothing under {text!r}")
        return _json({"value": jsonable(values[0]), **await self._freshness.of(self._txids(view, txid))})

    async def _state(self, request: Request) -> Response:
        return await (self._multi_get(request) if request.method == "POST" else self._entries(request))

    async def _multi_get(self, request: Request) -> Response:
        view = self._view(request)
        wanted = bodies.read_body(await self._body(request), bodies.KeysWanted)
        if len(wanted.keys) > self._limits.keys:
            raise RequestError(413, "TooManyKeys", f"one request may ask for {self._limits.keys} keys")
        keys = [key_of_json(each, view.keyFields, view.name) for each in wanted.keys]
        await self._reach(wanted.minTxid, self._limits.timeoutSecs)
        values, txid = await self._in_thread(lambda: view.multiGetWithTxid(keys))
        fresh = await self._freshness.of(self._txids(view, txid))
        if bodies.ARROW in request.headers.get("accept", ""):
            return _rows(request, pa.table({"value": view.asColumn(values)}), fresh)
        return _json({"values": [jsonable(value) for value in values], **fresh})

    async def _entries(self, request: Request) -> Response:
        """Answer with a page of entries in the order of their keys, or with the entries of the greatest values."""
        view, asked = self._view(request), request.query_params
        unknown = set(asked) - {"limit", "after", "top", "by"}
        if unknown:
            raise RequestError(
                400, "InvalidQuery", f"unknown: {', '.join(sorted(unknown))}; expected limit, after, top, by"
            )
        if twice := [name for name in asked if len(asked.getlist(name)) > 1]:
            raise RequestError(400, "InvalidQuery", f"{twice[0]} came {len(asked.getlist(twice[0]))} times")
        limit = self._count("limit", asked.get("limit", "100"))
        if "top" in asked:
            count, by = self._count("top", asked["top"]), asked.get("by")
            if by is not None and by not in value_fields(view):
                fields = ", ".join(value_fields(view)) or "none, as it is no struct"
                raise RequestError(400, "InvalidQuery", f"by={by!r}: the fields of the value are {fields}")
            table = await self._in_thread(lambda: view.ranked(count, by))
            return _rows(request, table, await self._freshness.of(self._txids(view, _txid_of(table))))
        table, after = await self._in_thread(lambda: page_of(view, limit, asked.get("after")))
        more = {} if after is None else {"after": after}
        return _rows(request, table, await self._freshness.of(self._txids(view, _txid_of(table))), more)

    def _count(self, name: str, text: str) -> int:
        number = whole_number_in(text)
        if number is None or not 0 < number <= self._limits.rows:
            most = self._limits.rows
            raise RequestError(400, "InvalidQuery", f"{name}={brief(text)}: expected a number from 1 to {most}")
        return number

    def _txids(self, view: StateView, txid: int | None) -> dict[str, int]:
        group = self._served.group_of(view.name)
        return {} if txid is None or group is None else {group: txid}

    # --- the server itself -----------------------------------------------------------------------------------------

    async def _description(self, request: Request) -> Response:
        """Answer with the OpenAPI description."""
        return _json(await self._in_thread(lambda: description(self._served, self._limits, self._rules.needsToken)))

    async def _health(self, request: Request) -> Response:
        """Answer that the process is alive."""
        return _json({"status": "alive"})

    async def _ready(self, request: Request) -> Response:
        """Answer whether states can be read now, and the txids as of which they can be read."""
        try:
            return _json({"status": "ready", "asOfTxid": await self._in_thread(lambda: self._served.asOfTxid, 5.0)})
        except TridentError as error:
            return _json({"status": "not ready", "reason": type(error).__name__}, 503)


def _argument(name: str, kind: pa.DataType | None, value: Any) -> Any:
    """Return an argument's value from JSON. The DRPC function itself refuses an argument that was not declared."""
    try:
        return value if kind is None else from_json(value, kind)
    except ValueError:
        raise RequestError(
            400, "DRPCArgumentError", f"argument {name!r} came as {short_repr(value)}: expected {type_name(kind)}"
        ) from None


def _described(view: StateView) -> dict[str, Any]:
    keys = {field.name: type_name(field.type) for field in view.keyFields}
    return {"name": view.name, "kind": view.kind.value, "keys": keys, "value": type_name(view.valueType)}


def _txid_of(table: pa.Table) -> int | None:
    text = (table.schema.metadata or {}).get(b"asOfTxid")
    return None if text is None else int(text)


def _rows(
    request: Request, table: pa.Table, fresh: Mapping[str, Any], more: Mapping[str, Any] | None = None
) -> Response:
    """Answer with a table: as JSON, or as an Arrow stream if the client accepts that."""
    if bodies.ARROW in request.headers.get("accept", ""):
        headers = {
            "Trident-As-Of-Txid": bodies.json_body(fresh["asOfTxid"]).decode(),
            "Trident-Committed-At": bodies.json_body(fresh["committedAt"]).decode(),
            "Trident-Staleness-Ms": bodies.json_body(fresh["stalenessMs"]).decode(),
        }
        headers |= {f"Trident-{name.title()}": str(value) for name, value in (more or {}).items()}
        return Response(bodies.arrow_body(table), media_type=bodies.ARROW, headers=headers)
    content = {"fields": table.column_names, "rows": bodies.json_rows(table), **fresh, **(more or {})}
    return _json(content)


def _json(content: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(bodies.json_body(content), status, headers, bodies.JSON)


def _tell(request: Request, response: Response, seconds: float) -> None:
    """Log who sent which request. Keys, arguments and tokens are never logged."""
    if audit.isEnabledFor(logging.INFO):
        client = "" if request.client is None else request.client.host
        path = request.url.path
        if "key" in request.path_params:
            path = f"/state/{request.path_params['state']}/..."
        audit.info("%s %s %s: %d in %.1f ms", client, request.method, path, response.status_code, seconds * 1000)


async def _no_route(request: Request, error: Exception) -> Response:
    """Answer a request whose path or method does not exist."""
    assert isinstance(error, HTTPException)
    kind = "MethodNotAllowed" if error.status_code == 405 else "NotFound"
    message = f"{request.method} {request.url.path}: {error.detail}; GET /openapi.json describes what there is"
    return _refusal(RequestError(error.status_code, kind, message, dict(error.headers or {})))


def _refusal(error: Exception) -> Response:
    status = status_of(error)
    if status == 500:
        logger.error("a request failed: %s", type(error).__name__, exc_info=error)
    return _json(body_of(error), status, error.headers if isinstance(error, RequestError) else None)
