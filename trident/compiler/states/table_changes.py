"""The changes that a batch makes in a table, or in the join of two tables, over whole columns.

The keys whose rows may have changed come from the new values of the batch. Their rows as of this batch and as of the
previous one are read from the states, and compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.spark_types import arrow_schema, arrow_type
from trident.compiler.columns.columns import Column
from trident.compiler.states.queries import Lookup, Read
from trident.compiler.states.row_changes import NumberedRows, all_of, row_changes
from trident.compiler.states.shapes import shape_of
from trident.operations.table_indexes import find_keys
from trident.plan.nodes import HeldState, TableChanges
from trident.plan.state_schema import shown_type, value_of
from trident_state.keys import decode_keys, encode_keys

Rows = npt.NDArray[np.int64]

MakeChanges = Callable[[Sequence[pa.Table], Read, Read], pa.Table]
"""A function that returns the changes of a batch. Its arguments are the new values of the tables, and functions that
read states as of this batch and as of the previous one."""


def compile_changes(step: TableChanges) -> MakeChanges:
    """Return the function that makes the changes of a table, or of the join of two tables."""
    table = _Table.of(step.table, step.step, step.entries)
    other = None if step.other is None else _Table.of(step.other, step.step)
    fields, schema = arrow_schema(step.schema), [*table.keys.names, *table.names]
    refers = [schema.index(name) for name in step.refers]

    def rows(keys: pa.Table, read: Read) -> "_Rows":
        own = table.rows(keys, read)
        if other is None:
            return own
        if not refers:
            return own.beside(other.rows(keys.rename_columns(other.keys.names), read), step.left)
        referring = [[*keys.columns, *own.fields][at] for at in refers]
        partners, numbers = _distinct(pa.table(referring, schema=other.keys))
        found = other.rows(partners, read).take(numbers)
        known = [column.is_valid() for column in referring]  # a null refers to nothing
        return own.beside(found.only(all_of(known)), step.left)

    def changes(values: Sequence[pa.Table], after: Read, before: Read) -> pa.Table:
        changed = [values[0].select(table.keys.names).cast(table.keys)]
        if other is not None:
            theirs = values[-1].select(other.keys.names).cast(other.keys)
            changed.append(theirs if step.index is None else _referring(step.index, theirs, table.keys, before))
            changed[-1] = changed[-1].rename_columns(table.keys.names)
        keys = _distinct(pa.concat_tables(changed))[0]
        return row_changes(rows(keys, before).under(keys), rows(keys, after).under(keys), fields)

    return changes


def _referring(index: HeldState, keys: pa.Table, own: pa.Schema, before: Read) -> pa.Table:
    """Return the keys of the rows that refer to rows with these keys.

    The index is read as of the previous batch: a row whose reference changed in this batch is among the changed rows
    anyway.
    """
    schema, wanted = shape_of(index).keys, [column.combine_chunks() for column in _distinct(keys)[0].columns]
    found = find_keys(wanted, lambda columns: before(index, pa.table(columns, schema=schema)))
    return pa.table(found, schema=own)


def _distinct(keys: pa.Table) -> tuple[pa.Table, Rows]:
    """Return each key once, and for each row the number of its key.

    Floating-point keys are normalized to 0.0: the tuple that added a row may have had a different zero from the one
    that removes it.
    """
    if keys.num_columns == 0 or not keys.num_rows:
        return keys.slice(0, 1), np.zeros(keys.num_rows, np.int64)
    encoded = encode_keys(keys.combine_chunks()).dictionary_encode()
    numbers = encoded.indices.to_numpy()
    if any(kinds.is_floating(field.type) or kinds.is_nested(field.type) for field in keys.schema):
        return decode_keys(encoded.dictionary, keys.schema), numbers
    first = np.zeros(len(encoded.dictionary), np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return keys.take(pa.array(first)), numbers


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a table under some keys: their fields, and whether there is a row."""

    fields: list[pa.Array]
    there: pa.BooleanArray

    def take(self, numbers: Rows) -> "_Rows":
        at = pa.array(numbers)
        return _Rows([column.take(at) for column in self.fields], self.there.take(at))

    def only(self, known: pa.BooleanArray) -> "_Rows":
        """Return the rows without those that are not fully known."""
        fields = [pc.if_else(known, column, pa.scalar(None, column.type)) for column in self.fields]
        return _Rows(fields, pc.and_(self.there, known))

    def under(self, keys: pa.Table) -> NumberedRows:
        """Return the existing rows with their keys."""
        columns = [column.combine_chunks() for column in keys.columns] + self.fields
        names = [str(number) for number in range(len(columns))]
        return NumberedRows.only(pa.Table.from_arrays(columns, names), self.there)

    def beside(self, other: "_Rows", left: bool) -> "_Rows":
        """Return these rows joined with those of another table. With `left`, a row is kept without a partner."""
        return _Rows([*self.fields, *other.fields], self.there if left else pc.and_(self.there, other.there))


@dataclass(frozen=True, slots=True)
class _Table:
    """A state as a table: its keys, the names of the other fields, and how it is read."""

    state: HeldState
    lookup: Lookup
    keys: pa.Schema
    kind: pa.DataType
    names: list[str]
    entries: bool
    """True if each stored value is a row, even one that is presented as null."""

    @classmethod
    def of(cls, state: HeldState, step: str, entries: bool = False) -> "_Table":
        shown = shown_type(state)
        assert shown is not None  # `changes` and `join` refuse such a state
        kind = arrow_type(shown)
        lookup = Lookup.of_state(state, step, kind)
        names = [field.name for field in kind] if kinds.is_struct(kind) else [value_of(state).name]
        return cls(state, lookup, lookup.keys, kind, names, entries)

    def rows(self, keys: pa.Table, read: Read) -> _Rows:
        """Return the rows under these keys, no key twice."""
        if not len(self.keys):
            keys = pa.table({"": pa.nulls(1)}).select([])
        stored = read(self.state, keys)
        shown = self.lookup.presented(Column.of(stored)).cast(self.kind).array()
        there = (stored if self.entries else shown).is_valid()
        return _Rows(shown.flatten() if kinds.is_struct(self.kind) else [shown], there)
