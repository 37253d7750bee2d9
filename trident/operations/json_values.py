"""FromJson: a function that reads values of JSON, such as those of Kafka's messages, into fields."""

import decimal
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql.types import StructType

from trident.base.checks import check_flag
from trident.base.types import arrow_schema, ddl
from trident.base.values import exact_type
from trident.operations.output_fields import value_fields
from trident.operations.registry_form import HEAD, looks_registered, schema_number
from trident_spouts.files.jsonlines import read_object
from trident_spouts.files.value_options import check_values
from trident_spouts.files.values import Numbers, ValueReader

_DECODER = msgspec.json.Decoder()


class FromJson:
    """A function that reads a value of JSON, binary or text, into fields: ``each("value", FromJson("user bigint"))``.

    The value must be an object; its members are matched with the fields by name. A missing member is null, one that is
    not declared is ignored, and a null value (a tombstone of Kafka) gives nulls. A member must have the JSON type of
    its field, as in ``FileSpout(path, Json())``: dates and times are texts in ISO 8601, binary is text in base64, and
    a decimal may be a text too. Nothing is rounded or guessed. The results are the same on both engines and in DRPC
    requests.

    Parameters
    ----------
    fields : str or StructType
        The fields that the function gives, with their types. `each` and `map` then need no output fields.
    registry : bool
        True if the values come from a schema registry's serializer, which puts a zero byte and the schema's number,
        four bytes, before the JSON. If it is false such a value is refused; if it is true, any other value.
    numbers : "strict" or "lenient"
        Lenient: 517.0 and "517" are whole numbers too.
    timeZone : str, optional
        The zone of times that name none, such as "Europe/Berlin".

    Raises
    ------
    TopologyError, TypeDeclarationError
        An argument is wrong.
    ValueError
        A value cannot be read. So the tuple fails, and `onError` of the verb decides: the batch fails, or the tuple is
        skipped or kept as a dead letter.

    Examples
    --------
    >>> from trident import FromJson
    >>> order = FromJson("user bigint, item string")
    >>> order(b'{"user": 7, "item": "tea", "more": true}')
    (7, 'tea')
    >>> order(b'{"user": "7"}')
    Traceback (most recent call last):
    ValueError: field 'user': expected bigint, got "7" (numbers="lenient" reads it)

    Notes
    -----
    Spark's counterpart is ``from_json``, which gives null for a value that it cannot read.
    """

    def __init__(
        self,
        fields: str | StructType,
        *,
        registry: bool = False,
        numbers: Numbers = "strict",
        timeZone: str | None = None,
    ) -> None:
        self.outputFields = value_fields("FromJson", fields)
        check_flag("FromJson: registry", registry)
        check_values("FromJson", numbers, timeZone)
        self._registry = registry
        self._values = ValueReader(numbers == "lenient", timeZone)
        self._schema = arrow_schema(self.outputFields)
        self._members = [(field.name, field.type, accepted_types(field.type)) for field in self._schema]
        self._quick = all(field.nullable and not _holds_decimals(field.type) for field in self._schema)

    def __call__(self, value: bytes | str | None) -> Any:
        """Return the fields of one value, as a tuple."""
        if value is None:
            return (None,) * len(self._members)
        if self._registry:
            value = unregistered(value)
        quick = self._read_quickly(value) if self._quick else None
        return self._read_exactly(value) if quick is None else quick

    def _read_quickly(self, value: bytes | str) -> tuple[Any, ...] | None:
        """Return the fields of a value, read by the fast parser; None if only the exact parser can read them."""
        try:
            found = _DECODER.decode(value)
            if type(found) is not dict:
                return None
            fields = []
            for name, kind, accepted in self._members:
                member = found.get(name)
                if member is not None and type(member) not in accepted:
                    member = self._values.from_json(member, kind)
                    if accepted and type(member) not in accepted:
                        return None
                fields.append(member)
        except (msgspec.DecodeError, decimal.InvalidOperation, RecursionError, ValueError):
            return None
        return tuple(fields)

    def _read_exactly(self, value: bytes | str) -> tuple[Any, ...]:
        refuse_registered(value, "FromJson")
        text = value if isinstance(value, str) else bytes(value).decode()
        return tuple(read_object(text, self._schema, self._values).values())

    def __repr__(self) -> str:
        return f"FromJson({ddl(self.outputFields)!r})"


def refuse_registered(value: bytes | str, reader: str) -> None:
    """Raise ValueError for a value that begins as those of a schema registry's serializer. `reader` is a function."""
    if looks_registered(value):
        raise ValueError(
            f"it looks like a value of a schema registry's serializer, since it begins with a zero byte: for JSON use "
            f"{reader}(..., registry=True), for Avro {'FromAvro' if reader == 'FromJson' else reader}(..., "
            f"registry={{number: schema}})"
        )


def unregistered(value: bytes | str) -> bytes:
    """Return the JSON in a value from a schema registry's serializer. The schema need not be known for that."""
    written = value.encode() if isinstance(value, str) else value
    schema_number(written)
    return written[HEAD:]


def accepted_types(kind: pa.DataType) -> tuple[type, ...]:
    """Return the Python types whose values a column of this type holds unchanged; none if values need a closer check.

    >>> accepted_types(pa.float64()), accepted_types(pa.list_(pa.int64()))
    ((<class 'float'>, <class 'int'>), ())
    """
    exact = exact_type(kind)
    return () if exact is None else (float, int) if exact is float else (exact,)


def _holds_decimals(kind: pa.DataType) -> bool:
    """Return whether a type is or contains a decimal. Only the exact parser keeps all digits of a decimal."""
    return kinds.is_decimal(kind) or any(_holds_decimals(kind.field(at).type) for at in range(kind.num_fields))
