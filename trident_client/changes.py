"""The changes of a state as a client gets them: bytes are parsed to events, and parts are joined to whole changes."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple
from urllib.parse import quote

from trident_client import errors
from trident_client.answers import AnswerForm, RowsT

QUIET_SECONDS = 45.0
"""The seconds without an event after which a client gives up a connection. A server sends an event at least every 15
seconds."""


@dataclass(frozen=True)
class Change(Generic[RowsT]):
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
    rows: RowsT
    removed: RowsT
    snapshot: bool
    position: str


class Event(NamedTuple):
    """A Server-Sent Event."""

    kind: str
    data: str
    id: str | None


_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)
"""The end of a line of Server-Sent Events. A carriage return counts only if the next byte shows which end it is.

Text has more characters at which `str.splitlines`, and so the lines of httpx, end: U+2028, U+2029, U+0085 and others.
A value may contain them."""


class EventReader:
    r"""A parser of Server-Sent Events. It gets the bytes of a stream piece by piece.

    >>> reader = EventReader()
    >>> list(reader.take(b"id: 7\r\nevent: position\ndata: {}")), list(reader.take(b"\n\n"))
    ([], [Event(kind='position', data='{}', id='7')])
    """

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}
        self._line: list[bytes] = []
        """The parts of a line whose end has not come. They are joined once, because a line may have many megabytes."""

    def take(self, piece: bytes) -> Iterator[Event]:
        """Add bytes, and yield the events that they complete."""
        if self._line and self._line[-1].endswith(b"\r"):
            piece = self._line.pop() + piece
        *ended, rest = _LINE_END.split(piece)
        for end in ended:
            line, self._line = b"".join([*self._line, end]).decode(), []
            if line:
                name, _, value = line.partition(":")
                self._fields[name] = value.removeprefix(" ")
                continue
            fields, self._fields = self._fields, {}
            if "data" in fields:  # otherwise a comment
                yield Event(fields.get("event", "message"), fields["data"], fields.get("id"))
        self._line.append(rest)


class ChangesReader(Generic[RowsT]):
    """One reader's position in the changes of a state, and the parts of the current change that have arrived so far."""

    def __init__(self, form: AnswerForm[RowsT], state: str, after: int | str | None, snapshot: bool) -> None:
        if after is not None and snapshot:
            raise errors.TopologyError(
                "give either after= or snapshot=True, not both: a snapshot has no start position"
            )
        if isinstance(after, bool) or not isinstance(after, int | str | None):
            raise errors.TopologyError(f"after={after!r}: expected a txid, or the position of a change")
        self._path = f"/state/{quote(state, safe='')}/changes"
        self._form, self._snapshots = form, snapshot
        self.position: str | None = None if after is None else str(after)
        """The position after the last change that was read. Batches without changes also advance it."""
        self._parts: list[dict[str, Any]] = []

    def sent(self) -> dict[str, Any]:
        """Return the arguments of httpx's ``stream``. Drop parts of a change that came from a broken connection."""
        self._parts = []
        query = {"rows": self._form.feed}
        if self.position is not None:
            query["after"] = self.position
        elif self._snapshots:
            query["snapshot"] = "true"
        return {"method": "GET", "url": self._path, "params": query, "headers": {"accept": "text/event-stream"}}

    def take(self, event: Event) -> Change[RowsT] | None:
        """Return the change that this event completes; None if the change is not complete.

        Raises StateEndedError after a drop or a reset, ChangesMissedError if changes were missed, unless this reader
        takes snapshots, and ServerError if the change does not begin at this reader's position.
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
            self._check_gap(event.kind, self._parts[0])
            if told["last"]:
                self.position = event.id
                assert event.id is not None
                return self._joined(event.kind == "snapshot", event.id)
        return None

    def _check_gap(self, kind: str, part: Mapping[str, Any]) -> None:
        """Refuse a change without its first part, or one that does not begin at the position: a part was lost."""
        known = None if self.position is None or kind == "snapshot" else int(self.position.rpartition("-")[2])
        if not part["first"] or known not in (None, part["after"]):
            raise errors.ServerError(
                f"{self._path}: the changes between position {self.position} and the change of the batches "
                f"{part['after']} to {part['txid']} are missing: the server, or a proxy in front of it, skipped them; "
                f"request the changes again from this position, after={self.position!r}"
            )

    def _joined(self, snapshot: bool, position: str) -> Change[RowsT]:
        """Return all parts as one change."""
        parts, self._parts = self._parts, []
        last = parts[-1]
        committed = None if last["committedAt"] is None else datetime.fromisoformat(last["committedAt"])
        entries, removed = self._form.changes(parts, snapshot)
        return Change(parts[0]["after"], last["txid"], committed, entries, removed, snapshot, position)
