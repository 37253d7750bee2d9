"""A leaf of a plan whose rows the driver replaces before the plan is executed again.

The rows are one array of bytes in the driver's JVM. Spark copies them into a task when it launches the task, in local
mode too. So a task keeps the rows of its own job, however late it reads them. Executors need no file of the driver.
"""

import weakref
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from trident.base.spark_types import arrow_schema, spark_schema
from trident.base.value_conversion import conform

_THRESHOLD = "spark.sql.execution.arrow.localRelationThreshold"
"""The setting of Spark that decides whether rows are values of the plan, which are copied, or bytes of a task."""

_wraps: "weakref.WeakKeyDictionary[object, Any]" = weakref.WeakKeyDictionary()
"""For each Spark context, the Java method ``ByteBuffer.wrap(byte[])``."""


def message_of(table: pa.Table) -> bytes:
    """Return the rows of a table, at least one, as the Arrow message that a leaf takes."""
    schema = arrow_schema(spark_schema(table.schema))
    (batch,) = conform(table, schema).combine_chunks().to_batches()
    return bytes(batch.serialize())


@dataclass(frozen=True, slots=True)
class PlanLeaf:
    """A leaf: `frame` has the rows that were put last. `capacity` is the length of the longest message."""

    frame: DataFrame
    capacity: int
    _bytes: Any
    """A Java ByteBuffer over the array in the JVM. Py4J would return the array itself as a copy."""

    @classmethod
    def of(cls, session: SparkSession, schema: pa.Schema, capacity: int) -> "PlanLeaf":
        """Return a new leaf for tables of a schema. Raises an error of Py4J if this version of Spark makes none."""
        context: Any = session.sparkContext
        jvm = context._jvm  # noqa: SLF001
        array = context._gateway.new_array(jvm.java.lang.Object, 1)  # noqa: SLF001
        array[0] = bytes(capacity)
        messages = jvm.java.util.ArrayList()
        jvm.java.util.Collections.addAll(messages, array)
        buffer = _wrap(context).invoke(None, array)
        spark: Any = session
        fields = spark_schema(schema)
        before = session.conf.get(_THRESHOLD, None)
        session.conf.set(_THRESHOLD, "0")
        try:
            iterator = jvm.scala.jdk.javaapi.CollectionConverters.asScala(messages.iterator())
            jdf = jvm.PythonSQLUtils.toDataFrame(iterator, fields.json(), spark._jsparkSession)  # noqa: SLF001
        finally:
            if before is None:
                session.conf.unset(_THRESHOLD)
            else:
                session.conf.set(_THRESHOLD, before)
        frame = DataFrame(jdf, session)
        frame.__dict__["schema"] = fields  # else PySpark asks the JVM for it
        return cls(frame, capacity, buffer)

    def put(self, message: bytes) -> None:
        """Replace the rows. No job that reads the leaf may run. Bytes of a longer message before it are not read."""
        self._bytes.put(0, message)

    @property
    def rdd(self) -> int:
        """The number of the RDD of the rows. Raises Py4JError if the rows became values of the plan."""
        frame: Any = self.frame
        return int(frame._jdf.queryExecution().logical().rdd().id())  # noqa: SLF001


def _wrap(context: Any) -> Any:
    if context not in _wraps:
        jvm, gateway = context._jvm, context._gateway  # noqa: SLF001
        kinds = gateway.new_array(jvm.java.lang.Class, 1)
        kinds[0] = jvm.java.lang.Class.forName("[B")
        _wraps[context] = jvm.java.lang.Class.forName("java.nio.ByteBuffer").getMethod("wrap", kinds)
    return _wraps[context]
