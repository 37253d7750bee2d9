"""RichSpout keeps the contract of spouts, with each way of tracking."""

import pytest

from tests.spouts.messages.queue_spout import Queue, QueueSpout
from trident.spouts import RichSpout
from trident.testing import SpoutContract
from trident.testing.contracts.spouts import MakeSpout

WORDS = {number: f"word{number}" for number in range(1, 8)}


class TestTracked(SpoutContract):
    @pytest.fixture
    def make_spout(self) -> MakeSpout:
        def made() -> RichSpout:
            return QueueSpout(Queue(WORDS), maxRows=3)

        return made

    @pytest.fixture
    def every_row(self) -> list[str]:
        return list(WORDS.values())


class TestAcknowledgedAtEmission(TestTracked):
    @pytest.fixture
    def make_spout(self) -> MakeSpout:
        def made() -> RichSpout:
            return QueueSpout(Queue(WORDS), "emission", maxRows=3)

        return made


class TestWithoutIds(TestTracked):
    @pytest.fixture
    def make_spout(self) -> MakeSpout:
        def made() -> RichSpout:
            return QueueSpout(Queue(WORDS), "none", maxRows=3)

        return made
