"""Watermark records: the watermark, and the time of the stream's last tuple for `idleAfter`."""

from pyspark.sql.types import DataType, LongType, StructField, StructType

from trident.base.callsite import CallSite
from trident.operations.aggregators import Aggregation
from trident.operations.records import FirstOfRecord

WATERMARK, SEEN, THEN = "watermark", "seen", "then"
"""The fields of a record: the watermark; the time of the last batch with an event time, in microseconds since 1970;
the watermark after that batch."""


def record_type(time: DataType) -> StructType:
    """Return the record type of a watermark whose times have this type."""
    return StructType([StructField(WATERMARK, time), StructField(SEEN, LongType()), StructField(THEN, time)])


def watermark_aggregation(site: CallSite, record: StructField) -> Aggregation:
    """Return the aggregation that returns a record's watermark to queries."""
    return Aggregation(FirstOfRecord(), site, record.name, record.dataType)
