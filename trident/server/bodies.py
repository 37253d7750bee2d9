"""Bodies of requests and answers: JSON by msgspec, tables as JSON or as an Arrow stream."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from trident.base.json_values import is_plain, jsonable
from trident.base.value_conversion import to_python, type_name
from trident.server.errors import RequestError

ARROW = "application/vnd.apache.arrow.stream"
TYPED = "application/vnd.trident.rows+json"
"""JSON with the types of the fields, for clients without Arrow."""
JSON = "application/json"

_T = TypeVar("_T")


class DrpcCall(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST /drpc/<function>``: `args` by position or by name."""

    args: list[Any] | dict[str, Any] = []
    timeout: float | None = None
    minTxid: dict[str, int] = {}


class KeysWanted(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST /state/<name>``: keys, each a value, or a list of the values of several key fields."""

    keys: list[Any]
    minTxid: dict[str, int] = {}
    asOf: int | str | None = None


class TagWanted(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST /tags``: the tag's name, the batch to keep, and the states to tag."""

    name: str
    asOf: int | str | None = None
    states: list[str] | None = None
    minTxid: dict[str, int] = {}


class SqlWanted(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST /sql``: a query, the values of its parameters, and limits below those of the server."""

    query: str
    args: list[Any] | dict[str, Any] | None = None
    timeout: float | None = None
    maxRows: int | None = None
    minTxid: dict[str, int] = {}
    asOf: int | str | None = None


def read_body(body: bytes, kind: type[_T]) -> _T:
    """Return a request's body as an object of type `kind`. Raises RequestError if the body is not JSON of this type."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(400, "InvalidBody", f"the body is not valid: {error}") from None


def json_body(content: Any) -> bytes:
    """Return content as JSON. The content must hold only values that `jsonable` returns."""
    return msgspec.json.encode(content)


def json_rows(table: pa.Table) -> list[list[Any]]:
    """Return the rows of a table, each as a list of JSON values."""
    return json_values(zip(*map(to_python, table.columns), strict=True), table.schema)


def types_of(table: pa.Table) -> list[str]:
    """Return the types of a table's fields in the form in which users declare them."""
    return list(map(type_name, table.schema.types))


def json_values(rows: Iterable[Sequence[Any]], schema: pa.Schema) -> list[list[Any]]:
    """Return rows of these fields, each as a list of JSON values."""
    plain = [is_plain(kind) for kind in schema.types]
    if all(plain):
        return list(map(list, rows))
    return [[value if own else jsonable(value) for value, own in zip(row, plain, strict=True)] for row in rows]


def arrow_body(table: pa.Table) -> bytes:
    """Return a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content
