"""Timers of stateful operations: the object passed to `onTimer`, and the plan form of timers."""

import datetime
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructField, StructType

from trident.base.callsite import CallSite
from trident.operations.aggregators import Aggregation
from trident.operations.functions import Operation
from trident.operations.records import FirstOfRecord
from trident.operations.windows import EventTime

AT, NAME = "at", "name"
"""The fields of a stored timer: its time in microseconds since 1970, and its name."""

_TIMER = StructType([StructField(AT, LongType()), StructField(NAME, StringType())])
VALUE, TIMERS = "value", "timers"
"""The fields of a record: the user's value, and the timers of the key in firing order."""

TIMED = "trident.TimedValue"
"""The name that stores record for values with timers."""


class Timer(NamedTuple):
    """A timer that fires, passed to `onTimer`. Each key has at most one timer of each name."""

    key: Any
    """The key for which the timer was set: the key field's value, or a tuple for several key fields."""

    at: datetime.datetime
    """The time for which the timer was set. It fires in the first batch whose clock has reached this time."""

    name: str
    """The name of the timer; "" if none was given."""


@dataclass(frozen=True, slots=True, eq=False)
class Timers:
    """The timers of a stateful operation in a plan.

    `operation` is called with each timer that fires. `value` is the type of the user's values. `config` is the event
    time of the clock; None means the batch time. At most `most` timers fire in one batch.
    """

    operation: Operation
    value: DataType
    config: EventTime | None
    most: int

    @property
    def site(self) -> CallSite:
        """The location of the timer function."""
        return self.operation.site

    @property
    def record(self) -> StructType:
        """The type of the stored values: the user's value and the timers of the key."""
        return StructType([StructField(VALUE, self.value), StructField(TIMERS, ArrayType(_TIMER))])

    @property
    def meaning(self) -> str:
        """The name that stores record for the values."""
        return TIMED if self.config is None else f"{TIMED} by {self.config.timestampField}"

    @property
    def presents(self) -> Aggregation:
        """The aggregation that returns the user's value of a record to queries."""
        return Aggregation(FirstOfRecord(), self.site, VALUE, self.record)
