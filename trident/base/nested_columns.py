"""Columns of nested values, converted from all their parts of one type at once.

A list of structs is converted to one column for each member, and Arrow combines the columns. So types and ranges are
checked once for a whole column, which is much faster than a check of each value. A value that is not certain to be
accepted is a *doubt*: its row is noted, and the caller reads it by itself, which accepts it or raises the error for it.
"""

import datetime
import decimal
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import Row

from trident.base.accepted_values import accept, exactly
from trident.base.exact_types import are_exact

REFUSALS = (ValueError, TypeError, ArithmeticError, RecursionError, pa.ArrowException)
"""The errors that Arrow, `accept` and readers of texts raise for a value."""


class WholeColumns:
    """The conversion of values to columns. A subclass defines how it recognizes lists, structs and single values."""

    lists: frozenset[type] = frozenset()

    def column(self, values: list[Any], kind: pa.DataType, doubts: set[int]) -> pa.Array:
        """Return the values as a column of type `kind`.

        A doubtful value is null there, and `doubts` receives its position.
        """
        if kinds.is_list(kind):
            return self._lists(values, kind, doubts)
        if kinds.is_struct(kind):
            return self._structs(values, kind, doubts)
        if kinds.is_map(kind):
            return self._maps(values, kind, doubts)
        return self.plain(values, kind, doubts)

    def members(self, values: list[Any], names: list[str], doubts: set[int]) -> list[Any]:
        """Return structs as dicts; null for a null and for each doubtful struct."""
        raise NotImplementedError

    def plain(self, values: list[Any], kind: pa.DataType, doubts: set[int]) -> pa.Array:
        """Return a column of values without parts."""
        raise NotImplementedError

    def keys_are_plain(self, kind: pa.DataType) -> bool:
        """Return whether different keys of this type in one dict are different values in the column, too."""
        raise NotImplementedError

    def value(self, value: Any, kind: pa.DataType) -> Any:
        """Return a value in a form that `accept` takes. Raises one of `REFUSALS` if there is none."""
        return value

    def one_by_one(self, values: list[Any], kind: pa.DataType, doubts: set[int]) -> pa.Array:
        """Return values as a column after a check of each of them."""
        accepted: list[Any] = []
        for at, value in enumerate(values):
            try:
                accepted.append(None if value is None else accept(self.value(value, kind), kind))
            except REFUSALS:
                doubts.add(at)
                accepted.append(None)
        return array_of(accepted, kind, doubts)

    def _lists(self, values: list[Any], kind: pa.DataType, doubts: set[int]) -> pa.Array:
        values = only(values, self.lists, doubts)
        items: list[Any] = list(chain.from_iterable(filter(None, values)))
        within = set[int]()
        column = self.column(items, kind.value_type, within)
        _add_owners(within, values, doubts)
        return pa.ListArray.from_arrays(offsets_of(values), column, type=kind)

    def _structs(self, values: list[Any], kind: pa.DataType, doubts: set[int]) -> pa.Array:
        fields = list(kind)  # read once, because each access creates new objects
        names = [field.name for field in fields]
        dicts = self.members(values, names, doubts)
        mask = None
        if None in dicts:
            mask = pa.array([each is None for each in dicts], pa.bool_())
            dicts = [each or {} for each in dicts]
        columns = [
            self.column([each.get(name) for each in dicts], field.type, doubts)
            for name, field in zip(names, fields, strict=True)
        ]
        return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)

    def _maps(self, values: list[Any], kind: pa.DataType, doubts: set[int]) -> pa.Array:
        if not self.keys_are_plain(kind.key_type):
            return self.one_by_one(values, kind, doubts)
        dicts = only(values, frozenset([dict]), doubts)
        keys = [key for each in dicts if each for key in each]
        within = {at for at, key in enumerate(keys) if key is None}
        keys_column = self.column(keys, kind.key_type, within)
        if within:  # a key of a map cannot be null, so the map is left out
            _add_owners(within, dicts, doubts)
            return self._maps([None if at in doubts else each for at, each in enumerate(dicts)], kind, doubts)
        items = self.column([item for each in dicts if each for item in each.values()], kind.item_type, within)
        _add_owners(within, dicts, doubts)
        return pa.MapArray.from_arrays(offsets_of(dicts), keys_column, items).cast(kind)


class ValueColumns(WholeColumns):
    """The conversion of Python values, as users' functions return them."""

    lists = frozenset([list, tuple])

    def whole(self, values: list[Any], kind: pa.DataType) -> pa.Array | None:
        """Return the values as a column of type `kind`; None if one may not be accepted, or a part is of a rare type.

        It is the column that `accept` of each value would make.
        """
        if not is_whole(kind):
            return None
        doubts = set[int]()
        try:
            column = self.column(values, kind, doubts)
        except (*REFUSALS, AttributeError):  # a column of more than two gigabytes has several arrays
            return None
        return None if doubts else column

    def members(self, values: list[Any], names: list[str], doubts: set[int]) -> list[Any]:
        if not set(map(type, values)) <= {dict, type(None)}:
            values = [_as_dict(value, names) for value in values]
        known = frozenset(names)
        for at, value in enumerate(values):
            if value is not None and not (type(value) is dict and value.keys() <= known):
                doubts.add(at)
        return [None if at in doubts else value for at, value in enumerate(values)] if doubts else values

    def plain(self, values: list[Any], kind: pa.DataType, doubts: set[int]) -> pa.Array:
        if are_exact(values, kind):
            return array_of(values, kind, doubts)
        types = set(map(type, values)) - {type(None)}
        if kinds.is_decimal(kind) and types <= {decimal.Decimal} and (exact := _decimals(values, kind)) is not None:
            return exact
        if kinds.is_timestamp(kind) and types <= {datetime.datetime} and _are_times(values, kind.tz is not None):
            return array_of(values, kind, doubts)
        return self.one_by_one(values, kind, doubts)

    def keys_are_plain(self, kind: pa.DataType) -> bool:
        return not kinds.is_floating(kind) and not kinds.is_nested(kind)


def is_whole(kind: pa.DataType) -> bool:
    """Return whether columns of this type can be made from their parts: no member of a struct is NOT NULL or empty."""
    if kinds.is_struct(kind):
        names = {kind.field(at).name for at in range(kind.num_fields)}
        if not names or len(names) < kind.num_fields:
            return False
        return all(kind.field(at).nullable and is_whole(kind.field(at).type) for at in range(kind.num_fields))
    if kinds.is_map(kind):
        return is_whole(kind.key_type) and is_whole(kind.item_type)
    return is_whole(kind.value_type) if kinds.is_list(kind) else True


def _as_dict(value: Any, names: list[str]) -> Any:
    """Return the members of a Row or a plain tuple by name; another value unchanged."""
    if type(value) is Row and hasattr(value, "__fields__"):
        return value.asDict()
    if type(value) is tuple and len(value) == len(names):
        return dict(zip(names, value, strict=True))
    return value


def _decimals(values: list[Any], kind: pa.DataType) -> pa.Array | None:
    """Return a column of Decimals; None if the type does not hold one of them exactly."""
    quantum, rounding, context = exactly(kind.precision, kind.scale)
    if not all([value is None or value.is_finite() for value in values]):
        return None
    try:
        return pa.array([None if v is None else v.quantize(quantum, rounding, context) for v in values], kind)
    except ArithmeticError:
        return None


def _are_times(values: list[Any], aware: bool) -> bool:
    """Return whether all datetimes are aware of their zone, or none, and certainly within the years of a datetime."""
    return all([v is None or ((v.tzinfo is not None) is aware and 1 < v.year < 9999) for v in values])


def only(values: list[Any], types: frozenset[type], doubts: set[int]) -> list[Any]:
    """Return the values of these types, and None for the others, which go to `doubts` if they are not None."""
    if set(map(type, values)) <= types | {type(None)}:
        return values
    doubts.update(at for at, value in enumerate(values) if value is not None and type(value) not in types)
    return [value if type(value) in types else None for value in values]


def array_of(values: list[Any], kind: pa.DataType, doubts: set[int]) -> pa.Array:
    """Return an array of values of the right Python types. Those that are beyond a range go to `doubts`."""
    try:
        return pa.array(values, kind)
    except REFUSALS:
        fitting = [_fits(value, kind) for value in values]
        doubts.update(at for at, fits in enumerate(fitting) if not fits)
        return pa.array([value if fits else None for value, fits in zip(values, fitting, strict=True)], kind)


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], kind)
    except REFUSALS:
        return False
    return True


def offsets_of(values: Sequence[Any]) -> pa.Array:
    """Return the position at which the items of each value begin (null for a null), and the number of all items."""
    ends = [0, *accumulate([0 if value is None else len(value) for value in values])]
    if None in values:
        return pa.array([None if v is None else end for end, v in zip(ends, [*values, ()], strict=True)], pa.int32())
    return pa.array(ends, pa.int32())


def _add_owners(within: set[int], values: Sequence[Any], doubts: set[int]) -> None:
    """Add to `doubts` the positions of the values that have the items `within`, counted over all values."""
    if within:
        ends = [*accumulate([0 if value is None else len(value) for value in values])]
        doubts.update(bisect_right(ends, at) for at in within)
