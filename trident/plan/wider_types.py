"""Types that hold every value of another type exactly."""

import pyarrow as pa
from pyarrow import types as kinds

_EXACT_BITS = {16: 11, 32: 24, 64: 53}
"""The bits of the whole numbers that a float of each width holds exactly."""

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"""The decimal digits of the whole numbers of each width."""


def is_wider(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Return whether each value of type `narrow` is exactly a value of type `wide`, or both are the same type.

    >>> is_wider(pa.int64(), pa.int32()), is_wider(pa.float64(), pa.int64())
    (True, False)
    >>> is_wider(pa.decimal128(12, 2), pa.decimal128(10, 2)), is_wider(pa.decimal128(12, 4), pa.decimal128(10, 2))
    (True, True)
    """
    return bool(wide == narrow) or _has_wider_parts(wide, narrow) or _is_wider_number(wide, narrow)


def _has_wider_parts(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Return whether both types are structs, lists or maps, and each part of one is wider than that of the other."""
    nested = kinds.is_struct, kinds.is_list, kinds.is_map
    if not any(same(wide) and same(narrow) for same in nested) or wide.num_fields != narrow.num_fields:
        return False
    if kinds.is_map(wide):  # the values of a map are found by its keys, so the keys must not change
        return bool(wide.key_type == narrow.key_type) and is_wider(wide.item_type, narrow.item_type)
    pairs = [(wide.field(at), narrow.field(at)) for at in range(wide.num_fields)]
    return all(one.name == other.name and is_wider(one.type, other.type) for one, other in pairs)


def _is_wider_number(wide: pa.DataType, narrow: pa.DataType) -> bool:
    whole = kinds.is_signed_integer(narrow)
    if kinds.is_decimal(wide):
        digits = _whole_digits(narrow)
        return digits is not None and bool(wide.precision - wide.scale >= digits and wide.scale >= _scale(narrow))
    if kinds.is_floating(wide) and whole:
        return bool(narrow.bit_width <= _EXACT_BITS[wide.bit_width])
    alike = (kinds.is_floating(wide) and kinds.is_floating(narrow)) or (kinds.is_signed_integer(wide) and whole)
    return bool(alike and narrow.bit_width < wide.bit_width)


def _whole_digits(kind: pa.DataType) -> int | None:
    """Return the digits before the point of the numbers of a type; None if the type is not exact."""
    if kinds.is_decimal(kind):
        return int(kind.precision - kind.scale)
    return _DIGITS[kind.bit_width] if kinds.is_signed_integer(kind) else None


def _scale(kind: pa.DataType) -> int:
    return int(kind.scale) if kinds.is_decimal(kind) else 0
