"""Random histories of Kafka topics: nothing is lost in silence, counts twice, or is refused without reason."""

import random
import uuid
from collections.abc import Iterator

import pytest

from tests.spouts.kafka.histories import play
from tests.support.kafka import KafkaBroker
from tests.support.soak import Soak


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker of this file's own: a restore puts back all topics of a broker."""
    with KafkaBroker(tmp_path_factory.mktemp("histories") / "broker") as broker:
        yield broker


def check(kafka: KafkaBroker, chance: random.Random, topics: int, restore: bool = True) -> int:
    """Play a round of histories and check each; return how many were refused."""
    histories = play(kafka, chance, f"h-{uuid.uuid4().hex[:6]}", topics, restore)
    for each in histories:
        each.check()
    return sum(bool(each.refused) for each in histories)


def test_some_histories(own: KafkaBroker) -> None:
    refused = check(own, random.Random(1), 12)
    assert 0 < refused < 12


@pytest.mark.soak(weight=3)
def test_random_histories(own: KafkaBroker, soak: Soak) -> None:
    rounds = [check(own, chance, 25, restore=chance.random() < 0.3) for chance in soak.draws(full=40)]
    soak.tell(f"{25 * len(rounds)} histories, {sum(rounds)} of them refused with reason")
