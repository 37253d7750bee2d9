"""JSON Schemas of the values of columns, as `trident.base.json_values` writes them."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

Schema = dict[str, Any]


def schema_of(kind: pa.DataType, nullable: bool = True) -> Schema:
    """Return the JSON Schema of the values of a column.

    >>> schema_of(pa.int16(), nullable=False)
    {'type': 'integer', 'minimum': -32768, 'maximum': 32767}
    >>> schema_of(pa.list_(pa.string()))
    {'type': ['array', 'null'], 'items': {'type': ['string', 'null']}}
    """
    schema = _schema(kind)
    if nullable and "type" in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]} if nullable else schema


def _schema(kind: pa.DataType) -> Schema:
    if kinds.is_signed_integer(kind):
        most = 1 << (kind.bit_width - 1)
        return {"type": "integer", "minimum": -most, "maximum": most - 1}
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return {"type": "array", "items": schema_of(kind.value_type)}
    if kinds.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return {"type": "object", "properties": {field.name: schema_of(field.type) for field in fields}}
    if kinds.is_map(kind):
        return {"type": "object", "additionalProperties": schema_of(kind.item_type)}
    return next((dict(schema) for fits, schema in _SCALARS if fits(kind)), {"type": "string"})


_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], Schema], ...] = (
    (kinds.is_boolean, {"type": "boolean"}),
    (kinds.is_floating, {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}),
    (kinds.is_binary, {"type": "string", "contentEncoding": "base64"}),
    (kinds.is_large_binary, {"type": "string", "contentEncoding": "base64"}),
    (kinds.is_decimal, {"type": "string", "description": "a decimal number"}),
    (kinds.is_date, {"type": "string", "format": "date"}),
    (kinds.is_timestamp, {"type": "string", "description": "a date and time in ISO 8601"}),
)
