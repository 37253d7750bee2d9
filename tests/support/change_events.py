"""Histories of a table as messages of Kafka: events of Debezium, and a compacted topic with tombstones."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.support.changes import Change

Message = tuple[bytes, bytes | None]
"""The key and the value of a message."""

ROW = "id long, g string, v long"


@dataclass
class Connector:
    """A connector that writes changes as Debezium does. It draws what Debezium leaves open."""

    seed: int
    full: bool = True
    """False: the database sends only the key of a row that is replaced or deleted."""
    snapshot: bool = True
    """The first events are those of a snapshot."""

    def __post_init__(self) -> None:
        self._chance = Random(self.seed)
        self._sent = list[Message]()

    def messages(self, changes: Iterable[Change], repeats: int = 0) -> list[Message]:
        """Return the messages of changes, behind the last `repeats` ones, as a restarted connector sends them."""
        written = self._sent[len(self._sent) - repeats :] if repeats else []
        before: dict[str, Any] | None = None
        for *values, kind in changes:
            row = dict(zip(("id", "g", "v"), values, strict=True))
            if kind == "update_preimage":
                before = row
                continue
            op = {"insert": "r" if self.snapshot else "c", "update_postimage": "u", "delete": "d"}[kind]
            gone = row if op == "d" else before if op == "u" else None
            event = {"before": self._before(gone, op), "after": None if op == "d" else row, "op": op, "ts_ms": 1}
            written.append((_json({"id": row["id"]}), self._value(event)))
            if op == "d" and self._chance.random() < 0.8:
                written.append((_json({"id": row["id"]}), None))
            if self._chance.random() < 0.1:
                written.append((b"", _json({"op": "m", "message": {"prefix": "x", "content": ""}})))
        self.snapshot = False
        self._sent += written
        return written

    def _before(self, row: dict[str, Any] | None, op: str) -> dict[str, Any] | None:
        if row is None or self.full:
            return row
        made_up = self._chance.choice(({}, {"g": None, "v": None}, {"g": "", "v": 0}))
        return None if op == "u" else {"id": row["id"], **made_up}

    def _value(self, event: dict[str, Any]) -> bytes:
        wrapped = self._chance.random() < 0.5
        return _json({"schema": {"type": "struct"}, "payload": event} if wrapped else event)


def compacted(changes: Iterable[Change]) -> list[Message]:
    """Return changes as messages of a compacted topic: the latest row of each key, or a tombstone."""
    written = list[Message]()
    for id, group, value, kind in changes:
        if kind != "update_preimage":
            written.append((_json({"id": id}), None if kind == "delete" else _json({"g": group, "v": value})))
    return written


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
