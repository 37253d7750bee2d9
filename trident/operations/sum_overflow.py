"""Advice for a sum that overflows its type."""

from pyspark.sql import types as spark

from trident.base.spark_types import type_ddl
from trident.operations.aggregators import Aggregation

BEYOND = "a sum is beyond"
"""The words that the SQL of a sum uses to report an overflow to this library."""


def beyond_type(aggregation: Aggregation, inputs: tuple[str, ...]) -> str:
    """Return the message for a sum that overflows its type, with the way out; "" for any other aggregator.

    `inputs` are the aggregator's input fields.
    """
    total = _total_type(aggregation)
    if total is None:
        return ""
    return f"the sum of {inputs[0]!r} does not fit {type_ddl(total)}; {wider_input(aggregation, inputs)}"


def wider_input(aggregation: Aggregation, inputs: tuple[str, ...]) -> str:
    """Return how to avoid the overflow of a built-in sum or average; "" for other aggregators."""
    total = _total_type(aggregation)
    if total is None:
        return ""
    wider = "a double" if isinstance(total, spark.DecimalType) else "a double or a decimal(38, 0)"
    cast = f"each({{{inputs[0]!r}: col({inputs[0]!r}).cast('double')}}, replace=True)"
    return f"convert its input field to {wider} first, with {cast}; or filter such values out"


def _total_type(aggregation: Aggregation) -> spark.DataType | None:
    """Return the type of the sum in a built-in sum or average; None for other aggregators and for doubles."""
    kind = aggregation.type
    if aggregation.native == "average":
        assert isinstance(kind, spark.StructType)
        kind = kind.fields[0].dataType
    elif aggregation.native != "sum":
        return None
    return None if isinstance(kind, spark.DoubleType) else kind
