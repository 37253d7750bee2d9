"""Stored values that are records; queries see their first field."""

from typing import Any

from pyspark.sql.types import DataType, StructType

from trident.operations.aggregates.base import BuiltinAggregator


class FirstOfRecord(BuiltinAggregator):
    """An aggregator that shows queries the first field of a record. It aggregates nothing."""

    def init(self, tuple: Any) -> Any:
        raise NotImplementedError("the records are written by a step, not by an aggregator")

    def combine(self, a: Any, b: Any) -> Any:
        return b

    def zero(self) -> Any:
        return None

    def present(self, acc: Any) -> Any:
        """Return the first field of a record."""
        return acc[0]

    def presented_type(self, accumulator: DataType) -> DataType | None:
        """Return the type of the first field."""
        assert isinstance(accumulator, StructType)
        return accumulator.fields[0].dataType
