"""What becomes of the fields of a tuple, and how many tuples are in the driver at a time."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.outputs.kafka.outlets import outlet
from tests.support.kafka import KafkaBroker
from trident import TridentTopology
from trident.files.disk import DiskFiles
from trident.frozen.files import write_frozen
from trident.frozen.results import FrozenFiles
from trident.outputs.kafka import messages
from trident.outputs.outlets import Outlets
from trident.plan.kafka_target import KafkaTarget
from trident.spouts import FixedBatchSpout, KafkaSpout
from trident.testing import TestOutput
from trident.testing.local import start_local

FIELDS = "k string, v binary, h array<struct<key: string, value: binary>>, t string"


def test_fields_become_key_value_headers_and_topic(kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    """Read again by a KafkaSpout, in one topology with the output."""
    other = kafka.create(f"{topic}-other")
    kafka.create(topic)
    header = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    rows = [("wörd", b"\x00\xff", header, None), (None, None, None, other), ("", b"", [], topic)]
    made = TridentTopology()
    made.newStream("rows", FixedBatchSpout(FIELDS, [rows])).writeKafka(
        kafka.servers, topic, key="k", value="v", headers="h", topicField="t"
    )
    output = TestOutput()
    made.newStream("read", KafkaSpout(kafka.servers, [topic, other])).foreachArrow(output)
    with start_local(made, name=topic, checkpointLocation=tmp_path) as running:
        while len(output.rows) < 3:
            running.processAllAvailable(timeout=30)
    found = {row.value: row for row in output.rows}
    ours = [(b"trident.output", f"{topic}/rows.writeKafka")]
    assert [(row.key, row.topic) for row in (found[b"\x00\xff"], found[None], found[b""])] == [
        ("wörd".encode(), topic), (None, other), (b"", topic)
    ]  # fmt: skip
    headers = [(each["key"], each["value"]) for each in found[b"\x00\xff"].headers]
    assert headers == [
        ("h", b"1"), ("h", None), ("trident.output", ours[0][1].encode()), ("trident.txid", b"1"), ("trident.row", b"0")
    ]  # fmt: skip
    assert [each["value"] for each in found[b""].headers][1:] == [b"1", b"2"]


def test_a_key_goes_to_the_partition_that_javas_producer_finds(kafka: KafkaBroker, topic: str) -> None:
    """By murmur2: 'foobar' and '21' have the hashes -790332482 and -973932308 in Kafka's own test."""
    kafka.create(topic, 10)
    written = outlet(kafka.servers, topic, key="key")
    written.take(pa.table({"key": ["foobar", "21"], "value": ["a", "b"]}), 1)
    written.close()
    found = {message.key(): message.partition() for message in kafka.messages(topic)}
    assert found == {b"foobar": (-790332482 & 0x7FFFFFFF) % 10, b"21": (-973932308 & 0x7FFFFFFF) % 10}


def test_a_large_batch_is_read_file_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_CHUNK", 4)
    schema = pa.schema([("value", pa.string())])
    (tmp_path / "f").mkdir()
    parts = [pa.record_batch([[f"{part}-{n}" for n in range(10)]], schema=schema) for part in range(3)]
    files = [write_frozen(iter([part]), DiskFiles(tmp_path), "f", "p", schema) for part in parts]
    result = FrozenFiles("f", tuple(file for file in files if file), schema)
    outlets: Any = object.__new__(Outlets)
    outlets._files = DiskFiles(tmp_path)
    read = 0

    def counted() -> Any:
        nonlocal read
        for table in outlets._tables(result):
            read += 1
            yield table

    target = KafkaTarget("x", "t", None, "value", None, None, "exactly-once", {})
    chunks = messages.messages(counted(), target, "o", 7)
    first = next(chunks)
    assert [message.value for message in first] == ["0-0", "0-1", "0-2", "0-3"] and read == 1
    told = [*first, *(message for chunk in chunks for message in chunk)]
    assert [message.value for message in told] == [f"{part}-{n}" for part in range(3) for n in range(10)]
    assert [message.headers[-1] for message in told] == [("trident.row", str(row)) for row in range(30)]
