"""Requests to a server and its answers, without network code: both clients share them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa

from trident.base import errors
from trident.base.answer_rows import AnswerRows
from trident.base.json_values import jsonable

ARROW = "application/vnd.apache.arrow.stream"

SAFE_STATUSES = (429, 503)
"""Statuses after which the same request is repeated, because the server may soon be able to answer."""


class ServedRows(AnswerRows):
    """The rows of an answer, as a list of PySpark Rows.

    Attributes
    ----------
    fields : the names of the rows' fields. txids : the txid of each batch group as of which the answer was read, by the
    group's name. committedAt : when each of these batches was committed, by its driver's clock; None if the log does
    not say. stalenessMs : milliseconds from the oldest of these commits to the answer; None if one of them is not
    known.
    """

    def __init__(
        self,
        table: pa.Table,
        txids: Mapping[str, int],
        after: str | None = None,
        committedAt: Mapping[str, datetime | None] | None = None,
        stalenessMs: int | None = None,
    ) -> None:
        self.committedAt = dict(committedAt or {})
        self.stalenessMs = stalenessMs
        self.after = after
        """The cursor of the next page; None after the last page."""
        super().__init__(table, txids)


class Session:
    """The newest txids that a client has seen.

    Later answers never show an older batch, even if another server answers.
    """

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    @property
    def least(self) -> dict[str, int]:
        """The least txids that the next answer must show, by batch group."""
        return dict(self._seen)

    def note(self, txids: Mapping[str, int]) -> None:
        for group, txid in txids.items():
            self._seen[group] = max(txid, self._seen.get(group, txid))


def key_text(key: Any) -> str:
    """Return a key, or the first fields of one as a tuple, in JSON.

    >>> key_text("dog"), key_text(7), key_text(("dog", 7)), key_text(float("nan"))
    ('"dog"', '7', '["dog", 7]', '"NaN"')
    """
    return json.dumps(jsonable(list(key) if isinstance(key, tuple) else key))


def read_table(content: bytes, headers: Mapping[str, str]) -> ServedRows:
    """Return the rows in an answer that is an Arrow stream."""
    table = pa.ipc.open_stream(content).read_all()
    txids = json.loads(headers.get("trident-as-of-txid", "{}"))
    told = json.loads(headers.get("trident-committed-at", "{}"))
    times = {group: None if time is None else datetime.fromisoformat(time) for group, time in told.items()}
    staleness = json.loads(headers.get("trident-staleness-ms", "null"))
    return ServedRows(table, txids, headers.get("trident-after"), times, staleness)


def error_of(status: int, content: bytes, url: str) -> Exception:
    """Return the error that an answer describes. It has the server's error type, if this library has that type."""
    try:
        told: dict[str, Any] = msgspec.json.decode(content)["error"]
        kind, message = str(told["type"]), str(told["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        kind, message = "", content[:200].decode(errors="replace") or f"status {status}"
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, errors.TridentError):
        return found(message)
    if status in SAFE_STATUSES:
        return errors.ServerUnavailableError(f"{url}: {message}")
    return errors.ServerError(f"{url}: {kind or status}: {message}")


def call_body(args: Sequence[Any], named: Mapping[str, Any], timeout: float | None, least: Mapping[str, int]) -> bytes:
    """Return the body of a DRPC request.

    Raises DRPCArgumentError if arguments are given both by position and by name.
    """
    if args and named:
        raise errors.DRPCArgumentError("give all arguments by position, or all by name")
    body: dict[str, Any] = {"args": list(args) if args else dict(named)}
    if timeout is not None:
        body["timeout"] = timeout
    if least:
        body["minTxid"] = dict(least)
    return json_body(body)


def json_body(content: Any) -> bytes:
    """Return a request's body as JSON.

    Dates, times, decimals and binary values are text, in the form the server reads.
    """
    return msgspec.json.encode(jsonable(content))
