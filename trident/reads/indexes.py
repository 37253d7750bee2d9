"""Reads of the entries of a state by the fields of an index, which is a state of its own (`operations.references`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.errors import StateKeyError
from trident.operations.references import find_keys, index_name
from trident.reads.committed_reads import Snapshot
from trident.reads.key_tables import key_table
from trident_state.binary import one_chunk
from trident_state.key_order import KeyRange, order_of, unordered_field
from trident_state.keys import encode_keys
from trident_state.state_shape import StateShape

_ALL = KeyRange(b"", None)


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
        """Return values of the fields as a table. Raises StateKeyError if one of them is of another type."""
        return key_table(f"{state} by {', '.join(self.fields.names)}", self.fields, list(values))

    def keys_with(self, snapshot: Snapshot, values: pa.Table, between: KeyRange = _ALL) -> pa.Table:
        """Return the keys of the entries with one of these values, in the order of `orders`.

        Only keys of the range `between`.
        """

        def lookup(columns: list[pa.Array]) -> pa.Array:
            return snapshot.read(self.name, pa.table(columns, schema=self.keys)).values

        keys = pa.table(find_keys([one_chunk(column) for column in values.columns], lookup), schema=self.own)
        orders = self.orders(keys)
        rows = pc.sort_indices(orders)
        return keys.take(rows.filter(between.holds(orders).take(rows)))

    def orders(self, keys: pa.Table) -> pa.Array:
        """Return the bytes by which keys of the state are sorted: for keys without an order those that are stored."""
        return order_of(keys, keys.num_columns) if unordered_field(self.own) is None else encode_keys(keys)

    @staticmethod
    def entries_of(snapshot: Snapshot, state: str, keys: pa.Table) -> pa.Table:
        """Return the entries of a state with these keys: the keys, then the stored values."""
        return keys.append_column("value", snapshot.read(state, keys).values)


def index_of_shape(state: str, own: pa.Schema, name: str, shape: StateShape) -> Index | None:
    """Return the index that a state of this name and shape is for `state`; None if it is none.

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
    """Return the error for fields by which a state has no index."""
    listed = ", ".join(f"({', '.join(index.fields.names)})" for index in known)
    has = f"its indexes are by {listed}" if listed else "none is known"
    return StateKeyError(
        f"state {state!r} has no index by ({', '.join(fields)}); {has}: persistentAggregate and toTable take index=. "
        f"Without an index, filter toArrow(), or ask by SQL"
    )
