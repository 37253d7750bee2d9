"""Merges as unions, and a join of any number of streams as DataFrame joins, in which null equals null."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField

from trident.base.spark_types import type_ddl
from trident.compiler.spark.plan_calls import selected
from trident.compiler.spark.sql_names import cast, plain, quoted
from trident.plan.joins import origins_of
from trident.plan.nodes import Join, Merge


def merged(node: Merge, frames: Sequence[DataFrame], names: Sequence[str]) -> DataFrame:
    """Return the rows of all frames with the fields `names`, in the merge's types. Fields correspond by position."""
    needed = set(names)
    fields = [(position, field) for position, field in enumerate(node.schema.fields) if field.name in needed]
    parts = []
    for number, (source, frame) in enumerate(zip(node.sources, frames, strict=True)):
        items = []
        for position, field in fields:
            if position == len(source.schema.fields):
                items.append(f"'{node.labels[number]}' AS {quoted(field.name)}")  # a label holds no quote
            else:
                items.append(_item(source.schema.fields[position], field))
        parts.append(selected(frame, items))
    return union(parts)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames. Columns correspond by position."""
    return reduce(lambda left, right: left.unionAll(right), frames)


def _item(source: StructField, field: StructField) -> str:
    if plain(source.dataType) != plain(field.dataType):
        return cast(quoted(source.name), field.dataType, field.name)
    return quoted(source.name) if source.name == field.name else f"{quoted(source.name)} AS {quoted(field.name)}"


def joined(node: Join, frames: Sequence[DataFrame], used: Sequence[Sequence[str]], names: Sequence[str]) -> DataFrame:
    """Return the joined tuples with the fields `names`. `used` holds, for each frame, the fields that the join reads.

    Streams that must have a tuple are joined first, by inner joins, so that only keys that all of them have remain. A
    stream that may be missing is then joined by a left join, wherever it is in the list. If all streams may be missing,
    each is joined to those before it by a full join, on the key of the first of them that has a tuple. The fields of
    every stream get unique names, because a stream can be joined with itself.
    """
    sides = [
        selected(frame, [f"{quoted(name)} AS {_side(at, name)}" for name in fields])
        for at, (frame, fields) in enumerate(zip(frames, used, strict=True))
    ]
    order = sorted(range(len(sides)), key=lambda at: node.outer[at])
    first = order[0]
    result = sides[first]
    for number, at in enumerate(order[1:], 1):
        before = order[:number] if node.outer[first] else [first]
        how = "inner" if not node.outer[at] else "full" if node.outer[first] else "left"
        pairs = [
            _keys_equal(
                _first_present([(side, node.keys[side][position]) for side in before]),
                _side(at, key),
                node.sources[at].schema[key].dataType,
            )
            for position, key in enumerate(node.keys[at])
        ]
        result = result.join(sides[at], on=F.expr(" AND ".join(pairs)), how=how)
    wanted = set(names)
    fields = zip(node.schema.fields, origins_of(node), strict=True)
    items = [cast(_first_present(from_), f.dataType, f.name) for f, from_ in fields if f.name in wanted]
    return selected(result, items)


_FOR_NULL = {"bigint": "-9223372036854775807L", "int": "-2147483647", "string": "'__trident_null'"}
"""A text that stands for null while keys are compared."""


def _keys_equal(left: str, right: str, kind: DataType) -> str:
    """Return the condition in SQL that two keys are equal; null equals null.

    Spark's own ``<=>`` sorts and hashes by two columns, the value and whether it is null, and costs a quarter more than
    ``=``. So a rare value replaces null, and a second condition distinguishes the two if that value occurs.
    """
    null = _FOR_NULL.get(type_ddl(kind))
    if null is None:
        return f"{left} <=> {right}"
    same = f"if(isnull({left}), isnull({right}), isnotnull({right}))"
    return f"coalesce({left}, {null}) = coalesce({right}, {null}) AND {same}"


def _first_present(fields: Sequence[tuple[int, str]]) -> str:
    """Return an SQL expression for the first of these fields that is not null."""
    listed = ", ".join(_side(*field) for field in fields)
    return listed if len(fields) == 1 else f"coalesce({listed})"


def _side(at: int, name: str) -> str:
    return quoted(f"{at}.{name}")
