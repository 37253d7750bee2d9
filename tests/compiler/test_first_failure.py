"""The first failure ends an attempt, whatever other tasks of the job still do."""

import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.compiler.functions import Longest
from tests.compiler.stage_runner import STATE, OnSpark, emission, run, stream
from tests.support.spark import CONNECT
from trident import Count, DeadLetter, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.base.errors import UserFunctionError
from trident.compiler.spark.engine import SparkSlot
from trident.compiler.spark.failure_signal import FailureSignal
from trident.compiler.stages import cut

pytestmark = pytest.mark.spark

SLEEP = 90
"""Seconds that one partition sleeps; Spark gives a worker that it stops 2 s."""


class Racing:
    """Sleeps on one tuple, and raises on another when the first one sleeps."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __call__(self, word: str) -> str:
        asleep, raised = Path(self.folder) / "asleep", Path(self.folder) / "raised"
        if word == "sleeps":
            asleep.touch()
            time.sleep(SLEEP)
        until = time.monotonic() + SLEEP
        while word == "raises":
            if asleep.exists():
                raised.touch()
                raise ValueError("at once")
            if time.monotonic() > until:
                raise TimeoutError("the other partition has not begun: does another job hold a processor?")
            time.sleep(0.01)
        return word


def counted(words: Any) -> None:
    words.groupBy("w").persistentAggregate(STATE, Count(), "count", name="counts")


def handed_over(words: Any) -> None:
    words.foreachArrow(print, name="out")


def behind_a_shuffle(words: Any) -> None:
    words.groupBy("w").aggregate("w", Longest(), "longest").groupBy("longest").persistentAggregate(
        STATE, Count(), "count", name="counts"
    )


def read_twice(words: Any) -> None:
    counted(words)
    words.persistentAggregate(STATE, Count(), "all", name="all")


SHAPES: dict[str, Callable[[Any], None]] = {
    "folded": counted,
    "to the driver": handed_over,
    "behind a shuffle": behind_a_shuffle,
    "read twice": read_twice,
}


@pytest.mark.parametrize(
    "shape",
    [
        "folded",
        "read twice",
        *(pytest.param(shape, marks=pytest.mark.soak) for shape in ("to the driver", "behind a shuffle")),
    ],
)
def test_a_failure_is_known_while_another_partition_sleeps(on_spark: OnSpark, tmp_path: Path, shape: str) -> None:
    topology = TridentTopology()
    words = stream(topology, "word string", ["sleeps", "raises"]).parallelismHint(2)
    SHAPES[shape](words.each("word", Racing(tmp_path), "w string"))
    with pytest.raises(
        UserFunctionError, match=r"Racing .* raised ValueError: at once; the tuple was \(word='raises'\)"
    ):
        run(on_spark, topology)
    assert time.time() - (tmp_path / "raised").stat().st_mtime < SLEEP / 3


class Deaf:
    """Stands for an accumulator from which nothing comes back."""

    def add(self, rings: object) -> None:
        pass


@pytest.mark.skipif(CONNECT, reason="there the function raises")
@pytest.mark.parametrize("shape", ["folded", "to the driver", "read twice"])
def test_a_failure_that_is_only_a_row_is_a_failure(on_spark: OnSpark, tmp_path: Path, shape: str) -> None:
    topology = TridentTopology()
    words = stream(topology, "word string", ["moon", "raises"])
    (tmp_path / "asleep").touch()
    SHAPES[shape](words.each("word", Racing(tmp_path), "w string"))
    (group,) = cut(topology).groups
    slot = on_spark.slot(group)
    assert isinstance(slot, SparkSlot)
    slot._signal = FailureSignal(pickle.dumps(Deaf()))
    given = {group.spouts[0]: emission("word string", ("moon",), ("raises",))}
    with pytest.raises(UserFunctionError, match="raised ValueError: at once"):
        slot.run(group.stages[0], given, TransactionAttempt(1, 0), tmp_path / "scratch")


@pytest.mark.connect
def test_the_next_job_of_the_slot_is_left_alone(on_spark: OnSpark, tmp_path: Path) -> None:
    topology = TridentTopology()
    words = stream(topology, "word string", ["moon", "raises"]).parallelismHint(2)
    (tmp_path / "asleep").touch()
    kept = words.each("word", Racing(tmp_path), "w string", onError=DeadLetter(attempts=0))
    counted(kept)
    topology.deadLetterState(STATE)
    found = run(on_spark, topology).results
    assert found["counts"].to_pylist() == [{"w": "moon", "count": 1}]
    (letters,) = [table for name, table in found.items() if name.endswith("~")]
    assert letters.column("message").to_pylist() == ["at once"]
