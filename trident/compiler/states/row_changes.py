"""The changes from some rows to others, over whole columns: the rows of a table, or the results of windows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident_state.binary import one_chunk
from trident_state.encoding import encode_column

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NumberedRows:
    """Rows, each with the number of the thing that it describes.

    Several rows may describe one thing: they are told apart by their order.
    """

    rows: pa.Table
    numbers: Numbers

    @classmethod
    def only(cls, rows: pa.Table, there: pa.BooleanArray) -> "NumberedRows":
        """Return those of the rows that are there, each numbered by its position among all."""
        return cls(rows.filter(there), there.to_numpy(zero_copy_only=False).nonzero()[0])


def row_changes(before: NumberedRows, after: NumberedRows, schema: pa.Schema) -> pa.Table:
    """Return the changes in the order of the numbers: for an update the row before, then the row after.

    `schema` has the fields of the rows, then the kind of change. Rows that stay as they are give nothing.
    """
    old, new = _places(before.numbers, after.numbers)
    _, at_old, at_new = np.intersect1d(old, new, assume_unique=True, return_indices=True)
    pairs = zip(_taken(before.rows, at_old), _taken(after.rows, at_new), strict=True)
    same = all_of([equal(one, other) for one, other in pairs]).to_numpy(zero_copy_only=False)
    taken, added = _without(len(old), at_old[same]), _without(len(new), at_new[same])
    order = pa.array(
        np.lexsort((np.repeat([0, 1], [len(taken), len(added)]), np.concatenate([old[taken], new[added]])))
    )
    columns = [
        pa.concat_arrays([was, now])
        for was, now in zip(_taken(before.rows, taken), _taken(after.rows, added), strict=True)
    ]
    leaves = np.where(np.isin(taken, at_old), "update_preimage", "delete")
    comes = np.where(np.isin(added, at_new), "update_postimage", "insert")
    columns.append(pa.array(np.concatenate([leaves, comes]), pa.string()))
    made = [column.take(order).cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(made, schema=schema)


def _taken(rows: pa.Table, at: Numbers) -> list[pa.Array]:
    return [one_chunk(column).take(pa.array(at)) for column in rows.columns]


def _without(count: int, left_out: Numbers) -> Numbers:
    kept = np.ones(count, np.bool_)
    kept[left_out] = False
    return kept.nonzero()[0]


def _places(*numbers: Numbers) -> list[Numbers]:
    """Return for each row one number from the number that it has, and its position among the rows with that number."""
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

    A function may see in which way two zeros differ. So the row that is taken away must be the one that was added.
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
