"""Stored values that are records, of which queries see the first field."""

from typing import Any

from pyspark.sql.types import DataType, StructType

from trident.operations.aggregates.base import BuiltinAggregator


class FirstOfRecord(BuiltinAggregator):
    """Shows queries the first field of a record, which a step makes. It aggregates nothing."""

    def init(self, tuple: Any) -> Any:
        raise NotImplementedError("a step makes the records")

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
