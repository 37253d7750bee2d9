"""The verb that writes a stream into Kafka."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, cast, get_args

import pyspark.sql.types as spark

from trident.base.argument_checks import check_choice
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.short_texts import typed_brief
from trident.base.spark_types import type_ddl
from trident.base.verb_call import Step
from trident.operations.kafka_messages import INTERNAL, OF_BROKERS, Deliverable, is_topic
from trident.plan import nodes, step_checks
from trident.plan.kafka_target import KafkaGuarantee, KafkaTarget
from trident.stream.base import StreamBase, StreamT
from trident.stream.outputs import check_output, output_name
from trident.stream.value_checks import add_check
from trident_spouts.kafka.options import ALWAYS_OURS, Option, check_options

_OURS = ALWAYS_OURS | {
    "isolation.level": "",
    "enable.idempotence": "guarantee",
    "delivery.report.only.error": "",
    "topic": "topic",
}


class KafkaOutputVerbs(StreamBase[StreamT]):
    """The verb that writes every batch into Kafka."""

    __slots__ = ()

    def writeKafka(
        self,
        bootstrapServers: str,
        topic: str,
        *,
        value: str = "value",
        key: str | None = None,
        headers: str | None = None,
        topicField: str | None = None,
        guarantee: Literal["exactly-once", "at-least-once"] = "exactly-once",
        options: Mapping[str, Option] | None = None,
        name: str | None = None,
    ) -> StreamT:
        """Write every tuple as a message into Kafka, exactly once, and return this stream.

        Each batch is one transaction of Kafka, after every state of the batch group holds the batch. The transaction
        also records the batch's txid, as the committed offset of a consumer group that only this output uses. If a
        batch is handed over again after a crash, its txid is already recorded there, and it is skipped. So a consumer
        with ``isolation.level=read_committed``, as `KafkaSpout` is, sees each tuple once. The driver writes: all tuples
        of a batch pass through it, some thousands at a time.

        Each message has, after the headers of the tuple, the headers ``trident.output`` ("topology/output"),
        ``trident.txid`` and ``trident.row`` (the number of the tuple in the batch).

        Parameters
        ----------
        bootstrapServers : str
            Brokers to begin with, ``"host:9092,host:9092"``; or ``"env:NAME"`` or ``"file:path"`` that holds them.
        topic : str
            The topic to write to; it must exist. The record of the txid belongs to its partition 0.
        value, key : str
            The fields for value and key, of type string or binary; a null gives a message without value or key.
        headers : str, optional
            A field for headers: ``array<struct<key: string, value: binary>>``, as `KafkaSpout` gives them. A null in
            the array, and a header whose key is null, fail the batch before it is frozen.
        topicField : str, optional
            A field of type string that names a topic to use instead of `topic` for its tuple; null means `topic`. A
            text that cannot be the name of a topic, such as an empty one, fails the batch before it is frozen.
        guarantee : "exactly-once" or "at-least-once"
            "at-least-once" needs no transactions: after a crash a batch may come twice. ``trident.txid`` and
            ``trident.row`` say which messages are the same.
        options : mapping, optional
            Options of the clients under the names of librdkafka, for logins, TLS, compression, message sizes and so on.
            A value ``"env:NAME"`` or ``"file:path"`` is read there when a client connects. ``transactional.id`` and
            ``group.id`` replace the names that the output has in Kafka, ``trident/<topology>/<output>``.
        name : str, optional
            The output's identity over restarts; ``<stream>.writeKafka`` if omitted.

        Raises
        ------
        TypeDeclarationError
            If the type of a field fits no part of a message.
        OutputRefusedError
            When the topology runs: a topic does not exist, a message is too large, the user lacks a permission, or the
            brokers do not support transactions. The batch stays frozen.
        OutputUnavailableError
            When the topology runs: the brokers do not answer. The commit is repeated for `commitRetrySecs`.
        OutputConflictError
            When the topology starts: Kafka's record of the output belongs to another log, or is ahead of this log; or
            the record is gone, and a waiting batch may have been written already.

        Examples
        --------
        >>> from trident import TridentTopology, expr
        >>> from trident.spouts import FixedBatchSpout
        >>> spout = FixedBatchSpout("user string, price double", [[("ann", 2.5)]])
        >>> orders = TridentTopology().newStream("orders", spout)
        >>> as_json = orders.each(expr("to_json(struct(user, price))"), "value string")
        >>> as_json.writeKafka("localhost:9092", "orders", key="user")
        Stream(orders/1:each(expr): user string, price double, value string)
        """
        step = self._step("writeKafka")
        check_output(self, step)
        options = {} if options is None else options
        check_kafka(step, "writeKafka", bootstrapServers, topic, guarantee, options)
        field = partial(_field, self.schema, step)
        target = KafkaTarget(
            bootstrapServers,
            topic,
            field("key", key, "string or binary", is_text),
            cast("str", field("value", value, "string or binary", is_text)),
            field("headers", headers, "array<struct<key: string, value: binary>>", _is_headers),
            field("topicField", topicField, "string", lambda kind: isinstance(kind, spark.StringType)),
            guarantee,
            dict(options),
        )
        name = output_name(self, "writeKafka", name, step)
        check = Deliverable(target.topic_field, target.headers)
        node = add_check(self, check.fields, check, step, ".deliverable")
        self._register.add(self._label, nodes.WriteKafka(node, name, target, **step.gives(self.schema)))
        return cast("StreamT", self)


def check_kafka(
    step: Step, verb: str, bootstrapServers: object, topic: object, guarantee: object, options: Mapping[str, Option]
) -> None:
    """Refuse invalid arguments of a verb that writes into Kafka."""
    if not isinstance(bootstrapServers, str) or not bootstrapServers:
        raise step.wrong(
            f"bootstrapServers={typed_brief(bootstrapServers)}: expected 'host:port', several separated by commas"
        )
    if not isinstance(topic, str) or not is_topic(topic):
        internal = f", {OF_BROKERS}" if topic in INTERNAL else ""
        raise step.wrong(f"topic={typed_brief(topic)}{internal}: expected the name of a topic, such as 'orders'")
    try:
        check_choice("guarantee", guarantee, get_args(KafkaGuarantee))
    except TopologyError as error:
        raise step.wrong(str(error)) from None
    check_options("options", options, verb, _OURS, step.wrong)


Fits = Callable[[spark.DataType], bool]


def is_text(kind: spark.DataType) -> bool:
    return isinstance(kind, spark.StringType | spark.BinaryType)


def _is_headers(kind: spark.DataType) -> bool:
    if not isinstance(kind, spark.ArrayType) or not isinstance(kind.elementType, spark.StructType):
        return False
    header = kind.elementType
    return (
        header.names == ["key", "value"]
        and isinstance(header["key"].dataType, spark.StringType)
        and is_text(header["value"].dataType)
    )


def _field(
    schema: spark.StructType, step: Step, parameter: str, name: str | None, accepted: str, fits: Fits
) -> str | None:
    """Return the field that a parameter names.

    Raises an error if the stream lacks the field, or its type is not accepted.
    """
    if name is None and parameter != "value":
        return None
    if not isinstance(name, str):
        raise step.wrong(f"{parameter}={typed_brief(name)}: expected the name of a field")
    names = step_checks.known_fields(schema, name, step, f" for {parameter}=")
    if len(names) != 1:
        raise step.wrong(f"{parameter}={name!r}: expected one field")
    kind = schema[names[0]].dataType
    if not fits(kind):
        way_out = (
            ("; create one, for example with each(expr('to_json(struct(*))'), 'value string')")
            if fits is is_text
            else ""
        )
        raise step.error(
            TypeDeclarationError, f"{parameter}: field {names[0]!r} is {type_ddl(kind)}: expected {accepted}{way_out}"
        )
    return names[0]
