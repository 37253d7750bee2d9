"""Debezium: a function that reads a table's changes from the envelope that Debezium writes to Kafka."""

from collections.abc import Mapping
from typing import Any

import msgspec
from pyspark.sql.types import StructField, StructType

from trident.base.change_kinds import CHANGE, KIND
from trident.base.errors import TopologyError
from trident.base.short_texts import brief, short_repr
from trident.base.spark_types import arrow_schema, ddl
from trident.operations.avro_records import AvroRecords, AvroSchema
from trident.operations.debezium_values import Decimals, RowReader, Timestamps, is_unavailable
from trident.operations.json_values import refuse_registered, unregistered
from trident.operations.output_fields import value_fields
from trident_spouts.files.value_conversion import JsonNumber

_JSON = msgspec.json.Decoder(float_hook=JsonNumber)


class Debezium:
    """A function that reads Debezium's change events into changes of rows: ``asChanges(Debezium("id long, n long"))``.

    An event is an object with ``op``, ``before`` and ``after``, alone or as the ``payload`` beside its ``schema``. A
    created row (``c``) or a snapshot row (``r``) gives an insert, an update (``u``) the rows before and after it, a
    deletion (``d``) the deleted row. A null value (the tombstone after a deletion) and a message of the database's log
    (``m``) give nothing. A truncated table (``t``) is refused.

    Members of the rows are matched with the fields by name and must have their types, as for `FromJson` and
    `FromAvro`. An undeclared member is ignored. A field that ``after`` lacks is null. A field that ``before`` lacks
    fails the event, because the removed row could differ from the added one.

    Parameters
    ----------
    fields : str or StructType
        The fields of the table to read, with their types.
    schema : str, dict or list, optional
        The schema of Avro by which all values were written. Omitted, and no mapping as `registry`: JSON.
    registry : bool or mapping of int to schema, optional
        For values of a schema registry's serializer: True for JSON, the schema of each number for Avro.
    decimals : "precise", "string" or "double", optional
        The connector's ``decimal.handling.mode``: in JSON, a field of type decimal is bytes in base64, a text or a
        number. Needed for the first two. "precise" needs fields with the scale of their columns.
    timestamps : "millis", "micros" or "nanos", optional
        The unit of numbers in fields of type timestamp (``io.debezium.time.MicroTimestamp``: micros). Needed if a
        column is written as a number; texts in ISO 8601 (``ZonedTimestamp``) need no unit. A number in a field of type
        date counts days.

    Raises
    ------
    TopologyError, TypeDeclarationError
        An argument is wrong.
    MissingPackageError
        The package fastavro is not installed, and the values are Avro.
    ValueError
        An event cannot be read. So the tuple fails, and `onError` of the verb decides.

    Examples
    --------
    >>> from trident import Debezium
    >>> read = Debezium("id bigint, name string")
    >>> read(b'{"op": "u", "before": {"id": 7, "name": "Ann"}, "after": {"id": 7, "name": "Bob"}}')
    [(7, 'Ann', 'update_preimage'), (7, 'Bob', 'update_postimage')]
    >>> read(b'{"op": "d", "before": {"id": 7, "name": "Bob"}, "after": null}'), read(None)
    ([(7, 'Bob', 'delete')], [])
    """

    inputFields = ("value",)

    def __init__(
        self,
        fields: str | StructType,
        *,
        schema: AvroSchema | None = None,
        registry: bool | Mapping[int, AvroSchema] | None = None,
        decimals: Decimals | None = None,
        timestamps: Timestamps | None = None,
    ) -> None:
        self.fields = value_fields("Debezium", fields)
        if CHANGE.lower() in map(str.lower, self.fields.names):
            raise TopologyError(f"Debezium: remove the field {CHANGE!r}, which the kinds of change use")
        nullable = [StructField(field.name, field.dataType) for field in self.fields.fields]
        self.outputFields = StructType([*nullable, *KIND.fields])
        avro = schema is not None or isinstance(registry, Mapping)
        if not avro and not isinstance(registry, bool | None):
            raise TopologyError(
                f"Debezium: registry={brief(registry)}: expected True, or a mapping from numbers to schemas"
            )
        self._avro = AvroRecords("Debezium", schema, registry or None) if avro else None  # type: ignore[arg-type]
        self._registry = registry is True
        self._names = frozenset(self.fields.names)
        self._rows = RowReader(arrow_schema(self.fields), decimals, timestamps)
        self._deleted = RowReader(arrow_schema(StructType(nullable)), decimals, timestamps)

    def __call__(self, value: bytes | str | None) -> list[tuple[Any, ...]]:
        """Return the changes of one event: none, one, or the two images of an update."""
        event = self._event(value)
        if event is None:
            return []
        if event["op"] == "d":
            return [(*self._before(event, "the deleted row"), "delete")]
        if event["op"] != "u":
            return [(*self._after(event), "insert")]
        before = self._before(event, "the row before the update")
        return [(*before, "update_preimage"), (*self._after(event), "update_postimage")]

    def upsert(self, value: bytes | str | None) -> list[tuple[Any, ...]]:
        """Return the row after an event, or the deletion of a row, of which only the key must be known."""
        event = self._event(value)
        if event is None:
            return []
        if event["op"] == "d":
            return [(*self._deleted.read(_row(event, "before")), "delete")]
        return [(*self._after(event), "insert" if event["op"] != "u" else "update_postimage")]

    def _after(self, event: Mapping[str, Any]) -> tuple[Any, ...]:
        row, before = _row(event, "after"), event.get("before")
        if isinstance(before, Mapping) and any(map(is_unavailable, row.values())):
            row = {**row, **{name: before[name] for name in before if is_unavailable(row.get(name))}}
        return self._rows.read(row)

    def _before(self, event: Mapping[str, Any], what: str) -> tuple[Any, ...]:
        row = event.get("before")
        if not isinstance(row, Mapping) or not self._names <= row.keys():
            missing = [name for name in self.fields.names if row is not None and name not in row]
            raise ValueError(
                f"{what} {f'lacks {missing[0]!r}' if missing else 'is missing'}, so no aggregate could remove it. In "
                "PostgreSQL, set ALTER TABLE ... REPLICA IDENTITY FULL for later events; otherwise keep the rows by "
                "key, asUpserts(Debezium(...)).toTable(key), and use the table's changes()"
            )
        return self._rows.read(row)

    def _event(self, value: bytes | str | None) -> Mapping[str, Any] | None:
        """Return the event envelope in a value; None if the value changes no row.

        Raises ValueError for any other value.
        """
        message = None if value is None else self._avro.read(value) if self._avro else self._object(value)
        if isinstance(message, Mapping) and "payload" in message and "op" not in message:
            message = message["payload"]
        if message is None:
            return None
        op = message.get("op") if isinstance(message, Mapping) else None
        if op == "t":
            raise ValueError(
                "the table was truncated, and such an event does not list the deleted rows, so states would keep them "
                "all. Reset the topology and read a new snapshot; onError='skip' keeps the deleted rows"
            )
        if op not in ("c", "r", "u", "d", "m"):
            raise ValueError(
                f"expected an event of Debezium, with 'op' one of 'c', 'r', 'u', 'd', 't', 'm'; got {_shown(message)}. "
                f"If a transform of the connector flattens events, read them with FromJson and asUpserts"
            )
        return None if op == "m" else message

    def _object(self, value: bytes | str) -> Any:
        if self._registry:
            value = unregistered(value)
        else:
            refuse_registered(value, "Debezium")
        try:
            return _JSON.decode(value)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise ValueError(f"expected an event of Debezium in JSON: {error}") from None

    def __repr__(self) -> str:
        return f"Debezium({ddl(self.fields)!r})"


class DebeziumUpserts:
    """The function of `asUpserts`: the row after an event, or a deletion with the fields that the source sent."""

    inputFields = Debezium.inputFields

    def __init__(self, reader: Debezium) -> None:
        self._reader = reader
        self.outputFields = reader.outputFields

    def __call__(self, value: bytes | str | None) -> list[tuple[Any, ...]]:
        return self._reader.upsert(value)


def _row(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    row = event.get(name)
    if not isinstance(row, Mapping):
        raise ValueError(f"expected an object as {name!r} of an event with op {event['op']!r}, got {short_repr(row)}")
    return row


def _shown(message: object) -> str:
    if not isinstance(message, Mapping):
        return short_repr(message)
    return f"an object with {', '.join(map(repr, message)) or 'no members'}, op {short_repr(message.get('op'))}"
