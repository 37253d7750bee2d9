"""A broker for all tests of this folder, and a topic name for each."""

import uuid
from collections.abc import Iterator

import pytest

pytest.importorskip("confluent_kafka", reason="tests of KafkaSpout need the package confluent-kafka")

from tests.support.kafka import KafkaBroker  # noqa: E402


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """One broker for the whole run, because a start takes seconds. It ends with the run."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka") / "broker") as broker:
        yield broker


@pytest.fixture
def mortal(kafka: KafkaBroker) -> Iterator[KafkaBroker]:
    """The same broker, which the test may kill; it runs again after the test, with all topics."""
    yield kafka
    if not kafka.running:
        kafka.start()


@pytest.fixture
def topic() -> str:
    """A name that no other test has; the topic is to be made."""
    return f"t-{uuid.uuid4().hex[:8]}"
