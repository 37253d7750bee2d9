"""Whole tuples picked out of many: one kernel for both engines. What was picked of parts can be picked again of all."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest, nsmallest
from typing import Any

import numpy
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.errors import FailedException
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.columns.failures import Where, short
from trident.compiler.columns.keys import KeyIndex
from trident.operations.selections import Extreme, First, Picking
from trident.operations.tuples import tuple_type
from trident.plan.nodes import Pick


@dataclass(frozen=True, slots=True, eq=False)
class PickSpec:
    """A picking step as it travels to the workers."""

    where: Where
    picking: Picking

    @classmethod
    def of(cls, node: Pick) -> "PickSpec":
        """The spec of a node."""
        return cls(Where(node.step, node.picking.site, node.inputs), node.picking)


def picked(spec: PickSpec, columns: Columns, apart: Sequence[str] = ()) -> Columns:
    """The tuples that are picked; of tuples with different values of the fields `apart` by themselves."""
    if not apart:
        return columns.take(_rows(spec, columns))
    groups: dict[int, list[int]] = {}
    index = KeyIndex([columns[name].kind for name in apart])
    for row, place in enumerate(index.places([columns[name] for name in apart], columns.rows)):
        groups.setdefault(place, []).append(row)
    found: list[int] = []
    for rows in groups.values():
        own = columns.select(spec.where.inputs).take(rows) if spec.where.inputs else Columns({}, len(rows))
        found += [rows[row] for row in _rows(spec, own)]
    return columns.take(found)


def _rows(spec: PickSpec, columns: Columns) -> list[int]:
    """The rows that are picked, in their new order."""
    picking = spec.picking
    if isinstance(picking, First):
        return _first(picking, spec.where, columns)
    if picking.whole:
        row = _extreme(spec, _tuples(spec.where, columns), range(columns.rows))
        return [] if row is None else [row]
    column = columns[spec.where.inputs[0]]
    quick = None if picking.comparator is not None else _by_arrow(column, picking.greatest)
    if quick is not None:
        return quick
    values = column.values()
    row = _extreme(spec, values, [at for at, value in enumerate(values) if value is not None])
    return [] if row is None else [row]


def _tuples(where: Where, columns: Columns) -> list[Any]:
    lists = columns.lists(where.inputs)
    return list(map(tuple_type(where.inputs), zip(*lists, strict=True)))


def _by_arrow(column: Column, greatest: bool) -> list[int] | None:
    """The row of the extreme value where Arrow orders as Spark does; None where it does not."""
    kind = column.kind
    if not (kinds.is_integer(kind) or kinds.is_string(kind) or kinds.is_date(kind) or kinds.is_timestamp(kind)):
        return None
    array = column.array()
    extreme = pc.min_max(array)["max" if greatest else "min"]
    if not extreme.is_valid:
        return []
    (rows,) = numpy.nonzero(pc.equal(array, extreme).fill_null(False).to_numpy(zero_copy_only=False))
    return [int(rows[-1])]


def _extreme(spec: PickSpec, values: Sequence[Any], rows: Iterable[int]) -> int | None:
    """The row of the extreme one of these; the last of equal ones."""
    picking = spec.picking
    assert isinstance(picking, Extreme)
    compare, sign = picking.comparator or _compare, 1 if picking.greatest else -1
    best: int | None = None
    for row in rows:
        if best is None or sign * _compared(spec, compare, values[row], values[best]) >= 0:
            best = row
    return best


def _compared(spec: PickSpec, compare: Any, a: Any, b: Any) -> Any:
    if compare is _compare:
        return _compare(a, b)
    try:
        found = compare(a, b)
    except FailedException:
        raise
    except (Exception, SystemExit) as cause:
        what = f"raised {type(cause).__name__}: {cause}; comparing {short(a)} with {short(b)}"
        raise spec.where.error(what, cause) from cause
    if isinstance(found, bool) or not isinstance(found, int | float | numpy.number):
        hint = "a comparator gives a number below 0, 0 or above 0"
        raise spec.where.error(f"gave {short(found)}; comparing {short(a)} with {short(b)} ({hint})")
    return found


def _compare(a: Any, b: Any) -> int:
    left, right = _rank(a), _rank(b)
    return (left > right) - (left < right)


def _rank(value: Any) -> tuple[Any, ...]:
    """What orders values as Spark does: NaN is greater than every number."""
    return (0, value) if value == value else (1,)


def _first(picking: First, where: Where, columns: Columns) -> list[int]:
    if not where.inputs:
        return list(range(min(picking.count, columns.rows)))
    values = columns[where.inputs[0]].values()
    there = [row for row, value in enumerate(values) if value is not None]
    choose = nlargest if picking.reverse else nsmallest
    found = choose(picking.count, there, key=lambda row: _rank(values[row]))
    nulls = (row for row, value in enumerate(values) if value is None)
    return [*found, *(row for row, _ in zip(nulls, range(picking.count - len(found)), strict=False))]
