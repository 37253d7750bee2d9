"""Functions over tuples with a kind of change: they read the kind of a source's tuples, or make both images."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from trident.base.changes import ADDS, KINDS, adding
from trident.base.short_texts import short_repr
from trident.operations.aggregates.base import negated
from trident.operations.column_functions import ColumnFunction


@dataclass(frozen=True)
class KindOf(ColumnFunction):
    """The kind of change that a value of the user's field stands for."""

    field: str
    kinds: Mapping[Any, str]

    def __call__(self, value: Any) -> str:
        kind = self.kinds.get(value)
        if kind is None:
            known = ", ".join(map(repr, self.kinds))
            raise ValueError(
                f"field {self.field!r} holds {short_repr(value)}, which is not a kind of change; accepted: {known}. "
                f"Give asChanges a mapping with this value, or filter such tuples out before it"
            )
        return kind

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        try:
            encoded = inputs[0].dictionary_encode(null_encoding="encode")
        except pa.ArrowNotImplementedError:  # structs
            return None
        kinds = [self.kinds.get(value) for value in encoded.dictionary.to_pylist()]
        return None if None in kinds else [pa.array(kinds, pa.string()).take(encoded.indices)]


@dataclass(frozen=True)
class DeletesNull(ColumnFunction):
    """The kind of change of a keyed message: a deletion if its value is null, as Kafka's compacted topics have it."""

    def __call__(self, value: Any) -> str:
        return "delete" if value is None else "insert"

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        return [pc.if_else(inputs[0].is_null(), "delete", "insert")]


@dataclass(frozen=True)
class KindAfterFilter(ColumnFunction):
    """The kind of a tuple that a filter kept: the filter may have dropped the other image of an update."""

    def __call__(self, kind: str) -> str:
        return "insert" if kind in ADDS else "delete"

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        return [pc.if_else(adding(inputs[0]), "insert", "delete")]


@dataclass(frozen=True)
class Signed(ColumnFunction):
    """The numbers whose sums are aggregates of changes: 1 or -1 for the row, and for values of it.

    Called with the kind, then a value for each of `wanted`: "sum" gives the value or its opposite, "count" the number
    of the row unless the value is null.
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
            except pa.ArrowInvalid:  # the opposite of the least bigint
                return None
        return [sign, *made]


def _of_row(how: str, value: Any, sign: int) -> Any:
    if how == "count":
        return 0 if value is None else sign
    return None if value is None else value if sign > 0 else negated(value)


def _wide(kind: pa.DataType) -> pa.DataType:
    return pa.float64() if pa.types.is_floating(kind) else pa.int64()


@dataclass(frozen=True)
class Images:
    """The change of one entry of a state: no tuple, one, or the two images of an update.

    Called with the key, then the value after the batch and the value before it; None means that there is no entry.
    With `spread`, the values are structs, whose fields the tuples get.
    """

    keys: int
    spread: bool

    def __call__(self, *values: Any) -> Iterator[tuple[Any, ...]]:
        after, before = values[self.keys :]
        return _images(values[: self.keys], _fields(after, self.spread), _fields(before, self.spread))


@dataclass(frozen=True)
class JoinedImages:
    """The change of one row of the join of two tables.

    Called with the key, the values of the left table after the batch and before it, then those of the right table. With
    `left`, a row of the left table stays without a partner, with `width` nulls. `refers` has the positions of the
    fields of a left row that refer to the right table, if those are not the key: a row refers to nothing if one of them
    is null.
    """

    keys: int
    spread: bool
    spread_right: bool
    width: int
    left: bool
    refers: tuple[int, ...] = ()

    def __call__(self, *values: Any) -> Iterator[tuple[Any, ...]]:
        key, (after, before, right_after, right_before) = values[: self.keys], values[self.keys :]
        return _images(key, self._row(key, after, right_after), self._row(key, before, right_before))

    def _row(self, key: tuple[Any, ...], left: Any, right: Any) -> tuple[Any, ...] | None:
        own, other = _fields(left, self.spread), _fields(right, self.spread_right)
        if own is None:
            return None
        row = (*key, *own)
        if any(row[at] is None for at in self.refers):
            other = None
        if other is None and self.left:
            other = (None,) * self.width
        return None if other is None else (*own, *other)


def _images(
    key: tuple[Any, ...], after: tuple[Any, ...] | None, before: tuple[Any, ...] | None
) -> Iterator[tuple[Any, ...]]:
    if after == before:
        return
    if before is not None:
        yield (*key, *before, "delete" if after is None else "update_preimage")
    if after is not None:
        yield (*key, *after, "insert" if before is None else "update_postimage")


def _fields(value: Any, spread: bool) -> tuple[Any, ...] | None:
    return None if value is None else tuple(value) if spread else (value,)


SAME = {kind: kind for kind in KINDS}
"""The values of a field that holds the kinds already."""
