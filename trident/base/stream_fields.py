"""The fields of the tuples of several named streams in one table: the stream's number, then the fields of every stream.

A split emits its tuples in this form, and so does a spout that declares several streams.
"""

from collections.abc import Sequence

from pyspark.sql import types as spark

STREAM_NUMBER = "place"
"""The field with the number of a tuple's stream.

Every other field begins with a number and a dot, so no field of a user can have this name. The log stores this name
with waiting batches (`trident.compiler.outline`), so it must not change.
"""


def split_schema(streams: Sequence[tuple[str, spark.StructType]]) -> spark.StructType:
    """Return the fields of these streams' tuples in one table. A tuple has nulls in the fields of the other streams.

    >>> from trident.base.spark_types import ddl, parse_schema
    >>> ddl(split_schema([("orders", parse_schema("id long")), ("errors", parse_schema("line string"))]))
    'place tinyint NOT NULL, `0.id` bigint, `1.line` string'
    """
    fields = [spark.StructField(STREAM_NUMBER, spark.ByteType(), nullable=False)]
    for number, (_, schema) in enumerate(streams):
        fields += [spark.StructField(inside(number, field.name), field.dataType) for field in schema.fields]
    return spark.StructType(fields)


def inside(number: int, name: str) -> str:
    """Return the name of field `name` of stream `number` in the table of all streams."""
    return f"{number}.{name}"
