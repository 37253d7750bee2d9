"""The web application over a served topology: DRPC functions, states, and the server's health."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from trident.base.argument_checks import whole_number_in
from trident.base.errors import TridentError
from trident.base.json_values import from_json, jsonable
from trident.base.metrics import MetricsRegistry
from trident.base.short_texts import brief, short_repr
from trident.base.value_conversion import type_name
from trident.drpc.request_queue import Audience
from trident.reads.keys_from_json import key_of_json, key_of_text
from trident.reads.state_view import StateView
from trident.server import bodies, metrics_page, page_routes
from trident.server.access_rules import AccessRules
from trident.server.connection import while_connected
from trident.server.endpoints import Endpoint
from trident.server.errors import RequestError
from trident.server.freshness import Freshness
from trident.server.guards import Guards, json_answer
from trident.server.limits import Limits
from trident.server.openapi import description
from trident.server.part_queries import PART_PARAMETERS, part_of_query
from trident.server.request_batching import RequestBatcher
from trident.server.request_context import context_of
from trident.server.request_record import Ledger
from trident.server.row_answers import row_answer, wants_table
from trident.server.served_topology import Served
from trident.server.sql_answers import SqlAnswers
from trident.server.state_feed import StateFeed
from trident.server.state_pages import Listings, txid_of, value_fields
from trident.server.tag_answers import TagAnswers
from trident.server.waiting_requests import Waiting
from trident.user_calls.daemon_threads import Threads, ended_by_user_code
from trident.user_calls.watched_calls import Subject

_T = TypeVar("_T")
_ASKED = {"limit", "after", "top", "by", "asOf"} | PART_PARAMETERS
_READ = Subject("a read for a client of the server")


def web_app(served: Served, rules: AccessRules, limits: Limits) -> Guards:
    """Return the ASGI application for `served`: its endpoints (paths with handlers), and the guards around them."""
    requests = MetricsRegistry()
    guards = Guards(rules, limits, Ledger(requests))
    guards.endpoints = _Answers(served, rules, limits, requests, guards).endpoints()
    return guards


class _Answers:
    """The answers of one server. Its methods run in one event loop; reads and functions run in threads."""

    def __init__(
        self, served: Served, rules: AccessRules, limits: Limits, requests: MetricsRegistry, guards: Guards
    ) -> None:
        self._served, self._rules, self._limits, self._requests = served, rules, limits, requests
        self._guards = guards
        self._arriving = 0
        """The bytes received of request bodies that are not complete yet."""
        self._threads = Threads("trident-server", most=32, idle=10.0)
        self._batchers = {
            name: RequestBatcher(served.drpc.function(name), guards.alarms) for name in served.drpc.functions
        }
        self._freshness = Freshness(served, self._in_thread)
        shared = rules.hasSeveralTokens
        self._waiting = Waiting(served, self._in_thread, shared)
        self._listings = Listings(self._in_thread, shared)
        self._sql = SqlAnswers(served, self._in_thread, self._waiting, self._freshness, limits, self._body, shared)
        self._tags = TagAnswers(served, self._in_thread, self._waiting, limits, self._body)
        self._feed = StateFeed(served, self._in_thread, requests, self._waiting, limits, guards, shared)

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint("/metrics", metrics_page.answer(self._served, self._requests, self._in_thread)),
            Endpoint("/drpc", self._functions),
            Endpoint("/drpc/{function}", self._execute, ("POST",)),
            Endpoint("/state", self._states),
            *self._tags.endpoints(),
            # One endpoint for both methods, because an answer 405 must name all methods that the path allows.
            Endpoint("/state/{state}", self._state, ("GET", "POST")),
            Endpoint("/state/{state}/changes", self._feed.open),
            Endpoint("/state/{state}/{key:text}", self._get),
            Endpoint("/sql", self._sql.answer, ("POST",), checksRights=True),
            *page_routes.endpoints(
                self._served, self._listings, self._in_thread, self._body, self._count, self._guards
            ),
            Endpoint("/openapi.json", self._description),
            Endpoint("/healthz", self._health, needsToken=False, isProbe=True),
            Endpoint("/readyz", self._ready, needsToken=False, isProbe=True),
        ]

    # --- every request -------------------------------------------------------------------------------------------

    async def _body(self, request: Request) -> bytes:
        """Return the body of a request that is JSON. Raises RequestError if it is too large or too slow."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != bodies.JSON:
            raise RequestError(415, "UnsupportedMediaType", f"the body must be {bodies.JSON}")
        # A request whose body has not arrived yet is not in flight: it costs only the bytes that it has sent, which
        # have a separate limit.
        context = context_of(request)
        context.leave()
        chunks, size, more = list[bytes](), 0, True
        try:
            with context.alarms.limit(self._limits.bodySecs):
                while more:
                    message = await request.receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    chunk, more = message.get("body", b""), message.get("more_body", False)
                    chunks.append(chunk)
                    size += len(chunk)
                    self._arriving += len(chunk)
                    self._check_size(size)
        except TimeoutError:
            raise RequestError(408, "BodyTooSlow", f"the body took longer than {self._limits.bodySecs:g} s") from None
        finally:
            self._arriving -= size
        context.enter()
        return b"".join(chunks)

    def _check_size(self, size: int) -> None:
        if size > self._limits.bodyBytes:
            raise RequestError(413, "BodyTooLarge", f"the body may have at most {self._limits.bodyBytes} bytes")
        if self._arriving > self._limits.inFlight * self._limits.bodyBytes:
            raise RequestError(
                503,
                "Overloaded",
                "too many requests with a body arrive at the same time; try again",
                {"Retry-After": "1"},
            )

    async def _in_thread(self, work: Callable[[], _T], timeout: float | None = None) -> _T:
        """Return the result of `work`, which runs in a thread.

        Raises RequestError if it takes longer than `timeout` seconds. The work is then listed among the hanging calls,
        because it may be user code (an aggregator's `present`) that does not return.
        """
        limit = self._limits.timeoutSecs if timeout is None else timeout
        audience = Audience(1)

        def watched() -> _T:
            with self._served.drpc.atWork.working(audience, _READ):
                try:
                    return work()
                except Exception:
                    raise
                except BaseException as error:
                    raise ended_by_user_code(str(_READ), error) from error

        try:
            with self._guards.alarms.limit(limit) as waiting:
                return await asyncio.wrap_future(self._threads.submit(watched))
        except TimeoutError:
            if not waiting.expired:  # the work itself reached a limit, and its error says which
                raise
            raise RequestError(504, "ReadTimeout", f"no answer within {limit:g} s") from None
        finally:
            audience.size = 0

    # --- DRPC ----------------------------------------------------------------------------------------------------

    async def _functions(self, request: Request) -> Response:
        listed = [self._served.drpc.function(name).signature for name in self._served.drpc.functions]
        return json_answer({"functions": dict(zip(self._served.drpc.functions, listed, strict=True))})

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
        await self._waiting.reach(request, call.minTxid, timeout)
        result = await while_connected(request, self._batchers[function.name].ask(values, timeout))
        fresh = await self._freshness.of(result.txids)
        if wants_table(request):
            return row_answer(request, result.toArrow(), fresh)
        return json_answer({"fields": result.fields, "rows": bodies.json_values(result, function.answers), **fresh})

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
        return json_answer({"topology": self._served.name, "states": described})

    def _view(self, request: Request) -> StateView:
        name = request.path_params["state"]
        if name not in self._served.states:
            raise RequestError(
                404, "StateNotFound", f"no state {name!r}; the states are {', '.join(self._served.states)}"
            )
        return self._served.state(name)

    async def _past(self, view: StateView, asOf: int | str | None) -> StateView:
        """Return a view as of the batch that a request names: a txid, a time or a tag; None: the last committed one."""
        if asOf is None:
            return view
        batch = int(asOf) if isinstance(asOf, str) and whole_number_in(asOf) is not None else asOf
        try:
            past = view.asOf(batch)
        except ValueError as error:
            raise RequestError(400, "InvalidQuery", str(error)) from None
        txid = await self._in_thread(lambda: past.asOfTxid)  # of a time or a tag, so that all pages are as of it
        return past if txid is None else view.asOf(txid)

    async def _get(self, request: Request) -> Response:
        """Answer with the value of one key. In the path a text key is written without quotes, any other key as JSON."""
        view = self._view(request)
        text = request.path_params["key"]
        key = () if not len(view.keyFields) else key_of_text(text, view.keyFields, view.name)
        await self._waiting.reach(request, {}, self._limits.timeoutSecs)
        view = await self._past(view, request.query_params.get("asOf"))
        value, txid = await self._value(request, view, key)
        if value is None:
            raise RequestError(404, "StateKeyNotFoundError", f"state {view.name!r} has no value for the key {text!r}")
        return json_answer({"value": jsonable(value), **await self._freshness.of(self._txids(view, txid))})

    async def _value(self, request: Request, view: StateView, key: Any) -> tuple[Any, int | None]:
        """Return the value of one key and its txid.

        Read it in this thread if that need not wait, because a thread takes longer.
        """
        if (at_hand := view.getPromptly(key)) is not None:
            return at_hand
        (value,), txid = await while_connected(request, self._in_thread(lambda: view.multiGetWithTxid([key])))
        return value, txid

    async def _state(self, request: Request) -> Response:
        return await (self._multi_get(request) if request.method == "POST" else self._entries(request))

    async def _multi_get(self, request: Request) -> Response:
        view = self._view(request)
        wanted = bodies.read_body(await self._body(request), bodies.KeysWanted)
        if len(wanted.keys) > self._limits.keys:
            raise RequestError(413, "TooManyKeys", f"one request may ask for {self._limits.keys} keys")
        keys = [key_of_json(each, view.keyFields, view.name) for each in wanted.keys]
        await self._waiting.reach(request, wanted.minTxid, self._limits.timeoutSecs)
        view = await self._past(view, wanted.asOf)
        values, txid = await while_connected(request, self._in_thread(lambda: view.multiGetWithTxid(keys)))
        fresh = await self._freshness.of(self._txids(view, txid))
        if wants_table(request):
            return row_answer(request, pa.table({"value": view.asColumn(values)}), fresh)
        return json_answer({"values": [jsonable(value) for value in values], **fresh})

    async def _entries(self, request: Request) -> Response:
        """Answer with a page of all entries or of a part of them, or with the entries of the greatest values."""
        view, asked = self._view(request), request.query_params
        if unknown := set(asked) - _ASKED:
            expected = ", ".join(sorted(_ASKED))
            raise RequestError(400, "InvalidQuery", f"unknown: {', '.join(sorted(unknown))}; expected {expected}")
        if twice := [name for name in asked if len(asked.getlist(name)) > 1]:
            raise RequestError(
                400, "InvalidQuery", f"{twice[0]} is given {len(asked.getlist(twice[0]))} times; give it once"
            )
        limit = self._count("limit", asked.get("limit", "100"))
        view = await self._past(view, asked.get("asOf"))
        if "top" in asked:
            count, by = self._count("top", asked["top"]), asked.get("by")
            if by is not None and by not in value_fields(view):
                fields = ", ".join(value_fields(view)) or "none, since it is not a struct"
                raise RequestError(400, "InvalidQuery", f"by={by!r}: the fields of the value are {fields}")
            await self._waiting.reach(request, {}, self._limits.timeoutSecs)
            table = await self._listings.ranked(request, view, count, by)
            return row_answer(request, table, await self._freshness.of(self._txids(view, txid_of(table))))
        seen = await self._waiting.reach(request, {}, self._limits.timeoutSecs)
        if (read := part_of_query(view, asked, limit)) is not None:
            table, after = await self._listings.part(request, read)
            more = {} if after is None else {"after": after}
            return row_answer(request, table, await self._freshness.of(self._txids(view, txid_of(table))), more)
        least = 0 if view.isPast else seen.get(self._served.group_of(view.name) or "", 0)
        table, after = await self._listings.page(request, view, limit, asked.get("after"), least)
        more = {} if after is None else {"after": after}
        return row_answer(request, table, await self._freshness.of(self._txids(view, txid_of(table))), more)

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
        return json_answer(
            await self._in_thread(lambda: description(self._served, self._limits, self._rules.needsToken))
        )

    async def _health(self, request: Request) -> Response:
        """Answer that the process is alive."""
        return json_answer({"status": "alive"})

    async def _ready(self, request: Request) -> Response:
        """Answer whether states can be read now; to clients with full rights, also the txids."""
        limited = context_of(request).grant.isLimited
        try:
            txids = await self._in_thread(lambda: self._served.asOfTxid, 5.0)
        except (TridentError, RequestError) as error:
            reason = {} if limited else {"reason": getattr(error, "kind", type(error).__name__)}
            return json_answer({"status": "not ready", **reason}, 503)
        return json_answer({"status": "ready", **({} if limited else {"asOfTxid": txids})})


def _argument(name: str, kind: pa.DataType | None, value: Any) -> Any:
    """Return an argument's value from JSON. The DRPC function itself refuses an argument that was not declared."""
    try:
        return value if kind is None else from_json(value, kind)
    except ValueError:
        raise RequestError(
            400, "DRPCArgumentError", f"argument {name!r} is {short_repr(value)}: expected {type_name(kind)}"
        ) from None


def _described(view: StateView) -> dict[str, Any]:
    keys = {field.name: type_name(field.type) for field in view.keyFields}
    return {"name": view.name, "kind": view.kind.value, "keys": keys, "value": type_name(view.valueType)}
