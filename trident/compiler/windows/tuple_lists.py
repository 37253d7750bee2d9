"""Tuples that wait in a window's state: columns are packed into lists of structs, and unpacked."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trident.compiler.columns.columns import Column, Columns
from trident_state.binary_arrays import one_chunk

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TupleLists:
    """The format in which a state stores tuples.

    `kind` is the type of a stored list, whose elements are structs of a tuple and perhaps its time. `inputs` are the
    tuple's fields; there are none if the aggregator reads none.
    """

    kind: pa.DataType
    inputs: pa.Schema

    def elements(self, tuples: Columns, times: pa.Array | None = None) -> pa.Array:
        """Return an element for each tuple: a struct of the tuple and, if `times` is given, its time."""
        element = self.kind.value_type
        inner = element.field("tuple").type
        arrays = [tuples[name].array() for name in self.inputs.names] or [pa.nulls(tuples.rows, pa.bool_())]
        struct = pa.StructArray.from_arrays(arrays, fields=list(inner))
        return pa.StructArray.from_arrays([struct] if times is None else [struct, times], fields=list(element))

    def lists(self, elements: pa.Array, numbers: npt.ArrayLike, offsets: npt.ArrayLike) -> pa.Array:
        """Return the elements with these numbers as lists. `offsets` are the positions at which lists begin and end."""
        chosen = elements.take(pa.array(np.asarray(numbers, np.int64)))
        return pa.ListArray.from_arrays(pa.array(np.asarray(offsets, np.int32)), chosen, type=self.kind)

    def tuples(self, elements: pa.Array) -> Columns:
        """Return the tuples in these elements, as columns of the input fields."""
        fields = elements.field("tuple").flatten() if len(self.inputs) else []
        pairs = zip(self.inputs, fields, strict=True)
        return Columns({field.name: Column(field.type, array, None) for field, array in pairs}, len(elements))

    def times(self, elements: pa.Array) -> Ids:
        """Return the times in these elements, in microseconds since 1970."""
        return microseconds(elements.field("time"))


def flattened(lists: pa.Array) -> tuple[pa.Array, list[int]]:
    """Return the elements of all lists, and the offsets at which lists begin and end. A null is an empty list."""
    counts = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return lists.flatten(), offsets.tolist()


def microseconds(times: pa.Array | pa.ChunkedArray) -> Ids:
    """Return times without nulls, in microseconds since 1970."""
    micros: Ids = one_chunk(times).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return micros


def timestamps(micros: npt.ArrayLike, kind: pa.DataType) -> pa.Array:
    """Return microseconds since 1970 as times of this type."""
    return pa.array(np.asarray(micros, np.int64), pa.int64()).cast(kind)
