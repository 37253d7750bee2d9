"""KafkaSpout keeps the contract of all spouts, over topics with gaps too."""

from collections.abc import Callable
from typing import Any, Literal

import pytest

from tests.support.kafka import KafkaBroker
from trident.spouts import KafkaSpout
from trident.testing import SpoutContract

MakeSpout = Callable[[], Any]


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
class TestPlainTopics(SpoutContract):
    @pytest.fixture
    def make_spout(self, kafka: KafkaBroker, topic: str, kind: Literal["transactional", "opaque"]) -> MakeSpout:
        names = [kafka.create(f"{topic}-a", 2), kafka.create(f"{topic}-b")]
        kafka.send(names[0], ["cow", "moon", "cow", None, "dog"], key=b"k", headers=[("h", b"1"), ("h", None)])
        kafka.send(names[0], ["dog", "spoon"], partition=1)
        kafka.send(names[1], ["dish"])
        return lambda: KafkaSpout(kafka.servers, names, kind=kind, maxOffsetsPerBatch=3)


class TestTransactions(SpoutContract):
    """Offsets without messages: markers, and what was aborted, also at the end of a topic."""

    @pytest.fixture
    def make_spout(self, kafka: KafkaBroker, topic: str) -> MakeSpout:
        kafka.create(topic, 2)
        for word, commit in (("cow", True), ("lost", False), ("moon", True), ("lost", False)):
            kafka.send_transaction(topic, [word, word], commit=commit)
        kafka.send_transaction(topic, ["dish"], commit=True, partition=1)
        return lambda: KafkaSpout(kafka.servers, topic, maxOffsetsPerBatch=2)
