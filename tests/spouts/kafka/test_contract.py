"""KafkaSpout keeps the contract of all spouts, over topics with gaps too."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from tests.support.kafka import KafkaBroker
from trident.spouts import KafkaSpout
from trident.testing import SpoutContract

MakeSpout = Callable[[], Any]
Rows = list[tuple[Any, ...]]


def rows_of(kafka: KafkaBroker, *topics: str) -> Rows:
    """Return the messages of topics as a plain consumer gets them: the tuples that the spout is to give."""
    return [
        (
            message.key(), message.value(), message.topic(), message.partition(), message.offset(),
            datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=message.timestamp()[1]), message.headers() or None,
        )
        for topic in topics
        for message in kafka.messages(topic)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def plain(kafka: KafkaBroker) -> list[str]:
    """Two topics, with keys, headers, an empty and a missing value."""
    names = [kafka.create("contract-a", 2), kafka.create("contract-b")]
    kafka.send(names[0], ["cow", "moon", "cow", None, ""], key=b"k", headers=[("h", b"1"), ("h", None)])
    kafka.send(names[0], ["dog", "spoon"], partition=1)
    kafka.send(names[1], ["dish"])
    return names


@pytest.fixture(scope="module")
def transactions(kafka: KafkaBroker) -> str:
    """A topic with offsets that have no message: markers, and what was aborted, also at the end."""
    name = kafka.create(f"contract-transactions-{uuid.uuid4().hex[:8]}", 2)  # a worker may make it twice
    for word, commit in (("cow", True), ("lost", False), ("moon", True), ("lost", False)):
        kafka.send_transaction(name, [word, word], commit=commit)
    kafka.send_transaction(name, ["dish"], commit=True, partition=1)
    return name


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
class TestPlainTopics(SpoutContract):
    @pytest.fixture
    def make_spout(self, kafka: KafkaBroker, plain: list[str], kind: Literal["transactional", "opaque"]) -> MakeSpout:
        return lambda: KafkaSpout(kafka.servers, plain, kind=kind, maxOffsetsPerBatch=3)

    @pytest.fixture
    def every_row(self, kafka: KafkaBroker, plain: list[str]) -> Rows:
        return rows_of(kafka, *plain)


class TestTransactions(SpoutContract):
    @pytest.fixture
    def make_spout(self, kafka: KafkaBroker, transactions: str) -> MakeSpout:
        return lambda: KafkaSpout(kafka.servers, transactions, maxOffsetsPerBatch=3)

    @pytest.fixture
    def every_row(self, kafka: KafkaBroker, transactions: str) -> Rows:
        rows = rows_of(kafka, transactions)
        assert sorted(row[1] for row in rows) == sorted([b"cow", b"cow", b"moon", b"moon", b"dish"])
        return rows
