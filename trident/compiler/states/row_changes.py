"""The changes from some rows to others, over whole columns: the rows of a table, or the results of windows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident_state.binary_arrays import one_chunk
from trident_state.encoding import encode_column

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NumberedRows:
    """Rows, each with the number of its subject.

    Several rows may have the same subject; their order distinguishes them.
    """

    rows: pa.Table
    numbers: Numbers

    @classmethod
    def only(cls, rows: pa.Table, there: pa.BooleanArray) -> "NumberedRows":
        """Return the rows that exist, each numbered by its position among all."""
        return cls(rows.filter(there), there.to_numpy(zero_copy_only=False).nonzero()[0])


def row_changes(before: NumberedRows, after: NumberedRows, schema: pa.Schema) -> pa.Table:
    """Return the changes in the order of the numbers: for an update the row before, then the row after.

    `schema` has the fields of the rows, then the kind of change. Unchanged rows are not in the result.
    """
    old, new = _places(before.numbers, after.numbers)
    at_old, at_new = _pairs(old, new)
    pairs = zip(_taken(before.rows, at_old), _taken(after.rows, at_new), strict=True)
    same = all_of([equal(one, other) for one, other in pairs]).to_numpy(zero_copy_only=False)
    taken, added = _without(len(old), at_old[same]), _without(len(new), at_new[same])
    order = np.argsort(np.concatenate([2 * old[taken], 2 * new[added] + 1]), kind="stable")
    leaves = pc.if_else(pa.array(_marked(len(old), at_old)[taken]), "update_preimage", "delete")
    comes = pc.if_else(pa.array(_marked(len(new), at_new)[added]), "update_postimage", "insert")
    places = pa.array(np.concatenate([taken, len(old) + added])[order])
    columns = [
        _one_array(was, now).take(places) for was, now in zip(before.rows.columns, after.rows.columns, strict=True)
    ]
    columns.append(pa.concat_arrays([leaves, comes]).take(pa.array(order)))
    made = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(made, schema=schema)


def _one_array(*columns: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays([one_chunk(column) for column in columns])


def _pairs(old: Numbers, new: Numbers) -> tuple[Numbers, Numbers]:
    """Return the positions of the numbers that are in both. No number occurs twice in either."""
    if not (_ascend(old) and _ascend(new)):
        _, at_old, at_new = np.intersect1d(old, new, assume_unique=True, return_indices=True)
        return at_old, at_new
    at = np.searchsorted(new, old)
    found = np.zeros(len(old), np.bool_)
    inside = at < len(new)
    found[inside] = new[at[inside]] == old[inside]
    return found.nonzero()[0], at[found]


def _ascend(numbers: Numbers) -> bool:
    return bool((np.diff(numbers) > 0).all())


def _taken(rows: pa.Table, at: Numbers) -> list[pa.Array]:
    return [one_chunk(column).take(pa.array(at)) for column in rows.columns]


def _without(count: int, left_out: Numbers) -> Numbers:
    return (~_marked(count, left_out)).nonzero()[0]


def _marked(count: int, at: Numbers) -> npt.NDArray[np.bool_]:
    """Return for each of this many positions whether it is listed."""
    marks = np.zeros(count, np.bool_)
    marks[at] = True
    return marks


def _places(*numbers: Numbers) -> list[Numbers]:
    """Return a unique number for each row: its own number combined with its rank among equal numbers."""
    if all(map(_ascend, numbers)):
        return [*numbers]
    positions = [_positions(own) for own in numbers]
    width = 1 + max((int(own.max()) for own in positions if len(own)), default=0)
    return [own * width + at for own, at in zip(numbers, positions, strict=True)]


def _positions(numbers: Numbers) -> Numbers:
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    positions = np.empty(len(order), np.int64)
    positions[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return positions


def equal(one: pa.Array, other: pa.Array) -> pa.BooleanArray:
    """Return for each row whether two values are the same: null is null, NaN is NaN, and -0.0 is not 0.0.

    A function may distinguish two zeros, so the removed row must be exactly the added one.
    """
    if kinds.is_nested(one.type) or kinds.is_floating(one.type):
        one, other = encode_column(one_chunk(one)), encode_column(one_chunk(other))
    same = pc.fill_null(pc.equal(one, other), False)  # noqa: FBT003
    return pc.or_(same, pc.and_(one.is_null(), other.is_null()))


def all_of(conditions: Sequence[pa.BooleanArray]) -> pa.BooleanArray:
    """Return for each row whether all conditions hold."""
    first, *others = conditions
    for each in others:
        first = pc.and_(first, each)
    return first
