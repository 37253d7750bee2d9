"""Combiners by Arrow's own grouping, where it agrees with Spark and is faster than a loop."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.compiler.aggregates.folds import FoldMember, FoldSpec, folded, folded_partials
from trident.compiler.columns.columns import Columns

_FEW = 256
"""From this number of rows on Arrow counts and sums faster than a Python loop."""


def fold_columns(spec: FoldSpec, parts: Sequence[Columns]) -> Columns:
    """Return every key of these tuples with its accumulators."""
    if sum(part.rows for part in parts) >= _FEW:
        partials = [arrow_partial(spec, part) for part in parts]
        if all(part is not None for part in partials):
            return arrow_merge(spec, [part for part in partials if part is not None])
    return folded(spec, parts)


def merge_partials(spec: FoldSpec, partials: pa.Table) -> Columns:
    """Merge partial accumulators of several partitions by key.

    Without key fields the result is one row, also if there are no accumulators.
    """
    if partials.num_rows >= _FEW and arrow_can_merge(spec):
        return _merge_in_arrow(spec, partials)
    if not partials.num_rows and not spec.keys.names:
        return spec.zeros()
    return folded_partials(spec, partials)


def arrow_can_merge(spec: FoldSpec) -> bool:
    """Return whether Arrow can merge these partial accumulators as Spark does.

    It can for flat keys, whole numbers and values without NaN rules.
    """
    flat = bool(spec.keys.names) and not any(
        kinds.is_nested(kind) or kinds.is_floating(kind) for kind in spec.keys.types
    )
    return flat and all(map(_member_can_merge, spec.members))


def arrow_partial(spec: FoldSpec, columns: Columns) -> pa.Table | None:
    """Return the partial accumulators of these tuples by Arrow's grouping; None where Spark would differ.

    Arrow keeps 0.0 and -0.0 apart: a merge has to follow.
    """
    if not _arrow_can_fold(spec, columns):
        return None
    arrays = [columns[name].array() for name in spec.keys.names]
    values: list[pa.Array | None] = []
    for member in spec.members:
        inputs = member.where.inputs
        counts = member.aggregation.native == "count"
        values.append(None if counts else columns[inputs[0]].array().cast(member.kind))
    return _grouped(arrays, spec, values, [str(member.aggregation.native) for member in spec.members])


def arrow_merge(spec: FoldSpec, partials: Sequence[pa.Table]) -> Columns:
    """Merge partial accumulators of `arrow_partial` by key, equal as Spark means it."""
    if len(partials) == 1 and not any(map(kinds.is_floating, spec.keys.types)):
        return Columns.of(partials[0], spec.schema)
    return _merge_in_arrow(spec, pa.concat_tables(partials))


def _merge_in_arrow(spec: FoldSpec, partials: pa.Table) -> Columns:
    """Merge the rows of one table that have the same key.

    A Python loop does it where Arrow's sum might overflow.
    """
    width = len(spec.keys)
    hows = ["sum" if m.aggregation.native == "count" else str(m.aggregation.native) for m in spec.members]
    values = [column.combine_chunks() for column in partials.columns[width:]]
    overflows = any(how == "sum" and not _cannot_overflow(value) for how, value in zip(hows, values, strict=True))
    if overflows or any(map(kinds.is_floating, spec.keys.types)):
        return folded_partials(spec, partials)
    return Columns.of(_grouped(partials.columns[:width], spec, values, hows), spec.schema)


def _member_can_merge(member: FoldMember) -> bool:
    native = member.aggregation.native
    if native in ("count", "sum"):
        return bool(kinds.is_int64(member.kind))
    return native in ("min", "max") and _orders_like_spark(member.kind)


def _arrow_can_fold(spec: FoldSpec, columns: Columns) -> bool:
    """Return whether Arrow can fold these tuples as Spark does.

    It can for flat keys, whole numbers that cannot overflow and values without NaN rules.
    """
    if not spec.keys.names or any(map(kinds.is_nested, spec.keys.types)):
        return False
    return all(_member_can_fold(member, columns) for member in spec.members)


def _member_can_fold(member: FoldMember, columns: Columns) -> bool:
    native = member.aggregation.native
    if native == "count":
        return True
    if native not in ("sum", "min", "max"):
        return False
    value = columns[member.where.inputs[0]].array()
    if native == "sum":
        return kinds.is_integer(value.type) and kinds.is_int64(member.kind) and _cannot_overflow(value)
    return _orders_like_spark(value.type)


def _orders_like_spark(kind: pa.DataType) -> bool:
    """Return whether Arrow orders values of this type as Spark does."""
    return any(test(kind) for test in (kinds.is_integer, kinds.is_string, kinds.is_date))


def _cannot_overflow(value: pa.Array) -> bool:
    extremes = pc.min_max(value).as_py()
    largest = max(abs(extremes["min"] or 0), abs(extremes["max"] or 0))
    return bool(largest * len(value) < 2**63)


def _grouped(keys: Sequence[Any], spec: FoldSpec, values: Sequence[pa.Array | None], hows: Sequence[str]) -> pa.Table:
    """Return one row for each key with each member's accumulator; a member without values counts rows."""
    names = [f"k{at}" for at in range(len(keys))]
    inputs = {f"v{at}": value for at, value in enumerate(values) if value is not None}
    wanted: list[tuple[Any, str]] = [(f"v{at}", hows[at]) for at, value in enumerate(values) if value is not None]
    if len(wanted) < len(values):
        wanted.append(([], "count_all"))
    table = pa.table([*keys, *inputs.values()], names=[*names, *inputs])
    grouped = table.group_by(names, use_threads=False).aggregate(wanted)
    columns = [grouped.column(name) for name in names]
    for at, member in enumerate(spec.members):
        result = grouped.column("count_all" if values[at] is None else f"v{at}_{hows[at]}").cast(member.kind)
        columns.append(result.fill_null(0) if member.aggregation.native == "sum" else result)  # of nulls alone
    return pa.Table.from_arrays(columns, schema=spec.schema)
