"""The event times of a group's windows, for progress events and status: watermarks and numbers of late rows."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from trident.operations.watermark_records import WATERMARK
from trident.plan.nodes import Watermark
from trident_state.store import Store

_GLOBAL = pa.table({"": pa.nulls(1)}).select([])
"""The only key of a state without key fields."""


DROPPED = "numRowsDroppedByWatermark"
"""The name that Structured Streaming uses for the number of late rows."""


@dataclass(frozen=True, slots=True)
class WindowTime:
    """A window's watermark after a batch (ISO 8601; None before the first time), and how many rows the batch dropped.

    A row is a tuple, or, if a combiner has combined the tuples before they enter the window, all tuples of one group
    and pane. Then `dropped` is at most the number of dropped tuples, and 0 only if none was late.
    """

    watermark: str | None
    dropped: int

    def as_dict(self) -> dict[str, Any]:
        """Return the time as progress events show it."""
        return {"watermark": self.watermark, DROPPED: self.dropped}


class EventTime:
    """Returns the event times of a group's windows. Only the commit thread calls it."""

    def __init__(self, stores: Mapping[str, Store]) -> None:
        self._stores = stores
        self._watermarks: dict[str, str | None] = {}

    def of(self, marks: Sequence[Watermark], tables: Mapping[str, pa.Table], dropped: int, txid: int) -> WindowTime:
        """Return the time of a window or a join after batch `txid`, which dropped `dropped` of its rows.

        `marks` are the watermarks of its streams, of which the least counts; there is none before each stream has one.
        `tables` are the batch's writes into states, by name. The watermarks' states hold the batch already.
        """
        times = [self._watermark(mark, tables, txid) for mark in marks]
        known = [time for time in times if time is not None]
        return WindowTime(min(known) if len(known) == len(times) else None, dropped)

    def _watermark(self, node: Watermark, tables: Mapping[str, pa.Table], txid: int) -> str | None:
        name = node.state.name
        moved = tables.get(name)
        if moved is not None and moved.num_rows:
            self._watermarks[name] = _iso(moved.column(moved.num_columns - 1), node)
        elif name not in self._watermarks:  # the first batch of this run did not change the watermark
            self._watermarks[name] = _iso(self._stores[name].read(_GLOBAL, txid).values, node)
        return self._watermarks[name]


def _iso(values: pa.Array | pa.ChunkedArray, node: Watermark) -> str | None:
    """Return a watermark (the only one of `values`) as ISO 8601: in UTC, or without a zone if its field has none."""
    (micros,) = pc.struct_field(values, WATERMARK).cast(pa.int64()).to_pylist()
    if micros is None:
        return None
    record = node.schema.fields[-1].dataType
    assert isinstance(record, StructType)
    zone = datetime.UTC if record[WATERMARK].dataType.typeName() == "timestamp" else None
    time = datetime.datetime(1970, 1, 1, tzinfo=zone) + datetime.timedelta(microseconds=micros)
    return time.isoformat(timespec="milliseconds")
