"""The changes of a state as a client gets them: lines are parsed to events, and parts are joined to whole changes."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa

from trident.base import errors
from trident.client.answers import ServedRows

QUIET_SECONDS = 45.0
"""The seconds without an event after which a client gives up a connection. A server sends an event at least every 15
seconds."""


@dataclass(frozen=True)
class Change:
    """The changes of a state by one or more batches.

    Attributes
    ----------
    after, txid : the change covers the batches after `after`, up to `txid`. Usually one; several if the reader was
    late. committedAt : when the last of these batches was committed; None if the log does not say. rows : the keys that
    changed, each with its value as of `txid`: Rows of the key fields and the value. removed : the keys that have no
    value any more, as Rows of the key fields. snapshot : whether `rows` is the whole state as of `txid`, which replaces
    all earlier values. position : the reader's position after this change, for ``changes(name, after=position)``.
    """

    after: int
    txid: int
    committedAt: datetime | None
    rows: ServedRows
    removed: ServedRows
    snapshot: bool
    position: str


class Event(NamedTuple):
    """A Server-Sent Event."""

    kind: str
    data: str
    id: str | None


class EventReader:
    """A parser of Server-Sent Events. It gets the lines of a stream one by one.

    >>> reader = EventReader()
    >>> [reader.take(line) for line in ("id: 7", "event: position", 'data: {"txid":7}', "")][-1]
    Event(kind='position', data='{"txid":7}', id='7')
    """

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def take(self, line: str) -> Event | None:
        """Add a line. Return the event that this line completes; None if it completes none."""
        if line:
            name, _, value = line.partition(":")
            self._fields[name] = value.removeprefix(" ")
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None  # a comment
        return Event(fields.get("event", "message"), fields["data"], fields.get("id"))


class ChangesReader:
    """One reader's position in the changes of a state, and the parts of the current change that have arrived so far."""

    def __init__(self, state: str, after: int | str | None, snapshot: bool) -> None:
        if after is not None and snapshot:
            raise errors.TopologyError(
                "give either after= or snapshot=True, not both: a snapshot has no start position"
            )
        if isinstance(after, bool) or not isinstance(after, int | str | None):
            raise errors.TopologyError(f"after={after!r}: expected a txid, or the position of a change")
        self._path = f"/state/{quote(state, safe='')}/changes"
        self._snapshots = snapshot
        self.position: str | None = None if after is None else str(after)
        """The position after the last change that was read. Batches without changes also advance it."""
        self._parts: list[dict[str, Any]] = []

    def sent(self) -> dict[str, Any]:
        """Return the arguments of httpx's ``stream``. Drop parts of a change that came from a broken connection."""
        self._parts = []
        query = {"rows": "arrow"}
        if self.position is not None:
            query["after"] = self.position
        elif self._snapshots:
            query["snapshot"] = "true"
        return {"method": "GET", "url": self._path, "params": query, "headers": {"accept": "text/event-stream"}}

    def take(self, event: Event) -> Change | None:
        """Return the change that this event completes; None if the change is not complete.

        Raises StateEndedError after a drop or a reset, and ChangesMissedError if changes were missed, unless this
        reader takes snapshots.
        """
        told = json.loads(event.data)
        if event.kind == "position":
            self.position = event.id
        elif event.kind == "missed" and not self._snapshots:
            raise errors.ChangesMissedError(told["message"], told["from"], told["to"])
        elif event.kind == "missed":
            self._parts = []
        elif event.kind == "ended":
            kind = getattr(errors, told["type"], errors.StateError)
            raise kind(told["message"])
        elif event.kind in ("change", "snapshot"):
            if told["first"]:
                # A server that failed in the middle of a change sends it again: parts without a last part are dropped
                # (guard "feed, parts").
                self._parts = []
            self._parts.append(told)
            if told["last"]:
                self.position = event.id
                assert event.id is not None
                return self._joined(event.kind == "snapshot", event.id)
        return None

    def _joined(self, snapshot: bool, position: str) -> Change:
        """Return all parts as one change. A later part replaces the value of an earlier part for the same key."""
        parts, self._parts = self._parts, []
        last = parts[-1]
        tables = [(_table(part["entries"]), _table(part["gone"])) for part in parts]
        committed = None if last["committedAt"] is None else datetime.fromisoformat(last["committedAt"])
        entries, removed = tables[0] if len(tables) == 1 else _folded(tables)
        if snapshot:
            removed = removed.slice(0, 0)
        return Change(
            parts[0]["after"],
            last["txid"],
            committed,
            ServedRows(entries, {}),
            ServedRows(removed, {}),
            snapshot,
            position,
        )


def _table(text: str) -> pa.Table:
    return pa.ipc.open_stream(base64.b64decode(text)).read_all()


def _folded(tables: list[tuple[pa.Table, pa.Table]]) -> tuple[pa.Table, pa.Table]:
    """Return the entries and the removed keys of several parts.

    For each key, the last part that has the key decides.
    """
    fields = tables[0][1].column_names
    entries = pa.concat_tables([table for table, _ in tables], promote_options="permissive")
    removed = pa.concat_tables([table for _, table in tables])
    places: dict[Any, tuple[bool, int]] = {}
    at = gone = 0
    for table, keys in tables:
        for key in _keys(table, fields):
            places[key] = (True, at)
            at += 1
        for key in _keys(keys, fields):
            places[key] = (False, gone)
            gone += 1
    kept = pa.array([row for there, row in places.values() if there], pa.int64())
    lost = pa.array([row for there, row in places.values() if not there], pa.int64())
    return entries.take(kept), removed.take(lost)


def _keys(table: pa.Table, fields: list[str]) -> Iterator[Any]:
    """Yield each row's key as text, by which equal keys in several parts are found."""
    columns = [table.column(field).to_pylist() for field in fields]
    return map(repr, zip(*columns, strict=True)) if columns else iter([()] * table.num_rows)
