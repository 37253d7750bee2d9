"""Readers of Avro values: bare ones with one schema, or prefixed ones with the number of a registry schema."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from trident.base.errors import MissingPackageError, TopologyError
from trident.base.optional_packages import optional_package
from trident.base.short_texts import brief, typed_brief
from trident.operations.registry_form import HEAD, looks_registered, schema_number

AvroSchema = str | Mapping[str, Any] | Sequence[Any]
"""An Avro schema: JSON text, or the object that the text describes."""


class AvroRecords:
    """A reader of Avro records for the function `reader`, whose name errors show."""

    def __init__(self, reader: str, schema: AvroSchema | None, registry: Mapping[int, AvroSchema] | None) -> None:
        if (schema is None) == (registry is None):
            raise TopologyError(
                f"{reader}: expected either schema=, one schema for all values, or registry={{number: schema}} for "
                "values of a schema registry's serializer"
            )
        self._schema = None if schema is None else _parsed(reader, "schema", schema)
        self._registry = None if registry is None else _parsed_registry(reader, registry)

    def read(self, value: object) -> dict[str, Any]:
        """Return the record that a value encodes. Raises ValueError if it encodes none."""
        if not isinstance(value, bytes):
            raise ValueError(f"expected binary, got {typed_brief(value)}: Avro values are not strings")
        record = _read(value, self._schema) if self._registry is None else self._of_registry(value, self._registry)
        if not isinstance(record, dict):
            raise ValueError(f"expected a record, got {typed_brief(record)}")
        return record

    def _of_registry(self, value: bytes, registry: Mapping[int, Any]) -> Any:
        number = schema_number(value)
        if number not in registry:
            known = ", ".join(map(str, sorted(registry)))
            raise ValueError(
                f"its schema has the number {number}, but registry= has only {known}: add this schema there"
            )
        return _read(value[HEAD:], registry[number])


def _fastavro(reader: str) -> Any:
    return optional_package("fastavro", "avro", f"{reader} needs the package fastavro, also where Spark's workers run")


def _parsed_registry(reader: str, registry: object) -> dict[int, Any]:
    if not isinstance(registry, Mapping) or not registry or not all(type(number) is int for number in registry):
        raise TopologyError(
            f"{reader}: registry={brief(registry)}: expected a mapping from numbers to schemas, such as {{7: "
            "'{...}'}"
        )
    return {number: _parsed(reader, f"registry[{number}]", schema) for number, schema in registry.items()}


def _parsed(reader: str, name: str, schema: object) -> Any:
    """Return a schema in the form that fastavro reads. Raises TopologyError if it is not a schema."""
    fastavro = _fastavro(reader)
    try:
        found = json.loads(schema) if isinstance(schema, str) and schema.lstrip()[:1] in ("{", "[") else schema
        return fastavro.parse_schema(found)
    except Exception as error:  # fastavro raises many kinds of errors for an invalid schema
        raise TopologyError(
            f"{reader}: {name}={brief(schema)} is not an Avro schema ({type(error).__name__}: {error})"
        ) from None


def _read(value: bytes, schema: Any) -> Any:
    """Return the value that these bytes encode with the schema.

    Raises ValueError if bytes are missing or left over.
    """
    stream = io.BytesIO(value)
    try:
        read = _fastavro("a reader of Avro").schemaless_reader(stream, schema)
    except MissingPackageError:
        raise
    except Exception as error:  # fastavro raises many kinds of errors for bytes that do not fit the schema
        raise ValueError(f"not written with this schema ({type(error).__name__}: {error}){_hint(value)}") from None
    if stream.tell() < len(value):
        raise ValueError(
            f"not written with this schema: {len(value) - stream.tell()} bytes remain after the value{_hint(value)}"
        )
    return read


def _hint(value: bytes) -> str:
    if not looks_registered(value):
        return ""
    return "; it looks like a value of a schema registry's serializer: use registry={number: schema} instead of schema="
