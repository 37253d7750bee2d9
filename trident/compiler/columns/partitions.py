"""Partitions of tuples in memory, and what both engines need to place a tuple.

In the driver-side engine a tuple's partition is a hidden column, and tuples stand in the order of their partitions. It
is there only where a plan asks for more than one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import pyarrow as pa

from trident.base.types import arrow_schema, select
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.columns.failures import Where
from trident.compiler.columns.kernels import Work, kernel
from trident.operations.functions import Operation
from trident.plan.nodes import Node, Placing, Repartition
from trident.plan.partitions import Counts
from trident_state.keys import encode_keys, hash_keys

PARTITION = "\0partition"
"""The hidden column; no user can name a field so."""

_CHOICE = "__trident_partition"
_KIND = pa.int32()


# --- both engines ------------------------------------------------------------------------------------------------


def batch_place(txid: int, count: int) -> int:
    """The partition of a whole batch: the same at every attempt, spread over txids."""
    return (txid * 0x9E3779B97F4A7C15 >> 32) % count


@dataclass(frozen=True, slots=True)
class Choice:
    """A user's function, called with the number of partitions too; what it chooses is checked."""

    function: Callable[..., Any]
    count: int

    def __call__(self, *values: Any) -> list[int]:
        chosen = self.function(*values, self.count)
        listed = chosen if isinstance(chosen, list | tuple) else [chosen]
        for each in listed:
            if not isinstance(each, int | numpy.integer) or isinstance(each, bool) or not 0 <= each < self.count:
                raise ValueError(f"it chose partition {each!r}, there are 0 to {self.count - 1}")
        if not listed:
            raise ValueError("it chose no partition; a filter drops tuples")
        return [int(each) for each in listed]


def choice_of(node: Repartition, count: int) -> Work:
    """The work that appends the chosen partition to each tuple, once for each where they are several."""
    assert node.function is not None
    operation = node.function
    chooser = Operation(Choice(operation.target, count), operation.site, operation.call, many=True)
    outputs = pa.schema([pa.field(_CHOICE, _KIND)])
    return Work("each", Where(node.step, operation.site, node.names), chooser, outputs)


CHOICE = _CHOICE
"""The field that it appends."""


# --- the driver-side engine --------------------------------------------------------------------------------------


def spread(columns: Columns, count: int | None) -> Columns:
    """Tuples that come from anywhere, one after the other over the partitions."""
    return _at(columns, numpy.arange(columns.rows) % (count or 1))


def by_fields(columns: Columns, names: Sequence[str], schema: pa.Schema, count: int | None) -> Columns:
    """Equal values of these fields in one partition."""
    if (count or 1) == 1 or not columns.rows:
        return _at(columns, numpy.zeros(columns.rows, numpy.int64))
    keys = columns.select(names).table(pa.schema([schema.field(name) for name in names]))
    return _at(columns, hash_keys(encode_keys(keys)) % numpy.uint64(count or 1))


def in_one(columns: Columns, place: int) -> Columns:
    """All tuples in one partition."""
    return _at(columns, numpy.full(columns.rows, place))


def repartitioned(node: Repartition, columns: Columns, before: int | None, count: int | None, txid: int) -> Columns:
    """The tuples where this step brings them."""
    many = count or 1
    match node.how:
        case Placing.IDENTITY:
            return columns
        case Placing.LOCAL_OR_SHUFFLE if (before or 1) == many:
            return columns
        case Placing.SHUFFLE | Placing.LOCAL_OR_SHUFFLE:
            return spread(columns, count)
        case Placing.FIELDS:
            return by_fields(columns, node.names, arrow_schema(select(node.schema, node.names)), count)
        case Placing.BROADCAST:
            rows = numpy.tile(numpy.arange(columns.rows), many)
            return _at(columns.take(rows.tolist()), numpy.repeat(numpy.arange(many), columns.rows))
        case Placing.GLOBAL:
            return in_one(columns, 0)
        case Placing.BATCH_GLOBAL:
            return in_one(columns, batch_place(txid, many))
        case Placing.CUSTOM:
            work = choice_of(node, many)
            chosen = kernel(work, frozenset({*columns.names, _CHOICE}))(columns)
            places = numpy.asarray(chosen[_CHOICE].values(), numpy.int64)
            return _at(chosen.select(name for name in chosen.names if name != _CHOICE), places)


def in_order(columns: Columns) -> Columns:
    """Tuples that come with their partitions, in the order of these."""
    return _at(columns, columns[PARTITION].array().to_numpy(zero_copy_only=False))


def is_placed(nodes: Sequence[Node], counts: Counts) -> bool:
    """Whether partitions are anything to these nodes: somebody asks for more than one, or chooses among them."""
    chosen = any(isinstance(node, Repartition) and node.how is Placing.CUSTOM for node in nodes)
    return chosen or any((count or 1) > 1 for count in counts.values())


def numbered(columns: Columns, name: str) -> Columns:
    """The tuples with their partition as a field."""
    if PARTITION in columns.names:
        return columns.plus({name: columns[PARTITION]})
    return columns.plus({name: Column.of(pa.array(numpy.zeros(columns.rows, numpy.int32), _KIND))})


def every_part(requests: Columns | None, count: int) -> Columns:
    """One row a partition, or a request and partition, of the hidden columns alone."""
    rows = 1 if requests is None else requests.rows
    places = Column.of(pa.array(numpy.repeat(numpy.arange(count, dtype=numpy.int32), rows), _KIND))
    if requests is None:
        return Columns({PARTITION: places}, count)
    return requests.take(list(range(rows)) * count).plus({PARTITION: places})


def parts(columns: Columns) -> list[tuple[int, Columns]]:
    """The tuples of each partition that has any, with its index."""
    if PARTITION not in columns.names:
        return [(0, columns)] if columns.rows else []
    places = columns[PARTITION].array().to_numpy(zero_copy_only=False)
    found = []
    for place in numpy.unique(places).tolist():
        (rows,) = numpy.nonzero(places == place)
        found.append((place, columns.take(rows.tolist())))
    return found


def _at(columns: Columns, places: Any) -> Columns:
    """The tuples with these partitions, in their order."""
    order = numpy.argsort(places, kind="stable")
    ordered = pa.array(numpy.asarray(places)[order].astype(numpy.int32), _KIND)
    moved = columns if (order == numpy.arange(len(order))).all() else columns.take(order.tolist())
    return moved.plus({PARTITION: Column.of(ordered)})
