"""FromAvro: a function that reads Avro values, such as those of Kafka messages, into fields."""

import uuid
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql.types import StructType

from trident.base.spark_types import arrow_schema, ddl
from trident.operations.avro_records import AvroRecords, AvroSchema
from trident.operations.output_fields import value_fields


class FromAvro:
    """A function that reads an Avro value into fields: ``each("value", FromAvro("user bigint", schema=...))``.

    The value must be a record; its fields are matched with the declared ones by name. A missing field is null, an
    undeclared one is ignored, and a null value (a Kafka tombstone) gives nulls. Avro's logical types become dates,
    times and decimals; an enum and a uuid become strings. Nothing is rounded. The results are the same on both engines
    and in DRPC requests. The package fastavro must be installed in the driver and on Spark's workers (extra ``avro``).

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
    ValueError: its schema has the number 264, but registry= has only 263: add this schema there

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
        self._records = AvroRecords("FromAvro", schema, registry)
        self._members = [(field.name, field.type) for field in arrow_schema(self.outputFields)]

    def __call__(self, value: bytes | None) -> Any:
        """Return the fields of one value, as a tuple."""
        if value is None:
            return (None,) * len(self._members)
        record = self._records.read(value)
        return tuple([plain_value(record.get(name), kind) for name, kind in self._members])

    def __repr__(self) -> str:
        return f"FromAvro({ddl(self.outputFields)!r})"


def plain_value(value: Any, kind: pa.DataType) -> Any:
    """Return a value of a record as a value of the declared type, without undeclared nested fields."""
    if value is None:
        return None
    if kinds.is_list(kind) and isinstance(value, list):
        return [plain_value(item, kind.value_type) for item in value]
    if kinds.is_struct(kind) and isinstance(value, dict):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return {field.name: plain_value(value.get(field.name), field.type) for field in fields}
    if kinds.is_map(kind) and isinstance(value, dict):
        return {key: plain_value(item, kind.item_type) for key, item in value.items()}
    return str(value) if isinstance(value, uuid.UUID) and kinds.is_string(kind) else value
