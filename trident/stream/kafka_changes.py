"""The verb that maintains the rows of a table in a Kafka topic, from a stream of changes."""

from collections.abc import Mapping, Sequence
from typing import Literal, cast

from pyspark.sql.types import DataType, StringType, StructField, StructType

from trident.base.argument_checks import check_choice
from trident.base.change_kinds import CHANGE, KIND
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.names import FieldsLike, free_name
from trident.base.spark_types import ddl, select
from trident.base.verb_call import Step
from trident.operations.functions import Call, Operation
from trident.operations.upserts import UpsertMessage
from trident.plan import nodes, step_checks
from trident.plan.change_order import consolidated
from trident.plan.kafka_target import KafkaTarget
from trident.stream.base import StreamBase, StreamT
from trident.stream.kafka_output import check_kafka, is_text
from trident.stream.keyed_outputs import key_fields
from trident.stream.outputs import check_output, output_name
from trident_spouts.kafka.options import Option

KafkaFormat = Literal["json", "raw"]
"""How a key or value is encoded: as a JSON object of its fields, or as its single field unchanged."""

_KEY, _VALUE = "key", "value"


class KafkaChangeVerbs(StreamBase[StreamT]):
    """The verb that writes changes into Kafka."""

    __slots__ = ()

    def writeChanges(
        self,
        bootstrapServers: str,
        topic: str,
        keyFields: FieldsLike,
        *,
        valueFields: FieldsLike | None = None,
        keyFormat: KafkaFormat = "json",
        valueFormat: KafkaFormat = "json",
        guarantee: Literal["exactly-once", "at-least-once"] = "exactly-once",
        options: Mapping[str, Option] | None = None,
        name: str | None = None,
    ) -> StreamT:
        """Maintain the rows of a table in a Kafka topic, exactly once: a message is a row or its deletion.

        A batch writes one message for each key that it changed: the last row of the key, or, if the last change takes
        the row away, a message without value (a tombstone). So the last message of each key is the row, also after the
        topic was compacted. Transactions, the record of the txid, headers and errors are those of `writeKafka`. Which
        change of a key is the last one is decided as in `toTable`. Meaning: an upsert topic, as Flink's
        ``upsert-kafka`` and Kafka Streams' ``KTable.toStream().to(topic)`` write it, but in one transaction for each
        batch.

        Parameters
        ----------
        bootstrapServers, topic, guarantee, options
            As in `writeKafka`.
        keyFields : str or list of str
            The fields that identify a row. A null in one of them fails the batch before it is frozen.
        valueFields : str or list of str, optional
            The fields of the value. Omitted: all fields, with the key.
        keyFormat, valueFormat : "json" or "raw"
            "json": a JSON object of the fields, as `FromJson` reads it. "raw": the single field, of type string or
            binary, unchanged; encode a value in another format, such as Avro, with `each` before.
        name : str, optional
            The output's identity over restarts; ``<stream>.writeChanges`` if omitted.

        Raises
        ------
        TopologyError
            If a step before may bring changes of a key out of their order.
        TypeDeclarationError
            If a field fits no part of a message.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> pets = TridentTopology().newStream("pets", FixedBatchSpout("id long, name string, op string", []))
        >>> changes = pets.asChanges("op", {"c": "insert", "d": "delete"})
        >>> changes.writeChanges("localhost:9092", "pets", "id")
        ChangeStream(pets/1:asChanges: id bigint, name string, _change_type string)
        """
        step = self._step("writeChanges")
        check_output(self, step)
        options = {} if options is None else options
        check_kafka(step, "writeChanges", bootstrapServers, topic, guarantee, options)
        keys, values = self._message_fields(keyFields, valueFields, step)
        raw_key = _raw("keyFormat", keyFormat, keys, step)
        message = UpsertMessage(
            tuple(keys.names), tuple(values.names), raw_key, _raw("valueFormat", valueFormat, values, step)
        )
        name = output_name(self, "writeChanges", name, step)
        node = self._messages(message, step)
        target = KafkaTarget(
            *(bootstrapServers, topic, _KEY, _VALUE, None, None, guarantee, dict(options)),
            changes=True,
            consolidated=consolidated(self._node),
        )
        self._register.add(self._label, nodes.WriteKafka(node, name, target, **step.gives(node.schema)))
        return cast("StreamT", self)

    def _message_fields(
        self, keyFields: FieldsLike, valueFields: FieldsLike | None, step: Step
    ) -> tuple[StructType, StructType]:
        keys = key_fields(self, keyFields, step)
        values = self.fields[:-1] if valueFields is None else self._inputs(valueFields, step)
        if CHANGE in values:
            raise step.wrong(f"{CHANGE!r} is not a field of the row, but the kind of its change")
        return keys, step_checks.chosen(self.schema, values, step)

    def _messages(self, message: UpsertMessage, step: Step) -> nodes.Node:
        """Add the steps that build the messages, and return the last one, with the fields key, value and kind."""
        operation = Operation(message, step.called, Call.VALUES)
        made = list[str]()
        for name in (_KEY, _VALUE):
            made.append(free_name(name, [*self.schema.names, *made]))
        kinds = (
            _kind(self.schema, message.keys, message.raw_key),
            _kind(self.schema, message.values, message.raw_value),
        )
        outputs = StructType([StructField(name, kind) for name, kind in zip(made, kinds, strict=True)])
        both = step_checks.appended(self.schema, outputs, step)
        reads = (CHANGE, *message.keys, *message.values)
        node: nodes.Node = nodes.Each(self._node, reads, operation, outputs, **step.gives(both, ".messages"))
        self._register.add(self._label, node, part=True)
        fields = [StructField(name, kind) for name, kind in zip((_KEY, _VALUE), kinds, strict=True)]
        schema = StructType([*fields, *KIND.fields])
        node = nodes.Project(node, (*made, CHANGE), **step.gives(schema, ".fields"))
        self._register.add(self._label, node, part=True)
        return node


def _raw(parameter: str, form: object, fields: StructType, step: Step) -> bool:
    """Return whether a key or value is written as its single field, unchanged."""
    try:
        check_choice(parameter, form, ("json", "raw"))
    except TopologyError as error:
        raise step.wrong(str(error)) from None
    if form == "raw" and (len(fields) != 1 or not is_text(fields[0].dataType)):
        raise step.error(
            TypeDeclarationError,
            f"{parameter}='raw' takes one field of type string or binary, but the fields are ({ddl(fields)}); name "
            f"one such field, or use {parameter}='json'",
        )
    return form == "raw"


def _kind(schema: StructType, names: Sequence[str], raw: bool) -> DataType:
    return select(schema, list(names))[0].dataType if raw else StringType()
