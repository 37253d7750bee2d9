"""KafkaSpout keeps the contract of sources that change, over a broker that is killed, and put back to a copy."""

import itertools
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest
from confluent_kafka import Producer

from tests.support.kafka import KafkaBroker
from trident.spouts import KafkaSpout
from trident.testing import ChangingSource, SourceContract
from trident_spouts.kafka import cluster

CASES: list[tuple[Literal["transactional", "opaque"], bool]] = [("transactional", False), ("opaque", True)]


class Topic(ChangingSource):
    """A topic of two partitions."""

    def __init__(self, kafka: KafkaBroker, kind: Literal["transactional", "opaque"], latest: bool) -> None:
        self.kafka, self.kind, self.starts_at_its_end = kafka, kind, latest
        self.topic = kafka.create(f"t-{uuid.uuid4().hex[:8]}", 2)
        self._removed = False
        self._numbers = itertools.count()

    def spout(self) -> Any:
        starting: Any = {"startingOffsets": "latest"} if self.starts_at_its_end else {}
        return KafkaSpout(self.kafka.servers, self.topic, kind=self.kind, maxOffsetsPerBatch=3, **starting)

    def add(self, count: int) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        if self._removed:
            self.kafka.create(self.topic, 2)
            self._removed = False

        def sent(error: Any, message: Any) -> None:
            assert error is None, error
            time = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=message.timestamp()[1])
            rows.append((None, message.value(), self.topic, message.partition(), message.offset(), time, None))

        producer = Producer({"bootstrap.servers": self.kafka.servers})
        for number in itertools.islice(self._numbers, count):
            producer.produce(self.topic, str(number).encode(), partition=number % 3 // 2, on_delivery=sent)
        assert producer.flush(30) == 0
        return rows

    def replace(self) -> None:
        self.kafka.delete(self.topic)
        self.kafka.create(self.topic, 2)

    def remove(self) -> None:
        self.kafka.delete(self.topic)
        self._removed = True


class MatchedTopic(Topic):
    """A topic that a pattern finds."""

    def spout(self) -> Any:
        starting: Any = {"startingOffsets": "latest"} if self.starts_at_its_end else {}
        return KafkaSpout(
            self.kafka.servers, pattern=f"{self.topic}.*", kind=self.kind, maxOffsetsPerBatch=3, **starting
        )


class MortalTopic(Topic):
    """A topic of a broker that may be killed, and put back to a copy of its disk."""

    def copy(self) -> None:
        self.kafka.back_up(self.kafka.folder / "copy")

    def restore(self) -> None:
        self.kafka.restore(self.kafka.folder / "copy")

    def hide(self) -> None:
        self.kafka.kill()

    def show(self) -> None:
        self.kafka.start()


@pytest.fixture(scope="module")
def restorable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker of this file's own: what is put back is the disk of the whole broker."""
    with KafkaBroker(tmp_path_factory.mktemp("restorable") / "broker") as broker:
        yield broker


@pytest.mark.parametrize(("kind", "latest"), CASES)
class TestTopics(SourceContract):
    @pytest.fixture
    def source(self, kafka: KafkaBroker, kind: Literal["transactional", "opaque"], latest: bool) -> Topic:
        return Topic(kafka, kind, latest)


@pytest.mark.parametrize("latest", [False, True])
class TestMatchedTopics(SourceContract):
    @pytest.fixture
    def source(self, kafka: KafkaBroker, latest: bool) -> MatchedTopic:
        return MatchedTopic(kafka, "transactional", latest)


@pytest.mark.soak  # a restart of the broker for each; test_partition_identity.py has one for all its tests
@pytest.mark.parametrize(("kind", "latest"), CASES)
class TestMortalTopics(SourceContract):
    @pytest.fixture
    def source(
        self,
        restorable: KafkaBroker,
        kind: Literal["transactional", "opaque"],
        latest: bool,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Topic:
        monkeypatch.setattr(cluster, "PATIENCE_SECS", 2.0)
        return MortalTopic(restorable, kind, latest)
