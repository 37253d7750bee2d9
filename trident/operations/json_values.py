"""FromJson: a function that reads JSON values, such as those of Kafka messages, into fields."""

import decimal
from collections.abc import Callable
from typing import Any

import msgspec
import numpy
import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.accepted_values import check_nulls
from trident.base.argument_checks import check_flag
from trident.base.spark_types import arrow_schema, ddl
from trident.base.value_conversion import exact_type, to_arrow
from trident.operations.column_functions import PartlyColumns
from trident.operations.output_fields import value_fields
from trident.operations.registry_form import HEAD, looks_registered, schema_number
from trident_spouts.files.json_columns import JsonColumns, decoder_for, holds_decimals
from trident_spouts.files.json_lines import read_object
from trident_spouts.files.value_conversion import Numbers, ValueReader
from trident_spouts.files.value_options import check_values

_DECODER = msgspec.json.Decoder()


class FromJson:
    """A function that reads a JSON value, binary or string, into fields: ``each("value", FromJson("user bigint"))``.

    The value must be an object; its members are matched with the fields by name. A missing member is null, an
    undeclared one is ignored, and a null value (a Kafka tombstone) gives nulls. A member must have the JSON type of
    its field, as in ``FileSpout(path, Json())``: dates and times are ISO 8601 strings, binary is a base64 string, and
    a decimal may be a string, too. Nothing is rounded or guessed. The results are the same on both engines and in DRPC
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
        self._quick = all(field.nullable and not holds_decimals(field.type) for field in self._schema)

    def __call__(self, value: bytes | str | None) -> Any:
        """Return the fields of one value, as a tuple."""
        if value is None:
            return (None,) * len(self._members)
        if self._registry:
            value = unregistered(value)
        quick = self._read_quickly(value) if self._quick else None
        return self._read_exactly(value) if quick is None else quick

    def _read_quickly(self, value: bytes | str) -> tuple[Any, ...] | None:
        """Return the fields of a value, read by the fast parser; None if the value needs the exact parser."""
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

    def _by_columns(self) -> "JsonValues":
        return JsonValues(self, self._schema, self._values, self._registry)

    def __repr__(self) -> str:
        return f"FromJson({ddl(self.outputFields)!r})"


def refuse_registered(value: bytes | str, reader: str) -> None:
    """Raise ValueError for a value that begins like a schema registry's. `reader` names the calling function."""
    if looks_registered(value):
        raise ValueError(
            f"it begins with a zero byte, like a value of a schema registry's serializer: for JSON use {reader}(..., "
            f"registry=True), for Avro {'FromAvro' if reader == 'FromJson' else reader}(..., registry={{number: "
            "schema})"
        )


def unregistered(value: bytes | str) -> bytes:
    """Return the JSON in a value of a schema registry's serializer. The schema is not needed."""
    written = value.encode() if isinstance(value, str) else value
    schema_number(written)
    return written[HEAD:]


def accepted_types(kind: pa.DataType) -> tuple[type, ...]:
    """Return the Python types whose values need no conversion for a column of this type; none if each needs a check.

    >>> accepted_types(pa.float64()), accepted_types(pa.list_(pa.int64()))
    ((<class 'float'>, <class 'int'>), ())
    """
    exact = exact_type(kind)
    return () if exact is None else (float, int) if exact is float else (exact,)


# --- many values at once ------------------------------------------------------------------------------------------

_PART = 256
"""The most values decoded at once. The garbage collector would walk over more objects again and again."""


class JsonValues(PartlyColumns):
    """The fields of many values, equal to the results of `FromJson`, which itself reads the doubtful ones."""

    def __init__(
        self, function: Callable[[bytes | str | None], Any], outputs: pa.Schema, reader: ValueReader, registry: bool
    ) -> None:
        self._function, self._outputs, self._registry = function, outputs, registry
        self._columns = JsonColumns(outputs, reader)

    @property
    def outputs(self) -> pa.Schema:
        return self._outputs

    def columns(self, values: pa.Array) -> tuple[list[pa.Array], list[int]]:
        parts, failing = list[list[pa.Array]](), list[int]()
        for start in range(0, len(values), _PART):
            columns, wrong = self._part(values.slice(start, _PART).to_pylist())
            parts.append(columns)
            failing += [start + row for row in wrong]
        return [pa.concat_arrays(each) for each in zip(*parts, strict=True)], failing

    def _part(self, values: list[bytes | str | None]) -> tuple[list[pa.Array], list[int]]:
        doubts, failing = set[int](), list[int]()
        columns = self._columns.read(self._decoded(values, doubts), doubts)
        read: dict[int, list[pa.Array]] = {}
        for row in sorted(doubts):
            try:
                read[row] = self._row(values[row])
            except Exception:  # the call for the tuple raises it again, as the step's error
                failing.append(row)
        if not read:
            return columns, failing
        places = numpy.arange(len(values))
        places[[*read]] = range(len(values), len(values) + len(read))
        rows = zip(columns, zip(*read.values(), strict=True), strict=True)
        return [pa.concat_arrays([column, *cells]).take(pa.array(places)) for column, cells in rows], failing

    def _decoded(self, values: list[bytes | str | None], doubts: set[int]) -> list[Any]:
        decode, registry = decoder_for(self._outputs).decode, self._registry
        objects: list[Any] = []
        for row, value in enumerate(values):
            try:
                objects.append({} if value is None else decode(unregistered(value) if registry else value))
            except (msgspec.DecodeError, RecursionError, ValueError):
                doubts.add(row)
                objects.append(None)
        return objects

    def _row(self, value: bytes | str | None) -> list[pa.Array]:
        fields = self._function(value)
        for read, field in zip(fields, self._outputs, strict=True):
            check_nulls((read,), field)
        return [to_arrow([read], field.type) for read, field in zip(fields, self._outputs, strict=True)]


def columns_of(function: object) -> PartlyColumns | None:
    """Return the form of a library function for many values; None if it has none."""
    return function._by_columns() if type(function) is FromJson else None  # noqa: SLF001  it is no part of the API
