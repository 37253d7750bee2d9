"""Combiners by Arrow's own grouping, where it says what Spark says and is quicker than a loop."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.compiler.aggregates.folds import FoldMember, FoldSpec, folded, folded_partials
from trident.compiler.columns.columns import Columns

_FEW = 256
"""From so many rows on Arrow counts and sums faster than a Python loop."""


def fold_columns(spec: FoldSpec, parts: Sequence[Columns]) -> Columns:
    """Every key of these tuples with its accumulators."""
    if sum(part.rows for part in parts) >= _FEW:
        quick = [quick_partial(spec, part) for part in parts]
        if all(part is not None for part in quick):
            return quick_merge(spec, [part for part in quick if part is not None])
    return folded(spec, parts)


def met(spec: FoldSpec, partials: pa.Table) -> Columns:
    """Partial accumulators from several partitions, met by key; without key fields one row, also of none."""
    if partials.num_rows >= _FEW and meets_quickly(spec):
        return _met_by_arrow(spec, partials)
    if not partials.num_rows and not spec.keys.names:
        return spec.zeros()
    return folded_partials(spec, partials)


def meets_quickly(spec: FoldSpec) -> bool:
    """Whether Arrow's grouping says of partial accumulators what Spark says: flat keys, whole numbers, no NaN rules."""
    flat = bool(spec.keys.names) and not any(
        kinds.is_nested(kind) or kinds.is_floating(kind) for kind in spec.keys.types
    )
    return flat and all(map(_meets_quickly, spec.members))


def quick_partial(spec: FoldSpec, columns: Columns) -> pa.Table | None:
    """The partial accumulators of these tuples by Arrow's own grouping; None where it would not say what Spark says.

    Arrow keeps 0.0 and -0.0 apart: a merge has to follow.
    """
    if not _quick(spec, columns):
        return None
    arrays = [columns[name].array() for name in spec.keys.names]
    values: list[pa.Array | None] = []
    for member in spec.members:
        inputs = member.where.inputs
        counts = member.aggregation.native == "count"
        values.append(None if counts else columns[inputs[0]].array().cast(member.kind))
    return _grouped(arrays, spec, values, [str(member.aggregation.native) for member in spec.members])


def quick_merge(spec: FoldSpec, partials: Sequence[pa.Table]) -> Columns:
    """Partial accumulators of `quick_partial`, met by key as Spark means equal."""
    if len(partials) == 1 and not any(map(kinds.is_floating, spec.keys.types)):
        return Columns.of(partials[0], spec.schema)
    return _met_by_arrow(spec, pa.concat_tables(partials))


def _met_by_arrow(spec: FoldSpec, partials: pa.Table) -> Columns:
    """The same of one table with a key in several rows; by a loop where Arrow's sum might not hold it."""
    width = len(spec.keys)
    hows = ["sum" if m.aggregation.native == "count" else str(m.aggregation.native) for m in spec.members]
    values = [column.combine_chunks() for column in partials.columns[width:]]
    overflows = any(how == "sum" and not _cannot_overflow(value) for how, value in zip(hows, values, strict=True))
    if overflows or any(map(kinds.is_floating, spec.keys.types)):
        return folded_partials(spec, partials)
    return Columns.of(_grouped(partials.columns[:width], spec, values, hows), spec.schema)


def _meets_quickly(member: FoldMember) -> bool:
    native = member.aggregation.native
    if native in ("count", "sum"):
        return bool(kinds.is_int64(member.kind))
    return native in ("min", "max") and _plain(member.kind)


def _quick(spec: FoldSpec, columns: Columns) -> bool:
    """Whether Arrow's grouping says what Spark says: flat keys, whole numbers that cannot overflow, no NaN rules."""
    if not spec.keys.names or any(map(kinds.is_nested, spec.keys.types)):
        return False
    return all(_quick_member(member, columns) for member in spec.members)


def _quick_member(member: FoldMember, columns: Columns) -> bool:
    native = member.aggregation.native
    if native == "count":
        return True
    if native not in ("sum", "min", "max"):
        return False
    value = columns[member.where.inputs[0]].array()
    if native == "sum":
        return kinds.is_integer(value.type) and kinds.is_int64(member.kind) and _cannot_overflow(value)
    return _plain(value.type)


def _plain(kind: pa.DataType) -> bool:
    """Whether Arrow orders values of this type as Spark does."""
    return any(test(kind) for test in (kinds.is_integer, kinds.is_string, kinds.is_date))


def _cannot_overflow(value: pa.Array) -> bool:
    extremes = pc.min_max(value).as_py()
    largest = max(abs(extremes["min"] or 0), abs(extremes["max"] or 0))
    return bool(largest * len(value) < 2**63)


def _grouped(keys: Sequence[Any], spec: FoldSpec, values: Sequence[pa.Array | None], hows: Sequence[str]) -> pa.Table:
    """One row a key with each member's accumulator; a member without values counts rows."""
    names = [f"k{at}" for at in range(len(keys))]
    given = {f"v{at}": value for at, value in enumerate(values) if value is not None}
    asked: list[tuple[Any, str]] = [(f"v{at}", hows[at]) for at, value in enumerate(values) if value is not None]
    if len(asked) < len(values):
        asked.append(([], "count_all"))  # whoever has no values counts rows
    table = pa.table([*keys, *given.values()], names=[*names, *given])
    grouped = table.group_by(names, use_threads=False).aggregate(asked)
    found = [grouped.column(name) for name in names]
    for at, member in enumerate(spec.members):
        result = grouped.column("count_all" if values[at] is None else f"v{at}_{hows[at]}").cast(member.kind)
        found.append(result.fill_null(0) if member.aggregation.native == "sum" else result)  # of nothing but nulls
    return pa.Table.from_arrays(found, schema=spec.schema)
