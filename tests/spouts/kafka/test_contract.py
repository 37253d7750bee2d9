"""KafkaSpout keeps the contract of all spouts, over topics with gaps too."""

from collections.abc import Callable
from typing import Any, Literal

import pytest

from tests.support.kafka import KafkaBroker
from trident.spouts import KafkaSpout
from trident.testing import SpoutContract

MakeSpout = Callable[[], Any]


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
    name = kafka.create("contract-transactions", 2)
    for word, commit in (("cow", True), ("lost", False), ("moon", True), ("lost", False)):
        kafka.send_transaction(name, [word, word], commit=commit)
    kafka.send_transaction(name, ["dish"], commit=True, partition=1)
    return name


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
class TestPlainTopics(SpoutContract):
    @pytest.fixture
    def make_spout(self, kafka: KafkaBroker, plain: list[str], kind: Literal["transactional", "opaque"]) -> MakeSpout:
        return lambda: KafkaSpout(kafka.servers, plain, kind=kind, maxOffsetsPerBatch=3)


class TestTransactions(SpoutContract):
    @pytest.fixture
    def make_spout(self, kafka: KafkaBroker, transactions: str) -> MakeSpout:
        return lambda: KafkaSpout(kafka.servers, transactions, maxOffsetsPerBatch=3)
