"""Tuples that wait in a window's state: columns packed into lists of structs, and back."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trident.compiler.columns.columns import Column, Columns

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Held:
    """How tuples are held: `kind` is the list's type (of structs of the tuple and perhaps its time), `inputs` are the
    tuple's fields, none where the aggregator reads none."""

    kind: pa.DataType
    inputs: pa.Schema

    def elements(self, tuples: Columns, times: pa.Array | None = None) -> pa.Array:
        """One struct a tuple."""
        element = self.kind.value_type
        inner = element.field("tuple").type
        arrays = [tuples[name].array() for name in self.inputs.names] or [pa.nulls(tuples.rows, pa.bool_())]
        struct = pa.StructArray.from_arrays(arrays, fields=list(inner))
        return pa.StructArray.from_arrays([struct] if times is None else [struct, times], fields=list(element))

    def lists(self, elements: pa.Array, ids: npt.ArrayLike, offsets: npt.ArrayLike) -> pa.Array:
        """Elements by their numbers, cut into lists."""
        taken = elements.take(pa.array(np.asarray(ids, np.int64)))
        return pa.ListArray.from_arrays(pa.array(np.asarray(offsets, np.int32)), taken, type=self.kind)

    def tuples(self, elements: pa.Array) -> Columns:
        """The input fields of elements."""
        fields = elements.field("tuple").flatten() if len(self.inputs) else []
        named = zip(self.inputs, fields, strict=True)
        return Columns({field.name: Column(field.type, array, None) for field, array in named}, len(elements))

    def times(self, elements: pa.Array) -> Ids:
        """The times of elements, in microseconds."""
        return numbers(elements.field("time"))


def flattened(lists: pa.Array) -> tuple[pa.Array, list[int]]:
    """The elements of all lists, and where each list begins and ends among them; a null is an empty list."""
    counts = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return lists.flatten(), offsets.tolist()


def one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def numbers(times: pa.Array | pa.ChunkedArray) -> Ids:
    """Times without nulls in microseconds since 1970."""
    found: Ids = one(times).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def moments(micros: npt.ArrayLike, kind: pa.DataType) -> pa.Array:
    """Microseconds since 1970 as times of this type."""
    return pa.array(np.asarray(micros, np.int64), pa.int64()).cast(kind)
