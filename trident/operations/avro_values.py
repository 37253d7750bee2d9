"""FromAvro: a function that reads values of Avro, such as those of Kafka's messages, into fields."""

import io
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql.types import StructType

from trident.base.errors import MissingPackageError, TopologyError
from trident.base.optional_packages import optional_package
from trident.base.short_texts import brief, typed_brief
from trident.base.types import arrow_schema, ddl
from trident.operations.output_fields import value_fields
from trident.operations.registry_form import HEAD, looks_registered, schema_number

AvroSchema = str | Mapping[str, Any] | Sequence[Any]
"""A schema of Avro: its JSON as text, or the object that this text describes."""


class FromAvro:
    """A function that reads a value of Avro into fields: ``each("value", FromAvro("user bigint", schema=...))``.

    The value must be a record; its fields are matched with the declared ones by name. A missing field is null, one that
    is not declared is ignored, and a null value (a tombstone of Kafka) gives nulls. Avro's logical types are dates,
    times and decimals; an enum and a uuid are texts. Nothing is rounded. The results are the same on both engines and
    in DRPC requests. The package fastavro must be installed in the driver and on Spark's workers (extra ``avro``).

    Parameters
    ----------
    fields : str or StructType
        The fields that the function gives, with their types. `each` and `map` then need no output fields.
    schema : str, dict or list, optional
        The schema by which all values were written, as JSON or as the object that the JSON describes. The values are
        bare, without a file's header.
    registry : mapping of int to schema, optional
        In place of `schema`, for values from a schema registry's serializer, which puts a zero byte and the schema's
        number, four bytes, before each value. The mapping holds the schema of each number. A value with another number,
        or in another form, is refused.

    Raises
    ------
    TopologyError, TypeDeclarationError
        An argument is wrong.
    MissingPackageError
        The package fastavro is not installed.
    ValueError
        A value cannot be read. So the tuple fails, and `onError` of the verb decides: the batch fails, or the tuple is
        skipped or kept as a dead letter.

    Examples
    --------
    >>> from trident import FromAvro
    >>> user = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]}
    >>> FromAvro("id bigint", schema=user)(bytes([14]))
    (7,)
    >>> registered = FromAvro("id bigint", registry={263: user})
    >>> registered(bytes.fromhex("0000000107") + bytes([14]))
    (7,)
    >>> registered(bytes.fromhex("0000000108") + bytes([14]))
    Traceback (most recent call last):
    ValueError: its schema has the number 264, but registry= has 263: add it there

    Notes
    -----
    Spark's counterpart is ``from_avro``, which supports neither a registry's form nor a schema for each value.
    """

    def __init__(
        self,
        fields: str | StructType,
        *,
        schema: AvroSchema | None = None,
        registry: Mapping[int, AvroSchema] | None = None,
    ) -> None:
        self.outputFields = value_fields("FromAvro", fields)
        if (schema is None) == (registry is None):
            raise TopologyError(
                "FromAvro: expected either schema=, the schema of all values, or registry={number: schema} for "
                "values of a schema registry's serializer"
            )
        self._members = [(field.name, field.type) for field in arrow_schema(self.outputFields)]
        self._schema = None if schema is None else _parsed("schema", schema)
        self._registry = None if registry is None else _parsed_registry(registry)

    def __call__(self, value: bytes | None) -> Any:
        """Return the fields of one value, as a tuple."""
        if value is None:
            return (None,) * len(self._members)
        if not isinstance(value, bytes):
            raise ValueError(f"expected binary, got {typed_brief(value)}: Avro values are not text")
        record = _read(value, self._schema) if self._registry is None else self._of_registry(value, self._registry)
        if not isinstance(record, dict):
            raise ValueError(f"expected a record, got {typed_brief(record)}")
        return tuple([_converted(record.get(name), kind) for name, kind in self._members])

    def _of_registry(self, value: bytes, registry: Mapping[int, Any]) -> Any:
        number = schema_number(value)
        if number not in registry:
            known = ", ".join(map(str, sorted(registry)))
            raise ValueError(f"its schema has the number {number}, but registry= has {known}: add it there")
        return _read(value[HEAD:], registry[number])

    def __repr__(self) -> str:
        return f"FromAvro({ddl(self.outputFields)!r})"


def _fastavro() -> Any:
    return optional_package("fastavro", "avro", "FromAvro needs the package fastavro, also where Spark's workers run")


def _parsed_registry(registry: object) -> dict[int, Any]:
    if not isinstance(registry, Mapping) or not registry or not all(type(number) is int for number in registry):
        raise TopologyError(
            f"FromAvro: registry={brief(registry)}: expected the schema of each number, such as {{7: '{{...}}'}}"
        )
    return {number: _parsed(f"registry[{number}]", schema) for number, schema in registry.items()}


def _parsed(name: str, schema: object) -> Any:
    """Return a schema in the form that fastavro needs to read values. Raises TopologyError if it is not a schema."""
    fastavro = _fastavro()
    try:
        found = json.loads(schema) if isinstance(schema, str) and schema.lstrip()[:1] in ("{", "[") else schema
        return fastavro.parse_schema(found)
    except Exception as error:  # fastavro raises errors of many kinds for an invalid schema
        raise TopologyError(
            f"FromAvro: {name}={brief(schema)} is not an Avro schema ({type(error).__name__}: {error})"
        ) from None


def _read(value: bytes, schema: Any) -> Any:
    """Return the value that these bytes encode under the schema.

    Raises ValueError if bytes are missing or left over.
    """
    stream = io.BytesIO(value)
    try:
        read = _fastavro().schemaless_reader(stream, schema)
    except MissingPackageError:
        raise
    except Exception as error:  # as above, for bytes that do not fit the schema
        raise ValueError(f"not written with this schema ({type(error).__name__}: {error}){_hint(value)}") from None
    if stream.tell() < len(value):
        raise ValueError(
            f"not written with this schema: {len(value) - stream.tell()} bytes are left over{_hint(value)}"
        )
    return read


def _hint(value: bytes) -> str:
    if not looks_registered(value):
        return ""
    return "; it looks like a value of a schema registry's serializer: give registry={number: schema}, not schema="


def _converted(value: Any, kind: pa.DataType) -> Any:
    """Return a value of a record as a value of the declared type, without nested fields that are not declared."""
    if value is None:
        return None
    if kinds.is_list(kind) and isinstance(value, list):
        return [_converted(item, kind.value_type) for item in value]
    if kinds.is_struct(kind) and isinstance(value, dict):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return {field.name: _converted(value.get(field.name), field.type) for field in fields}
    if kinds.is_map(kind) and isinstance(value, dict):
        return {key: _converted(item, kind.item_type) for key, item in value.items()}
    return str(value) if isinstance(value, uuid.UUID) and kinds.is_string(kind) else value
