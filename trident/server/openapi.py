"""The OpenAPI description of a served topology: its functions and states, each with the types of its values."""

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any, get_args

import pyarrow as pa

from trident.drpc.local import DRPCFunction
from trident.operations.query_functions import Inclusive
from trident.reads.state_view import StateView
from trident.server import bodies
from trident.server.json_schemas import Schema, schema_of
from trident.server.limits import Limits
from trident.server.served_topology import Served
from trident.server.state_pages import value_fields
from trident_state.key_order import unordered_field

_ERRORS = {
    400: "the request is wrong; the message has the details",
    401: "the token is missing or wrong",
    403: "the token does not allow this",
    404: "there is no such function, state or key; or the state does not keep the batch of asOf",
    405: "the path has other methods; the header Allow names them",
    408: "the body took too long",
    409: "this server is behind minTxid; or there is a tag of this name",
    410: "the state was dropped or reset since the server opened it, or since the position of the feed",
    413: "the body is too large, or has too many keys; or a SQL query exceeds its limit of rows or memory",
    415: "the body is not JSON",
    421: "the Host header names a host that the server does not know",
    429: "too many requests in a second",
    500: "a function of the topology raised an error",
    501: "the server lacks the package for SQL",
    503: "the states cannot be read now, or the server is busy; try again",
    504: "no answer within the timeout",
}


def description(served: Served, limits: Limits, token: bool) -> dict[str, Any]:
    """Return the description in OpenAPI 3.1. `token`: whether the server requires a token."""
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": f"topology {served.name}", "version": version("trident-pyspark")},
        "paths": dict(_paths(served, limits)),
        "components": {"schemas": _SCHEMAS},
    }
    if token:
        described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        described["security"] = [{"token": []}]
    return described


def _paths(served: Served, limits: Limits) -> Iterable[tuple[str, dict[str, Any]]]:
    yield (
        "/drpc",
        {"get": _operation("List the DRPC functions", _answer({"functions": {"type": "object"}}), [401, 403, 421])},
    )
    for name in served.drpc.functions:
        yield f"/drpc/{name}", {"post": _function(served.drpc.function(name), limits)}
    yield "/state", {"get": _operation("List the states", _answer({"states": {"type": "array"}}), [401, 403, 421])}
    for name in served.states:
        view = served.state(name)
        yield f"/state/{name}", {"get": _entries(view, limits), "post": _multi_get(view, limits)}
        yield f"/state/{name}/{{key}}", {"get": _get(view)}
        if served.group_of(name) is not None:
            yield f"/state/{name}/changes", {"get": _changes(name)}
    yield from _tags()
    yield "/sql", {"post": _sql(limits)}
    yield (
        "/healthz",
        {"get": _operation("Report that the process is alive", _answer({"status": {"type": "string"}}), [])},
    )
    ready = _answer({"status": {"type": "string"}, "asOfTxid": _TXIDS})
    yield "/readyz", {"get": _operation("Report whether states can be read now", ready, [503, 504])}


def _tags() -> Iterable[tuple[str, dict[str, Any]]]:
    listed = _operation("List the tags", _answer({"tags": {"type": "array"}}), [401, 403, 421, 503, 504])
    body = _object({"name": {"type": "string"}, "asOf": _AS_OF, "states": _NO_TEXTS, "minTxid": _TXIDS}, ["name"])
    errors = [400, 401, 403, 404, 408, 409, 410, 413, 415, 421, 503, 504]
    made = _operation("Keep a batch under a name", _answer({"tag": {"type": "object"}}), errors)
    yield "/tags", {"get": listed, "post": {**made, "requestBody": _body(body)}}
    dropped = _operation("Drop a tag", _answer({"dropped": {"type": "string"}}), [401, 403, 404, 421, 503, 504])
    name = {"name": "tag", "in": "path", "required": True, "schema": {"type": "string"}}
    yield "/tags/{tag}", {"delete": {**dropped, "parameters": [name]}}


def _function(function: DRPCFunction, limits: Limits) -> dict[str, Any]:
    fields = {field.name: schema_of(field.type, field.nullable) for field in function.arguments}
    listed = {"type": "array", "prefixItems": list(fields.values()), "minItems": len(fields), "maxItems": len(fields)}
    named = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    # Arrays without items, and arrays with a wrong number of items, are both refused.
    args = {"anyOf": [listed, named]} if fields else {"anyOf": [{"type": "array", "maxItems": 0}, named]}
    seconds = {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": limits.timeoutSecs}
    body = _object({"args": args, "timeout": seconds, "minTxid": _TXIDS}, ["args"])
    rows = {"fields": _TEXTS, "rows": {"type": "array", "items": {"type": "array"}}, **_FRESH}
    return {
        **_operation(
            f"Ask {function.signature}",
            _answer(rows),
            [400, 401, 403, 404, 408, 409, 410, 413, 415, 421, 500, 503, 504],
        ),
        "requestBody": _body(body),
    }


def _multi_get(view: StateView, limits: Limits) -> dict[str, Any]:
    keys = {"type": "array", "items": _key(view.keyFields), "description": f"at most {limits.keys}"}
    body = _object({"keys": keys, "minTxid": _TXIDS, "asOf": _AS_OF}, ["keys"])
    values = {"values": {"type": "array", "items": schema_of(view.valueType)}, **_FRESH}
    errors = [400, 401, 403, 404, 408, 409, 410, 413, 415, 421, 503, 504]
    return {**_operation(f"Read values of state {view.name}, all as of one batch", _answer(values), errors)} | {
        "requestBody": _body(body)
    }


def _sql(limits: Limits) -> dict[str, Any]:
    body = _object(
        {
            "query": {"type": "string"},
            "args": {"anyOf": [{"type": "array"}, {"type": "object"}, {"type": "null"}]},
            "timeout": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": limits.timeoutSecs},
            "maxRows": {"type": ["integer", "null"], "minimum": 1, "maximum": limits.rows},
            "minTxid": _TXIDS,
            "asOf": _AS_OF,
        },
        ["query"],
    )
    rows = {"fields": _TEXTS, "rows": {"type": "array", "items": {"type": "array"}}, **_FRESH}
    errors = [400, 401, 403, 404, 408, 409, 410, 413, 415, 421, 500, 501, 503, 504]
    operation = _operation("Run a SQL query over the states, as of one batch of each group", _answer(rows), errors)
    return {**operation, "requestBody": _body(body)}


def _get(view: StateView) -> dict[str, Any]:
    key = {"name": "key", "in": "path", "required": True, "schema": {"type": "string"}}
    value = _answer({"value": schema_of(view.valueType), **_FRESH})
    operation = _operation(f"Read one value of state {view.name}", value, [400, 401, 403, 404, 410, 421, 503, 504])
    return {**operation, "parameters": [key, {"name": "asOf", "in": "query", "schema": _AS_OF}]}


def _entries(view: StateView, limits: Limits) -> dict[str, Any]:
    count = {"type": "integer", "minimum": 1, "maximum": limits.rows}
    asked: dict[str, Schema] = {"limit": count, "after": {"type": "string"}, "top": count, "asOf": _AS_OF}
    if len(view.keyFields) and unordered_field(view.keyFields) is None:
        asked |= {name: {"type": "string"} for name in ("low", "high", "prefix")}
        asked |= {"inclusive": {"enum": list(get_args(Inclusive))}, "json": {"enum": ["true", "false"]}}
    if view.indexes:
        asked["index"] = {"enum": [",".join(index.fields.names) for index in view.indexes]}
        asked |= {"value": {"type": "string"}, "json": {"enum": ["true", "false"]}}
    if fields := value_fields(view):
        asked["by"] = {"enum": fields}
    rows = {
        "fields": _TEXTS,
        "rows": {"type": "array", "items": {"type": "array"}},
        "after": {"type": "string"},
        **_FRESH,
    }
    operation = _operation(
        f"Read a page of state {view.name} or of a part of it, or its greatest values",
        _answer(rows),
        [400, 401, 403, 404, 410, 421, 503, 504],
    )
    return {**operation, "parameters": [{"name": name, "in": "query", "schema": each} for name, each in asked.items()]}


def _changes(state: str) -> dict[str, Any]:
    asked: dict[str, Schema] = {
        "after": {"type": "string", "description": "a txid, or the id of an event"},
        "snapshot": {"enum": ["true", "false"]},
        "rows": {"enum": ["json", "arrow", "typed"]},
    }
    operation = _operation(
        f"Follow the changes that batches make to state {state}, as an endless stream of events",
        {},
        [400, 401, 403, 410, 421, 503],
    )
    operation["responses"]["200"] = {
        "description": "events: position, change, snapshot, missed, ended",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
    return {**operation, "parameters": [{"name": name, "in": "query", "schema": each} for name, each in asked.items()]}


def _key(fields: pa.Schema) -> Schema:
    parts = [schema_of(field.type, field.nullable) for field in fields]
    if len(parts) == 1:
        return parts[0]
    return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}


def _operation(summary: str, answer: Schema, errors: Iterable[int]) -> dict[str, Any]:
    content = {bodies.JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "summary": summary,
        "responses": {
            "200": {"description": "the answer", "content": {bodies.JSON: {"schema": answer}}},
            **{str(status): {"description": _ERRORS[status], "content": content} for status in (*errors, 405)},
        },
    }


def _body(schema: Schema) -> dict[str, Any]:
    return {"required": True, "content": {bodies.JSON: {"schema": schema}}}


def _object(properties: Mapping[str, Schema], required: list[str]) -> Schema:
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def _answer(properties: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "properties": dict(properties)}


_NO_TEXTS: Schema = {"type": ["array", "null"], "items": {"type": "string"}}
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
_AS_OF_TEXT = "a txid that is kept, a time in ISO 8601, or tag: and the name of a tag"
_AS_OF: Schema = {"type": ["integer", "string", "null"], "description": _AS_OF_TEXT}
_TXIDS: Schema = {"type": "object", "additionalProperties": {"type": "integer"}}
_TIMES: Schema = {"type": "object", "additionalProperties": {"type": ["string", "null"], "format": "date-time"}}
_FRESH: dict[str, Schema] = {"asOfTxid": _TXIDS, "committedAt": _TIMES, "stalenessMs": {"type": ["integer", "null"]}}
_SCHEMAS: dict[str, Schema] = {
    "Error": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["type", "message"],
                "properties": {"type": {"type": "string"}, "message": {"type": "string"}},
            }
        },
    }
}
