"""The programs of the guide's page on Kafka run as they stand."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.kafka import KafkaBroker
from tests.support.pages import blocks_of
from tests.support.server import RedisServer
from trident import TridentTopology
from trident.errors import UserFunctionError
from trident.spouts import FixedBatchSpout
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


def test_a_schema_registrys_value_is_taken_apart_and_another_one_refused(tmp_path: Path) -> None:
    topology, output = TridentTopology(), TestOutput()
    rows = [[b"\x00\x00\x00\x01\x02{}"], [b"{}"]]
    page: dict[str, Any] = {"orders": topology.newStream("orders", FixedBatchSpout("value binary", rows))}
    exec(block("class Registered"), page)
    page["avro"].project("schemaId, body").foreachArrow(output)
    with (
        pytest.raises(
            Exception, match="not of a schema registry's serializer: it begins with b'{}', expected"
        ) as raised,
        start_local(topology, name="guide", checkpointLocation=tmp_path) as running,
    ):
        running.processAllAvailable(timeout=60)
    assert isinstance(raised.value.__cause__, UserFunctionError)
    assert [tuple(row) for row in output.rows] == [(258, b"{}")]
