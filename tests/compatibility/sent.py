"""A source in Kafka: the broker's disk is stored, because a position names ids that no other broker gives.

The stored broker starts again over its own disk, so the position is compared with the cluster, the topic and the
messages that it was read from, and nothing of it is rewritten.
"""

from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.compatibility.programs import BATCH, PART, Places, record
from tests.support.kafka import KafkaBroker
from trident import Count, Max, TridentTopology
from trident.spouts import KafkaSpout
from trident.state import MemoryMapState

TOPIC, PARTITIONS = "golden-sent", 2
SMALL = {"log.index.size.max.bytes": 4096, "offsets.topic.segment.bytes": 1 << 20}
"""Options of a broker whose disk is small."""


def topology(places: Places) -> TridentTopology:
    """Count the words of messages, and keep the last number of each partition."""
    made = TridentTopology()
    stream = made.newStream("sent", KafkaSpout(places.kafka, TOPIC, maxOffsetsPerBatch=BATCH))
    words = stream.each("value", word_of, "word string, seq long")
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    by_partition = words.groupBy("partition")
    by_partition.persistentAggregate(MemoryMapState.transactional(), "seq", Max(), "last", name="lasts")
    return made


def word_of(value: bytes) -> tuple[str, int]:
    word, _, seq = value.decode().partition(" ")
    return word, int(seq)


def send(places: Places) -> None:
    """Send the messages of so many parts, except for those that are there."""
    consumer = Consumer({"bootstrap.servers": places.kafka, "group.id": "golden"})
    ends = [
        consumer.get_watermark_offsets(TopicPartition(TOPIC, number), timeout=30)[1] for number in range(PARTITIONS)
    ]
    consumer.close()
    producer = Producer({"bootstrap.servers": places.kafka, "linger.ms": 5})
    for seq in range(sum(ends), PART * places.parts):
        word, _ = record(seq)
        producer.produce(TOPIC, f"{word} {seq}".encode(), partition=seq % PARTITIONS)
    assert producer.flush(30) == 0


def new_broker(folder: Path) -> KafkaBroker:
    """Start a broker with an empty topic."""
    broker = KafkaBroker(folder, SMALL).start()
    broker.create(TOPIC, PARTITIONS, retention_ms=-1)  # the messages are years old when a later version reads them
    return broker


def restored(disk: Path, folder: Path) -> KafkaBroker:
    """Start a broker in a folder, on a stored disk."""
    broker = KafkaBroker(folder, SMALL)
    broker.restore(disk)
    return broker
