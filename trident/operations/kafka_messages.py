"""The function that refuses tuples that Kafka could not accept, before their batch is frozen."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trident.operations.column_functions import ColumnFunction

_NAME = r"[a-zA-Z0-9._-]{1,249}"
_TOPIC = re.compile(_NAME)
_FOLDERS = (".", "..")
OF_BROKERS = "which is an internal topic of the brokers"
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")
"""Kafka's internal topics: writing to them damages offsets and transactions."""


def is_topic(name: str) -> bool:
    """Return whether a message may be written to a topic of this name: it is valid, and not internal to Kafka.

    >>> is_topic("shop.orders"), is_topic("shop orders"), is_topic(".."), is_topic("__consumer_offsets")
    (True, False, False, False)
    """
    return _TOPIC.fullmatch(name) is not None and name not in _FOLDERS and name not in INTERNAL


@dataclass(frozen=True)
class Deliverable(ColumnFunction):
    """A function that returns the fields `topic` and `headers` unchanged; each of them may be None (absent).

    Raises ValueError for a string that is not a topic name, for a null header, and for a header without a key.
    """

    topic: str | None
    headers: str | None

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(name for name in (self.topic, self.headers) if name is not None)

    def __call__(self, *values: Any) -> Any:
        given = dict(zip(self.fields, values, strict=True))
        topic = given.get(self.topic) if self.topic else None
        if topic is not None and not is_topic(topic):
            why = OF_BROKERS if topic in INTERNAL else "which is not a valid topic name"
            raise ValueError(
                f"topicField {self.topic!r} is {topic[:300]!r}, {why}: expected 1 to 249 letters a to z, digits, '.', "
                f"'_' and '-', or null; correct the name, or filter such tuples out before it"
            )
        for header in (given.get(self.headers) if self.headers else None) or ():
            if header is None or header[0] is None:
                raise ValueError(
                    f"headers {self.headers!r} has {'a null' if header is None else 'a header whose key is null'}: "
                    "expected a key in each header; remove such headers, or filter such tuples out before it"
                )
        return values if len(values) > 1 else values[0]

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        given = dict(zip(self.fields, inputs, strict=True))
        topics = _are_topics(given[self.topic]) if self.topic else True
        named = _are_named(given[self.headers]) if self.headers else True
        return list(inputs) if topics and named else None


def _are_topics(texts: pa.Array) -> bool:
    right = pc.and_not(
        pc.match_substring_regex(texts, f"^{_NAME}$"), pc.is_in(texts, pa.array([*_FOLDERS, *INTERNAL], texts.type))
    )
    newline = pc.any(pc.match_substring(texts, "\n")).as_py()  # "$" would also match before a line break
    return pc.all(right).as_py() is not False and not newline


def _are_named(headers: pa.Array) -> bool:
    found = headers.flatten()
    return not (found.null_count or found.field(0).null_count)
