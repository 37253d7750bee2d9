"""The records of watermarks: beside the watermark they hold when the stream had its last tuple, for `idleAfter`."""

from typing import Any

from pyspark.sql.types import DataType, LongType, StructField, StructType

from trident.base.callsite import CallSite
from trident.operations.aggregates.base import BuiltinAggregator
from trident.operations.aggregators import Aggregation

WATERMARK, SEEN, THEN = "watermark", "seen", "then"
"""The fields of a record. The watermark; the time of the last batch with an event time, in microseconds since 1970, and
the watermark after that batch."""


def record_type(time: DataType) -> StructType:
    """Return the type of the records of a watermark whose times have this type."""
    return StructType([StructField(WATERMARK, time), StructField(SEEN, LongType()), StructField(THEN, time)])


def watermark_aggregation(site: CallSite, record: StructField) -> Aggregation:
    """Return the aggregation that shows queries the watermark of a record."""
    return Aggregation(WatermarkOf(), site, record.name, record.dataType)


class WatermarkOf(BuiltinAggregator):
    """The meaning of a watermark's record for queries: they see the watermark alone. It aggregates nothing."""

    def init(self, tuple: Any) -> Any:
        raise NotImplementedError("a step makes the records")

    def combine(self, a: Any, b: Any) -> Any:
        return b

    def zero(self) -> Any:
        return None

    def present(self, acc: Any) -> Any:
        """Return the watermark of a record."""
        return acc[0]

    def presented_type(self, accumulator: DataType) -> DataType | None:
        """Return the type of the watermark."""
        assert isinstance(accumulator, StructType)
        return accumulator[WATERMARK].dataType
