"""Columns whose values repeat: a function of one value is called once for each distinct value."""

import pyarrow as pa

_LEAST = 2
"""The number of tuples that must share a value on average. With fewer, the search for repeated values costs more
than it saves."""


def repeated(values: pa.Array) -> pa.DictionaryArray | None:
    """Return the distinct values of a column and each tuple's index in them; None if too few tuples share a value.

    Floats are left out, because 0.0 and -0.0 are equal and have different texts; so are arrays, maps and structs.
    """
    kind = values.type
    if pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_null(kind):
        return None
    found = values.dictionary_encode(null_encoding="encode")
    return found if _LEAST * len(found.dictionary) <= len(found) else None
