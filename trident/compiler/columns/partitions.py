"""Partitions of tuples in memory, and the functions by which both engines choose the partition of a tuple.

In the embedded engine a tuple's partition is a hidden column, and tuples are kept in the order of their partitions. The
column exists only if a plan asks for more than one partition.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import pyarrow as pa

from trident.base.spark_types import arrow_schema, select
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.columns.function_errors import Where
from trident.compiler.columns.kernels import Work, kernel
from trident.operations.functions import Operation
from trident.plan.nodes import Node, Placing, Repartition
from trident.plan.partitions import Counts
from trident_state.keys import encode_keys, hash_keys

PARTITION = "\0partition"
"""The hidden column; users cannot give a field this name."""

CHOICE = "__trident_partition"
"""The field with the number of the partition that a user's function chose."""

_KIND = pa.int32()
PARTITION_FIELD = pa.field(PARTITION, _KIND)


# --- both engines ------------------------------------------------------------------------------------------------


def batch_partition(txid: int, count: int) -> int:
    """Return the partition for a whole batch. It is the same at every attempt; different txids use all partitions."""
    return (txid * 0x9E3779B97F4A7C15 >> 32) % count


@dataclass(frozen=True, slots=True)
class Choice:
    """A user's function that chooses partitions. It also gets the number of partitions, and its choice is checked."""

    function: Callable[..., Any]
    count: int

    def __call__(self, *values: Any) -> list[int]:
        chosen = self.function(*values, self.count)
        numbers = chosen if isinstance(chosen, list | tuple) else [chosen]
        for number in numbers:
            if not isinstance(number, int | numpy.integer) or isinstance(number, bool) or not 0 <= number < self.count:
                raise ValueError(f"it chose partition {number!r}; expected 0 to {self.count - 1}")
        if not numbers:
            raise ValueError("it returned no partition; to drop tuples use a filter")
        return [int(number) for number in numbers]


def choice_of(node: Repartition, count: int) -> Work:
    """Return the `Work` that appends the chosen partition to each tuple.

    A tuple for which several partitions are chosen is repeated for each of them.
    """
    assert node.function is not None
    operation = node.function
    chooser = Operation(Choice(operation.target, count), operation.site, operation.call, many=True)
    outputs = pa.schema([pa.field(CHOICE, _KIND)])
    return Work("each", Where(node.step, operation.site, node.names), chooser, outputs)


# --- the embedded engine --------------------------------------------------------------------------------------


def spread(columns: Columns, count: int | None) -> Columns:
    """Return the tuples, distributed over the partitions in turn."""
    return _placed(columns, numpy.arange(columns.rows) % (count or 1))


def by_fields(columns: Columns, names: Sequence[str], schema: pa.Schema, count: int | None) -> Columns:
    """Return the tuples, repartitioned so that those with equal values of the fields `names` share a partition."""
    if (count or 1) == 1 or not columns.rows:
        return _placed(columns, numpy.zeros(columns.rows, numpy.int64))
    keys = columns.select(names).table(pa.schema([schema.field(name) for name in names]))
    return _placed(columns, hash_keys(encode_keys(keys)) % numpy.uint64(count or 1))


def in_one(columns: Columns, partition: int) -> Columns:
    """Return all tuples in one partition."""
    return _placed(columns, numpy.full(columns.rows, partition))


def repartitioned_columns(
    node: Repartition, columns: Columns, count_before: int | None, count: int | None, txid: int
) -> Columns:
    """Return the tuples in the partitions to which this step sends them. A custom grouping calls the user's function.

    `count_before` and `count` are the numbers of partitions before and after the step; None if no hint was given.
    """
    total = count or 1
    match node.how:
        case Placing.IDENTITY:
            return columns
        case Placing.LOCAL_OR_SHUFFLE if (count_before or 1) == total:
            return columns
        case Placing.SHUFFLE | Placing.LOCAL_OR_SHUFFLE:
            return spread(columns, count)
        case Placing.FIELDS:
            return by_fields(columns, node.names, arrow_schema(select(node.schema, node.names)), count)
        case Placing.BROADCAST:
            rows = numpy.tile(numpy.arange(columns.rows), total)
            return _placed(columns.take(rows.tolist()), numpy.repeat(numpy.arange(total), columns.rows))
        case Placing.GLOBAL:
            return in_one(columns, 0)
        case Placing.BATCH_GLOBAL:
            return in_one(columns, batch_partition(txid, total))
        case Placing.CUSTOM:
            work = choice_of(node, total)
            chosen = kernel(work, frozenset({*columns.names, CHOICE}))(columns)
            partitions = numpy.asarray(chosen[CHOICE].values(), numpy.int64)
            return _placed(chosen.select(name for name in chosen.names if name != CHOICE), partitions)


def in_order(columns: Columns) -> Columns:
    """Return the tuples sorted by the partition in the hidden column. Within a partition their order stays the same."""
    return _placed(columns, columns[PARTITION].array().to_numpy(zero_copy_only=False))


def is_partitioned(nodes: Sequence[Node], counts: Counts) -> bool:
    """Return whether the result of these nodes depends on partitions.

    It does if a hint asks for more than one partition, or if a user's function chooses partitions.
    """
    chosen = any(isinstance(node, Repartition) and node.how is Placing.CUSTOM for node in nodes)
    return chosen or any((count or 1) > 1 for count in counts.values())


def numbered(columns: Columns, name: str) -> Columns:
    """Return the tuples with the number of their partition as the field `name`."""
    if PARTITION in columns.names:
        return columns.plus({name: columns[PARTITION]})
    return columns.plus({name: Column.of(pa.array(numpy.zeros(columns.rows, numpy.int32), _KIND))})


def every_partition(requests: Columns | None, count: int) -> Columns:
    """Return a row with only the hidden columns for each partition, or for each pair of request and partition."""
    rows = 1 if requests is None else requests.rows
    partitions = Column.of(pa.array(numpy.repeat(numpy.arange(count, dtype=numpy.int32), rows), _KIND))
    if requests is None:
        return Columns({PARTITION: partitions}, count)
    return requests.take(list(range(rows)) * count).plus({PARTITION: partitions})


def parts(columns: Columns) -> list[tuple[int, Columns]]:
    """Return the number and the tuples of each partition that has tuples."""
    if PARTITION not in columns.names:
        return [(0, columns)] if columns.rows else []
    partitions = columns[PARTITION].array().to_numpy(zero_copy_only=False)
    pairs = []
    for partition in numpy.unique(partitions).tolist():
        (rows,) = numpy.nonzero(partitions == partition)
        pairs.append((partition, columns.take(rows.tolist())))
    return pairs


def _placed(columns: Columns, partitions: Any) -> Columns:
    """Return the tuples sorted by `partitions` (one for each tuple), which becomes the hidden column."""
    order = numpy.argsort(partitions, kind="stable")
    ordered = pa.array(numpy.asarray(partitions)[order].astype(numpy.int32), _KIND)
    moved = columns if (order == numpy.arange(len(order))).all() else columns.take(order.tolist())
    return moved.plus({PARTITION: Column.of(ordered)})
