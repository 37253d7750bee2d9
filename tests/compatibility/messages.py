"""An output into Kafka: its topic and record, kept as messages and an offset, because a disk depends on the broker."""

import base64
import json
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient  # type: ignore[attr-defined]

from tests.compatibility.programs import NAME, Places, numbers
from tests.support.kafka import KafkaBroker
from trident import Count, TridentTopology
from trident.state import MemoryMapState

TOPIC, GROUP = "golden-rows", f"trident/{NAME}/kafka"
PARTITIONS = 2


def topology(places: Places) -> TridentTopology:
    """Write tuples into a topic, and count them."""
    made = TridentTopology()
    stream = made.newStream("numbers", numbers(places))
    rows = stream.each("word, seq", lambda word, seq: json.dumps({"word": word, "seq": seq}), "value string")
    rows.writeKafka(places.kafka, TOPIC, key="word", name="kafka")
    stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return made


def written(places: Places) -> Any:
    """Return the committed messages, in order, each with its txid."""
    return sorted(
        [json.loads(value)["seq"], json.loads(value)["word"], dict(headers)["trident.txid"].decode()]
        for _, _, value, headers in read(places.kafka)
    )


def read(servers: str) -> list[tuple[int, bytes | None, bytes, Any]]:
    """Return partition, key, value and headers of all committed messages."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "golden-reader",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    try:
        left, found = {*range(PARTITIONS)}, []
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in left])
        while left:
            message = consumer.poll(30)
            assert message is not None, "Kafka does not answer"
            if message.error() is None:
                found.append((message.partition(), message.key(), message.value(), message.headers()))
            else:
                left.discard(message.partition())
        return found
    finally:
        consumer.close()


def new_topic(broker: KafkaBroker) -> str:
    """Make an empty topic without a record, and return the broker's address."""
    if TOPIC in broker.admin.list_topics(timeout=10).topics:
        broker.delete(TOPIC)
        broker.admin.delete_consumer_groups([GROUP])[GROUP].result(30)
    broker.create(TOPIC, PARTITIONS)
    return broker.servers


def record(admin: AdminClient) -> tuple[int, str]:
    """Return the offset of the output's record, and its metadata."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    asked = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(TOPIC, 0)])
    (stored,) = admin.list_consumer_group_offsets([asked])[GROUP].result().topic_partitions
    return stored.offset, stored.metadata


def put_record(servers: str, offset: int, metadata: str) -> None:
    """Commit a record as the output does."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": GROUP, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset, metadata)], asynchronous=False)
    consumer.close()


def place(admin: AdminClient) -> dict[str, str]:
    """Return the ids of the cluster and of the topic, which no broker gives a second time."""
    from confluent_kafka import TopicCollection

    described = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result()
    return {"cluster": admin.describe_cluster().result().cluster_id, "topic": str(described.topic_id)}


def dump_topic(broker: KafkaBroker) -> str:
    """Return the messages and the record as JSON; a word stands for each id of the place."""
    offset, metadata = record(broker.admin)
    for word, id in place(broker.admin).items():
        metadata = metadata.replace(id, f"the {word}")
    held = [
        [partition, key and key.decode(), value.decode(), [[name, _text(text)] for name, text in headers]]
        for partition, key, value, headers in sorted(read(broker.servers), key=lambda message: message[0])
    ]
    return json.dumps({"messages": held, "offset": offset, "metadata": metadata}, indent=0)


def load_topic(broker: KafkaBroker, text: str) -> str:
    """Write what `dump_topic` returned, and return the broker's address."""
    held, servers = json.loads(text), new_topic(broker)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for partition, key, value, headers in held["messages"]:
        sent = [(name, base64.b64decode(text)) for name, text in headers]
        producer.produce(TOPIC, value, key, partition, headers=sent)
    assert producer.flush(30) == 0
    metadata = held["metadata"]
    for word, id in place(broker.admin).items():
        metadata = metadata.replace(f"the {word}", id)
    put_record(servers, held["offset"], metadata)
    return servers


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()
