"""The contract of outputs, for Kafka. Restored records and topics are in `test_evidence.py`."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.outputs.kafka.outlets import sink_of
from tests.support.kafka import KafkaBroker
from trident.outputs.kafka.outlet import KafkaOutlet
from trident.outputs.run_identity import RunIdentity
from trident.testing import OutputContract, OutputPlace
from trident.testing.contracts.outputs import OUTPUT, Take


class Topic:
    """A topic, and the outputs that were opened for it."""

    def __init__(self, kafka: KafkaBroker, name: str) -> None:
        kafka.create(name)
        self._kafka, self._name = kafka, name
        self.opened: list[KafkaOutlet] = []

    def open(self, run: RunIdentity) -> Take:
        sink = sink_of(self._kafka.servers, self._name, OUTPUT, value="word", field="word")
        self.opened.append(KafkaOutlet(sink, replace(run, topology=self._name), lambda result: [result]))
        return self.opened[-1].take

    def words(self) -> list[str]:
        return [value.decode() for value in self._kafka.values(self._name) if value is not None]


class TestKafka(OutputContract):
    compares = False  # the record holds the txid, and a batch that is there is not sent again
    gapless = False

    @pytest.fixture
    def place(self, kafka: KafkaBroker, topic: str) -> Iterator[OutputPlace]:  # type: ignore[override]
        made = Topic(kafka, topic)
        yield made
        for each in made.opened:
            each.close()
