"""Functions over tuples with a kind of change, which read the source's kinds or produce both images of an update."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, DecimalType, FractionalType, IntegralType, LongType, StringType

from trident.base.change_kinds import ADDS, KINDS, adding
from trident.base.short_texts import short_repr
from trident.operations.aggregates.base import negated
from trident.operations.column_functions import RAISED, ColumnFunction


@dataclass(frozen=True)
class KindOf(ColumnFunction):
    """A function that converts a value of the user's field to the kind of change that it denotes."""

    field: str
    kinds: Mapping[Any, str]

    def __call__(self, value: Any) -> str:
        kind = self.kinds.get(value)
        if kind is None:
            known = ", ".join(map(repr, self.kinds))
            raise ValueError(
                f"field {self.field!r} holds {short_repr(value)}, which is not a kind of change; expected {known}. "
                "Add this value to the mapping kinds= of asChanges, or filter such tuples out before it"
            )
        return kind

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        try:
            encoded = inputs[0].dictionary_encode(null_encoding="encode")
        except pa.ArrowNotImplementedError:  # structs
            return None
        kinds = [self.kinds.get(value) for value in encoded.dictionary.to_pylist()]
        return None if None in kinds else [pa.array(kinds, pa.string()).take(encoded.indices)]

    def sql(self, inputs: Sequence[str], kinds: Sequence[DataType]) -> list[str] | None:
        literals = {value: _literal(value, kinds[0]) for value in self.kinds}
        if None in literals.values():
            return None
        cases = " ".join(f"WHEN {inputs[0]} {literals[value]} THEN '{kind}'" for value, kind in self.kinds.items())
        return [f"CASE {cases} ELSE {RAISED} END"]


@dataclass(frozen=True)
class DeletesNull(ColumnFunction):
    """The kind of change of a keyed message: a deletion if its value is null, as in compacted Kafka topics."""

    def __call__(self, value: Any) -> str:
        return "delete" if value is None else "insert"

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        return [pc.if_else(inputs[0].is_null(), "delete", "insert")]


@dataclass(frozen=True)
class KindAfterFilter(ColumnFunction):
    """The kind of a tuple after a filter, which may have dropped the other image of an update."""

    def __call__(self, kind: str) -> str:
        return "insert" if kind in ADDS else "delete"

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        return [pc.if_else(adding(inputs[0]), "insert", "delete")]

    def sql(self, inputs: Sequence[str], kinds: Sequence[DataType]) -> list[str]:
        return [f"CASE WHEN {_adding(inputs[0])} THEN 'insert' ELSE 'delete' END"]


@dataclass(frozen=True)
class Signed(ColumnFunction):
    """The numbers whose sums are aggregates of changes: 1 or -1 for the row, and signed values of the row.

    The arguments are the kind, then a value for each of `wanted`: "sum" gives the value with a sign, "count" gives the
    row's 1 or -1, or 0 if the value is null.
    """

    wanted: tuple[Literal["sum", "count"], ...]

    def __call__(self, kind: str, *values: Any) -> tuple[Any, ...]:
        sign = 1 if kind in ADDS else -1
        numbers = zip(self.wanted, values, strict=True)
        return (sign, *(_of_row(how, value, sign) for how, value in numbers))

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        adds, made = adding(inputs[0]), list[pa.Array]()
        sign = pc.if_else(adds, pa.scalar(1, pa.int64()), pa.scalar(-1, pa.int64()))
        for how, value in zip(self.wanted, inputs[1:], strict=True):
            if how == "count":
                made.append(pc.if_else(value.is_valid(), sign, pa.scalar(0, pa.int64())))
                continue
            numbers = value if pa.types.is_decimal(value.type) else value.cast(_wide(value.type))
            try:
                made.append(pc.if_else(adds, numbers, pc.negate_checked(numbers)))
            except pa.ArrowInvalid:  # the least bigint has no negative
                return None
        return [sign, *made]

    def sql(self, inputs: Sequence[str], kinds: Sequence[DataType]) -> list[str]:
        adds, made = _adding(inputs[0]), list[str]()
        for how, value, kind in zip(self.wanted, inputs[1:], kinds[1:], strict=True):
            if how == "count":
                made.append(f"CASE WHEN {value} IS NULL THEN 0L WHEN {adds} THEN 1L ELSE -1L END")
            else:
                wide = value if isinstance(kind, DecimalType) else f"CAST({value} AS {_wide_sql(kind)})"
                other = f"WHEN {value} = {_LEAST}L - 1L THEN {RAISED} "
                made.append(
                    f"CASE {other if isinstance(kind, LongType) else ''}WHEN {adds} THEN {wide} ELSE -{wide} END"
                )
        return [f"CASE WHEN {adds} THEN 1L ELSE -1L END", *made]


_LEAST = 1 - (1 << 63)
"""The least long that has a negative."""


def _of_row(how: str, value: Any, sign: int) -> Any:
    if how == "count":
        return 0 if value is None else sign
    if isinstance(value, int) and value < _LEAST:
        raise ValueError(
            f"the negative of {value} does not fit a long, so the sum could not subtract it when the row is removed: "
            "convert the field to decimal(20, 0) or to a double before the aggregate, or filter such values out"
        )
    return None if value is None else value if sign > 0 else negated(value)


def _wide(kind: pa.DataType) -> pa.DataType:
    return pa.float64() if pa.types.is_floating(kind) else pa.int64()


def _wide_sql(kind: DataType) -> str:
    return "DOUBLE" if isinstance(kind, FractionalType) else "BIGINT"


def _adding(kind: str) -> str:
    """Return whether a kind adds a row, as a SQL condition."""
    return f"{kind} IN ({', '.join(repr(each) for each in sorted(ADDS))})"


def _literal(value: Any, kind: DataType) -> str | None:
    """Return a value of this type as a SQL literal, compared with its field; None if there is no plain literal."""
    if value is None:
        return "IS NULL"
    if isinstance(kind, StringType) and isinstance(value, str) and re.fullmatch(r"[\w +-]*", value, re.ASCII):
        return f"= '{value}'"
    if isinstance(kind, IntegralType) and type(value) is int:
        return f"= {value}"
    return None


SAME = {kind: kind for kind in KINDS}
"""The mapping for a field that already holds kinds."""
