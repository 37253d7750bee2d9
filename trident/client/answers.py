"""Answers of a server as Arrow tables, with PySpark's Rows."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from trident.base.answer_rows import AnswerRows
from trident_client.answers import times_of


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


class ArrowAnswers:
    """Answers in Arrow, which have the types of the fields."""

    accept, feed = "application/vnd.apache.arrow.stream", "arrow"

    def txids(self, content: bytes, headers: Mapping[str, str]) -> dict[str, int]:
        return dict(json.loads(headers.get("trident-as-of-txid", "{}")))

    def rows(self, content: bytes, headers: Mapping[str, str]) -> ServedRows:
        table = pa.ipc.open_stream(content).read_all()
        times = times_of(json.loads(headers.get("trident-committed-at", "{}")))
        staleness = json.loads(headers.get("trident-staleness-ms", "null"))
        return ServedRows(table, self.txids(content, headers), headers.get("trident-after"), times, staleness)

    def changes(self, parts: Sequence[Mapping[str, Any]], snapshot: bool) -> tuple[ServedRows, ServedRows]:
        tables = [(_table(part["entries"]), _table(part["gone"])) for part in parts]
        entries, removed = tables[0] if len(tables) == 1 else _folded(tables)
        return ServedRows(entries, {}), ServedRows(removed.slice(0, 0) if snapshot else removed, {})


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
