"""Requests to a server and its answers, without network code: both clients share them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from trident_client import errors
from trident_client.json_values import decoded, jsonable
from trident_client.rows import Row

SAFE_STATUSES = (429, 503)
"""Statuses after which the same request is repeated, because the server may soon be able to answer."""

RowsT = TypeVar("RowsT", bound="AnsweredRows")
FormT = TypeVar("FormT", bound="AnsweredRows", covariant=True)


class AnsweredRows(Protocol):
    """The rows of an answer, with the batches that they show."""

    txids: dict[str, int]
    after: str | None

    @property
    def asOfTxid(self) -> int | dict[str, int] | None: ...

    def __iter__(self) -> Any: ...


class AnswerForm(Protocol[FormT]):
    """The form of a server's answers: how a client asks for it, and reads it.

    `accept` is the media type of a table, and `feed` the name of the form in a feed of changes.
    """

    accept: str
    feed: str

    def txids(self, content: bytes, headers: Mapping[str, str]) -> dict[str, int]:
        """Return the txids that an answer shows, by batch group."""
        ...

    def rows(self, content: bytes, headers: Mapping[str, str]) -> FormT:
        """Return the rows of an answer."""
        ...

    def changes(self, parts: Sequence[Mapping[str, Any]], snapshot: bool) -> tuple[FormT, FormT]:
        """Return the changed entries and the removed keys in the parts of a change; a snapshot has no removed keys.

        A later part replaces the value of an earlier part for the same key.
        """
        ...


class ServedRows(list[Row]):
    """The rows of an answer, as a list.

    Attributes
    ----------
    fields : the names of the rows' fields. txids : the txid of each batch group as of which the answer was read, by the
    group's name. committedAt : when each of these batches was committed, by its driver's clock; None if the log does
    not say. stalenessMs : milliseconds from the oldest of these commits to the answer; None if one of them is not
    known. after : the cursor of the next page; None after the last page.
    """

    def __init__(
        self,
        fields: Sequence[str],
        rows: Sequence[Sequence[Any]],
        txids: Mapping[str, int] | None = None,
        after: str | None = None,
        committedAt: Mapping[str, datetime | None] | None = None,
        stalenessMs: int | None = None,
    ) -> None:
        super().__init__(Row.of(fields, row) for row in rows)
        self.fields = tuple(fields)
        self.txids = dict(txids or {})
        self.after = after
        self.committedAt = dict(committedAt or {})
        self.stalenessMs = stalenessMs

    @property
    def asOfTxid(self) -> int | dict[str, int] | None:
        """The txid of the last batch that the answer shows; a dict by batch group if there are several."""
        if len(self.txids) > 1:
            return self.txids
        return next(iter(self.txids.values()), None)


class JsonAnswers:
    """Answers in JSON, whose values get the types that the server names."""

    accept, feed = "application/vnd.trident.rows+json", "typed"

    def txids(self, content: bytes, headers: Mapping[str, str]) -> dict[str, int]:
        return dict(json.loads(content).get("asOfTxid") or {})

    def rows(self, content: bytes, headers: Mapping[str, str]) -> ServedRows:
        told: dict[str, Any] = json.loads(content)
        return ServedRows(
            told["fields"],
            decoded(told["rows"], told["types"]),
            told.get("asOfTxid"),
            told.get("after"),
            times_of(told.get("committedAt") or {}),
            told.get("stalenessMs"),
        )

    def changes(self, parts: Sequence[Mapping[str, Any]], snapshot: bool) -> tuple[ServedRows, ServedRows]:
        fields, keys = parts[0]["fields"], parts[0]["keys"]
        entries: dict[str, Sequence[Any]] = {}
        removed: dict[str, Sequence[Any]] = {}
        for part in parts:
            types = part["types"]  # of values that a user's function shows: each part has types of its values
            for row, values in zip(part["rows"], decoded(part["rows"], types), strict=True):
                key = json.dumps(row[: len(keys)])
                entries[key] = values
                removed.pop(key, None)
            for row, values in zip(part["removed"], decoded(part["removed"], types[: len(keys)]), strict=True):
                key = json.dumps(row)
                removed[key] = values
                entries.pop(key, None)
        return ServedRows(fields, [*entries.values()]), ServedRows(keys, [] if snapshot else [*removed.values()])


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


def times_of(told: Mapping[str, str | None]) -> dict[str, datetime | None]:
    """Return the time at which the batch of each batch group was committed."""
    return {group: None if time is None else datetime.fromisoformat(time) for group, time in told.items()}


def error_of(status: int, content: bytes, url: str) -> Exception:
    """Return the error that an answer describes. It has the server's error type, if this library has that type."""
    try:
        told: dict[str, Any] = json.loads(content)["error"]
        kind, message = str(told["type"]), str(told["message"])
    except (ValueError, KeyError, TypeError):
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
    return json.dumps(jsonable(content), allow_nan=False).encode()
