"""Rows in the driver's memory, included in Spark's plan."""

import weakref
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.spark_types import arrow_schema
from trident.base.value_conversion import conform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_calls: "weakref.WeakKeyDictionary[object, tuple[Any, Any]]" = weakref.WeakKeyDictionary()
"""For each Spark context, the two functions of its JVM that create a DataFrame from Arrow batches."""


def rows_in_plan(spark: "SparkSession", table: pa.Table, schema: StructType) -> "DataFrame":
    """Return ``spark.createDataFrame(table, schema)``.

    On classic Spark this is a file and two calls to the JVM. PySpark makes some forty more calls: it reads eight
    settings of the session, looks up its classes, and makes the session the active session of the process.
    """
    context = getattr(spark, "_sc", None)
    if context is None or context._encryption_enabled:  # noqa: SLF001
        return spark.createDataFrame(table, schema=schema)
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer

    read, frame_of = _calls.get(context) or _look_up(context)
    batches = conform(table, arrow_schema(schema)).to_batches()
    rows = context._serialize_to_jvm(batches, ArrowStreamSerializer(), read, None)  # noqa: SLF001
    frame = DataFrame(frame_of(rows, schema.json(), spark._jsparkSession), spark)  # noqa: SLF001
    frame.__dict__["schema"] = schema  # otherwise PySpark would call the JVM for it
    return frame


def _look_up(context: Any) -> tuple[Any, Any]:
    utils = context._jvm.PythonSQLUtils  # noqa: SLF001
    _calls[context] = utils.readArrowStreamFromFile, utils.toDataFrame
    return _calls[context]
