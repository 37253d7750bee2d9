"""The tuples of several streams as tuples of one: the number of the stream, then the fields of all of them."""

from collections.abc import Sequence

from pyspark.sql import types as spark

from trident.base.types import ddl
from trident.plan.nodes import Part, Split

PLACE = "place"
"""The field that tells which stream a tuple is of. Every other has a number and a dot before its name."""


def split_schema(streams: Sequence[tuple[str, spark.StructType]]) -> spark.StructType:
    """What leaves a split into these streams: a tuple is null in the fields of all streams but its own.

    >>> from trident.base.types import parse_schema
    >>> ddl(split_schema([("orders", parse_schema("id long")), ("errors", parse_schema("line string"))]))
    'place tinyint NOT NULL, `0.id` bigint, `1.line` string'
    """
    fields = [spark.StructField(PLACE, spark.ByteType(), nullable=False)]
    for place, (_, schema) in enumerate(streams):
        fields += [spark.StructField(inside(place, field.name), field.dataType) for field in schema.fields]
    return spark.StructType(fields)


def inside(place: int, name: str) -> str:
    """What a field of the stream at this place is called in what leaves the split."""
    return f"{place}.{name}"


def own_fields(node: Part) -> dict[str, str]:
    """The fields of one stream: what each is called in what leaves the split, and there."""
    return {inside(node.place, name): name for name in node.schema.names}


def shown_streams(node: Split) -> str:
    """The streams of a split with their fields, as one reads them."""
    return ", ".join(f"{name}({ddl(schema)})" for name, schema in node.streams)
