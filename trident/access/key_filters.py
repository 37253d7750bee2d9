"""The keys that Spark filters determine: ``word = 'dog'`` and ``word in ('dog', 'cat')`` need no scan."""

import itertools
import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import EqualNullSafe, EqualTo, Filter, In, IsNull

from trident.base.errors import StateKeyError
from trident.reads.key_tables import key_table
from trident_state.keys import encode_keys

_MOST = 10_000
"""The most keys that are read one by one instead of by a scan."""


def keys_fixed_by(filters: Iterable[Filter], state: str, fields: pa.Schema) -> pa.Table | None:
    """Return the only keys whose entries can pass all filters, each once; None unless the filters fix every key field.

    An entry of such a key need not pass the filters: Spark still evaluates them.

    >>> fields = pa.schema({"user": pa.int64(), "day": pa.string()})
    >>> keys_fixed_by([EqualTo(("day",), "mon"), In(("user",), (1, 2))], "counts", fields).to_pylist()
    [{'user': 1, 'day': 'mon'}, {'user': 2, 'day': 'mon'}]
    >>> keys_fixed_by([EqualTo(("day",), "mon")], "counts", fields) is None
    True
    """
    fixed: dict[str, list[Any]] = {}
    for one in filters:
        name, values = _fixed(one)
        if name is not None and (name not in fixed or len(values) < len(fixed[name])):
            fixed[name] = values
    nested = any(pa.types.is_nested(field.type) for field in fields)
    if not len(fields) or nested or any(name not in fixed for name in fields.names):
        return None
    lists = [fixed[name] for name in fields.names]
    if math.prod(map(len, lists)) > _MOST:
        return None
    keys = [key[0] if len(fields) == 1 else key for key in itertools.product(*lists)]
    try:
        table = key_table(state, fields, keys)
    except StateKeyError:  # Spark compares values of another type, such as a wider decimal, which only a scan finds
        return None
    return distinct_keys(table)


def _fixed(one: Filter) -> tuple[str | None, list[Any]]:
    """Return the column that a filter fixes, and the values that pass it; None for any other filter."""
    if not isinstance(one, EqualTo | EqualNullSafe | In | IsNull) or len(one.attribute) != 1:
        return None, []
    if isinstance(one, IsNull):
        return one.attribute[0], [None]
    return one.attribute[0], list(one.value) if isinstance(one, In) else [one.value]


def distinct_keys(keys: pa.Table) -> pa.Table:
    """Return the table without repeated keys: 0.0 and -0.0 are the same key."""
    first: dict[bytes, int] = {}
    for row, encoded in enumerate(encode_keys(keys).to_pylist()):
        first.setdefault(encoded, row)
    return keys.take(pa.array(first.values(), pa.int64()))
