"""Selections of whole tuples, such as the first ones or the greatest one, by one function for both engines.

A selection may be made in each part of the tuples, and then among the selected tuples, with the same result.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest, nsmallest
from typing import Any

import numpy
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.errors import UserFunctionError
from trident.base.short_texts import raised
from trident.compiler.columns.columns import Column, Columns, made_tuples
from trident.compiler.columns.function_errors import Calling, Where, short
from trident.compiler.columns.key_numbers import KeyNumbers
from trident.operations.selections import Extreme, First, Picking
from trident.operations.tuples import tuple_type
from trident.plan.nodes import Pick


@dataclass(frozen=True, slots=True, eq=False)
class PickSpec:
    """A selection, in the form in which it is sent to workers."""

    where: Where
    picking: Picking

    @classmethod
    def of(cls, node: Pick) -> "PickSpec":
        """Return the spec of this node."""
        return cls(Where(node.step, node.picking.site, node.inputs), node.picking)


def picked(spec: PickSpec, columns: Columns, apart: Sequence[str] = ()) -> Columns:
    """Return the selected tuples. Tuples with different values in the fields `apart` are selected separately."""
    if not apart:
        return columns.take(_rows(spec, columns))
    groups: dict[int, list[int]] = {}
    index = KeyNumbers([columns[name].kind for name in apart])
    for row, number in enumerate(index.numbers([columns[name] for name in apart], columns.rows)):
        groups.setdefault(number, []).append(row)
    selected: list[int] = []
    for rows in groups.values():
        own = columns.select(spec.where.inputs).take(rows) if spec.where.inputs else Columns({}, len(rows))
        selected += [rows[row] for row in _rows(spec, own)]
    return columns.take(selected)


def _rows(spec: PickSpec, columns: Columns) -> list[int]:
    """Return the numbers of the selected rows, in the order of the result."""
    picking = spec.picking
    if isinstance(picking, First):
        return _first(picking, spec.where, columns)
    if picking.whole:
        row = _extreme(spec, _tuples(spec.where, columns), range(columns.rows))
        return [] if row is None else [row]
    column = columns[spec.where.inputs[0]]
    by_arrow = None if picking.comparator is not None else _by_arrow(column, picking.greatest)
    if by_arrow is not None:
        return by_arrow
    values = column.values()
    row = _extreme(spec, values, [at for at, value in enumerate(values) if value is not None])
    return [] if row is None else [row]


def _tuples(where: Where, columns: Columns) -> list[Any]:
    return list(made_tuples(tuple_type(where.inputs), columns.lists(where.inputs), columns.rows))


def _by_arrow(column: Column, greatest: bool) -> list[int] | None:
    """Return a list with the row of the extreme value (empty if all are null); None if Arrow orders unlike Spark."""
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
    """Return the row of the extreme value among these rows, the last of several equal ones; None without rows."""
    picking = spec.picking
    assert isinstance(picking, Extreme)
    compare, sign = picking.comparator or _compare, 1 if picking.greatest else -1
    best: int | None = None
    row = 0

    def compared() -> str:
        return f"comparing {short(values[row])} with {short(values[best or 0])}"

    def failed(cause: BaseException) -> UserFunctionError:
        return spec.where.error(f"{raised(cause)}; {compared()}", cause)

    with Calling(failed):
        for row in rows:
            order = sign if best is None else compare(values[row], values[best])
            if isinstance(order, bool) or not isinstance(order, int | float | numpy.number):
                hint = "a comparator returns a number below 0, 0 or above 0"
                raise spec.where.error(f"gave {short(order)}; {compared()} ({hint})")
            if sign * order >= 0:
                best = row
    return best


def _compare(a: Any, b: Any) -> int:
    left, right = _rank(a), _rank(b)
    return (left > right) - (left < right)


def _rank(value: Any) -> tuple[Any, ...]:
    """Return a sort key that orders values as Spark does: NaN is greater than every number."""
    return (0, value) if value == value else (1,)


def _first(picking: First, where: Where, columns: Columns) -> list[int]:
    if not where.inputs:
        return list(range(min(picking.count, columns.rows)))
    values = columns[where.inputs[0]].values()
    known = [row for row, value in enumerate(values) if value is not None]
    choose = nlargest if picking.reverse else nsmallest
    first = choose(picking.count, known, key=lambda row: _rank(values[row]))
    nulls = (row for row, value in enumerate(values) if value is None)
    return [*first, *(row for row, _ in zip(nulls, range(picking.count - len(first)), strict=False))]
