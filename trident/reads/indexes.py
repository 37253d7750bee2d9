"""Reads of the entries of a state by the fields of an index, a separate state (`operations.table_indexes`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.errors import StateKeyError
from trident.operations.table_indexes import Listed, Lookup, find_keys, index_name, list_parts, read_parts
from trident.reads.committed_reads import Snapshot
from trident.reads.key_tables import key_table
from trident_state.binary_arrays import one_chunk
from trident_state.key_order import order_of, unordered_field
from trident_state.keys import encode_keys
from trident_state.state_shape import StateShape

_PART_BYTES = 2
"""The number of bytes of a part's number in a key's position, which is the number and the key's bytes in order."""


@dataclass(frozen=True, slots=True)
class Index:
    """The index of a state: its name, its key fields (those of the index, then the part), the key fields of the state.

    The methods read it through a snapshot, which must have the index and the state as of one txid.
    """

    name: str
    keys: pa.Schema
    own: pa.Schema

    @property
    def fields(self) -> pa.Schema:
        """The fields by which entries are found."""
        return pa.schema(list(self.keys)[:-1])

    def values(self, state: str, values: Sequence[Any]) -> pa.Table:
        """Return values of the fields as a table. Raises StateKeyError if the type of one is wrong."""
        return key_table(f"{state} by {', '.join(self.fields.names)}", self.fields, list(values))

    def keys_with(self, snapshot: Snapshot, values: pa.Table) -> pa.Table:
        """Return the keys of the entries with one of these values, in no order."""
        return pa.table(find_keys(*self._columns(snapshot, values)), schema=self.own)

    def page_with(
        self, snapshot: Snapshot, value: pa.Table, limit: int | None, after: bytes
    ) -> tuple[pa.Table, bytes | None]:
        """Return the keys of a page of the entries with a value, in the order of `orders`, and the position of its end.

        The pages follow the parts of the index, so that a page reads only the parts of its keys. `value` has one row,
        and `after` is the end position of the previous page; b"" for the first page. The returned position is None
        after the last page.
        """
        columns, lookup = self._columns(snapshot, value)
        listed = list_parts(columns, lookup)
        if limit is not None:
            listed = _parts_of_page(listed, limit, after)
        parts, fields = read_parts(columns, listed, lookup)
        keys = pa.table(fields, schema=self.own)
        orders = self.orders(keys)
        places = pc.binary_join_element_wise(_bytes_of(parts), orders.cast(pa.binary()), b"")
        rows = pc.sort_indices(places)
        rows = rows.filter(pc.greater(places.take(rows), after))
        page = rows if limit is None else rows.slice(0, limit)
        end = places[page[-1].as_py()].as_py() if len(page) < len(rows) else None
        return keys.take(page.take(pc.sort_indices(orders.take(page)))), end

    def _columns(self, snapshot: Snapshot, values: pa.Table) -> tuple[list[pa.Array], Lookup]:
        """Return the columns of values, and the function that reads the index."""

        def lookup(columns: list[pa.Array]) -> pa.Array:
            return snapshot.read(self.name, pa.table(columns, schema=self.keys)).values

        return [one_chunk(column) for column in values.columns], lookup

    def orders(self, keys: pa.Table) -> pa.Array:
        """Return the bytes by which keys of the state are sorted; for keys without an order, their stored bytes."""
        return order_of(keys, keys.num_columns) if unordered_field(self.own) is None else encode_keys(keys)

    @staticmethod
    def entries_of(snapshot: Snapshot, state: str, keys: pa.Table) -> pa.Table:
        """Return the entries of a state with these keys: the keys, then the stored values."""
        return keys.append_column("value", snapshot.read(state, keys).values)


def _parts_of_page(listed: Listed, limit: int, after: bytes) -> Listed:
    """Return the parts with the keys of a page, and one more part if there is another page."""
    numbers, begun = listed.parts.to_numpy(), int.from_bytes(after[:_PART_BYTES])
    places = np.argsort(numbers)
    places = places[numbers[places] >= begun]
    # The previous page may have taken all keys of the part in which it ends.
    rows = np.where(numbers[places] == begun, 0, listed.rows.to_numpy()[places])
    return listed.take(places[: 1 + np.searchsorted(np.cumsum(rows), limit + 1)])


def _bytes_of(parts: pa.Array) -> pa.Array:
    """Return the numbers of parts as bytes with the same order."""
    numbers = parts.to_numpy().astype(f">u{_PART_BYTES}")
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_PART_BYTES), len(numbers), [None, pa.py_buffer(numbers.tobytes())]
    ).cast(pa.binary())


def index_of_shape(state: str, own: pa.Schema, name: str, shape: StateShape) -> Index | None:
    """Return the index of `state` that a state with this name and shape is; None if it is not one.

    `own`: the key fields of `state`.
    """
    *fields, part = shape.keys or [pa.field("", pa.null())]
    kept = shape.value.field(0).type if kinds.is_struct(shape.value) and shape.value.num_fields == 2 else pa.null()
    listed = kept.value_type if kinds.is_list(kept) else pa.null()
    if not fields or name != index_name(state, [field.name for field in fields]) or not kinds.is_struct(listed):
        return None
    keys = [listed.field(at) for at in range(listed.num_fields)][:-2]
    alike = [(key.name, key.type) for key in keys] == [(key.name, key.type) for key in own]
    return Index(name, shape.keys, own) if alike and kinds.is_int64(part.type) else None


def indexes_among(state: str, shapes: Mapping[str, StateShape]) -> tuple[Index, ...]:
    """Return the indexes of a state among the states of its topology."""
    found = (index_of_shape(state, shapes[state].keys, name, shape) for name, shape in shapes.items())
    return tuple(index for index in found if index is not None)


def no_index(state: str, fields: Iterable[str], known: Iterable[Index]) -> StateKeyError:
    """Return the error for fields without an index."""
    listed = ", ".join(f"({', '.join(index.fields.names)})" for index in known)
    has = f"its indexes are by {listed}" if listed else "none is known"
    return StateKeyError(
        f"state {state!r} has no index by ({', '.join(fields)}); {has}: persistentAggregate and toTable take index=. "
        f"Without an index, filter toArrow(), or ask by SQL"
    )
