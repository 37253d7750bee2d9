"""Partitions of DataFrames: exactly as many as a hint sets, and each tuple in the partition that its step needs."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from trident.compiler.columns.partitions import CHOICE, batch_partition
from trident.compiler.spark.plan_calls import selected
from trident.compiler.spark.sql_names import all_quoted, quoted
from trident.plan.nodes import Placing, Repartition

PARTITION_ID = "__trident_place"
"""The field from which a Python worker reads the number of its partition."""


def spread(frame: DataFrame, count: int) -> DataFrame:
    """Return the tuples, spread evenly over this number of partitions."""
    return frame.repartition(count)


def by_fields(frame: DataFrame, names: Sequence[str], count: int | None) -> DataFrame:
    """Return the tuples, repartitioned so that those with equal values of the fields `names` share a partition."""
    columns = [F.col(name) for name in all_quoted(names)]
    return frame.repartition(*columns) if count is None else frame.repartition(count, *columns)


def in_one(frame: DataFrame, partition: int, count: int) -> DataFrame:
    """Return all tuples in partition `partition` of `count` partitions. The other partitions are empty."""
    return frame.repartition(1) if count == 1 else frame.repartitionById(count, F.lit(partition))


def side_by_side(frame: DataFrame, count: int) -> DataFrame:
    """Return a union of frames that each have `count` partitions, as a frame with `count` partitions.

    The first partitions of all frames become the first partition, and so on.
    """
    return frame.repartitionById(count, F.pmod(F.spark_partition_id(), F.lit(count)))


def chosen(frame: DataFrame, names: Sequence[str], count: int) -> DataFrame:
    """Return the tuples with the fields `names`, each in the partition that its hidden field `CHOICE` names."""
    return frame.repartitionById(count, F.col(CHOICE)).select(*all_quoted(names))


def copied(frame: DataFrame, names: Sequence[str], count: int) -> DataFrame:
    """Return a copy of every tuple in every partition."""
    if count == 1:
        return frame.repartition(1)
    every = frame.selectExpr(*all_quoted(names), f"explode(sequence(0, {count - 1})) AS {quoted(CHOICE)}")
    return chosen(every, names, count)


def repartitioned(
    node: Repartition,
    frame: DataFrame,
    names: Sequence[str],
    before: int | None,
    count: int | None,
    partitions: int,
    txid: int,
) -> DataFrame:
    """Return the tuples in the partitions to which this step sends them.

    Steps with a user's function use `chosen` instead.

    `count` is the number of partitions that a hint gives, or None. `partitions` is the engine's own number, for tuples
    that are spread without a hint.
    """
    match node.how:
        case Placing.IDENTITY:
            return frame
        case Placing.LOCAL_OR_SHUFFLE if before == count:
            return frame
        case Placing.FIELDS:
            return by_fields(frame, node.names, count)
        case Placing.BROADCAST:
            return copied(frame, names, count or 1)
        case Placing.GLOBAL:
            return in_one(frame, 0, count or 1)
        case Placing.BATCH_GLOBAL:
            return in_one(frame, batch_partition(txid, count or 1), count or 1)
    return spread(frame, count or partitions)


def numbered(frame: DataFrame, fields: Sequence[str], own: str, count: int) -> DataFrame:
    """Return the tuples with the fields `fields`, and in the field `own` the number of their partition of `frame`."""
    number = "CAST(0 AS INT)" if count == 1 else "spark_partition_id()"
    return selected(frame, [*all_quoted(fields), f"{number} AS {quoted(own)}"])
