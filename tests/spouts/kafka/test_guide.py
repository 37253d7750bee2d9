"""The programs of the guide's page on Kafka run as they stand."""

from pathlib import Path
from typing import Any

from tests.support.kafka import KafkaBroker
from tests.support.pages import blocks_of
from tests.support.server import RedisServer
from trident import TridentTopology
from trident.spouts import FixedBatchSpout, KafkaSpout
from trident.testing import TestOutput
from trident.testing.local import start_local

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "kafka.md"


def block(text: str) -> str:
    """Return the block of the page that has this text."""
    (found,) = (each for each in blocks_of(PAGE) if text in each)
    return found


def test_the_guides_program_counts(mortal: KafkaBroker, shared_redis: RedisServer, tmp_path: Path) -> None:
    mortal.send(mortal.create("orders"), ["tea", "milk", "tea"])
    program = block('Count(), "count"').replace("localhost:9092", mortal.servers)
    page: dict[str, Any] = {}
    exec(program.replace("redis://localhost", shared_redis.url), page)
    with start_local(page["topology"], name="guide", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
        assert dict(running.state("counts").items()) == {"tea": 2, "milk": 1}


def test_the_guides_output_writes_each_tuple_once(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.create("sold")
    page: dict[str, Any] = {"TridentTopology": TridentTopology}
    exec(block("writeKafka").replace("localhost:9092", kafka.servers), page)
    with start_local(page["shop"], name="shop", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
    assert [message.key() for message in kafka.messages(topic)] == [b"ann", b"bob", b"ann"]


def test_the_guides_changes_write_a_row_and_its_deletion(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.create("stock")
    page: dict[str, Any] = {"shop": TridentTopology(), "FixedBatchSpout": FixedBatchSpout}
    exec(block("writeChanges").replace("localhost:9092", kafka.servers), page)
    with start_local(page["shop"], name="shop", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
    written = [(message.key(), message.value()) for message in kafka.messages(topic)]
    assert written == [(b'{"item":"pen"}', b'{"item":"pen","n":3}'), (b'{"item":"pen"}', None)]


def test_the_guides_functions_read_json_and_avro(kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    """The first message is JSON, the second bare Avro, the third Avro of a registry: each function reads its own."""
    user = bytes([14, 6]) + b"ann"
    kafka.send(kafka.create(topic), [b'{"user": 7, "item": "tea"}', user, bytes.fromhex("0000000007") + user])
    topology = TridentTopology()
    values = topology.newStream("orders", KafkaSpout(kafka.servers, topic))
    found: dict[str, TestOutput] = {name: TestOutput() for name in ("parsed", "bare", "users")}
    page: dict[str, Any] = {"orders": values}
    for text in ("import FromJson", "import FromAvro"):
        exec(block(text).replace("))", '), onError="skip")'), page)
    for name, output in found.items():
        page[name].project("offset", *page[name].fields[7:]).foreachArrow(output, name=name)
    with start_local(topology, name="guide", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
    rows = {name: [tuple(row) for row in output.rows] for name, output in found.items()}
    assert rows == {"parsed": [(0, 7, "tea", None)], "bare": [(1, 7, "ann")], "users": [(2, 7, "ann")]}
