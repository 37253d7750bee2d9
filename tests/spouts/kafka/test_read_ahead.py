"""Messages that Spark's workers have read ahead: a restored Kafka may lack them, and have others at their offsets."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.kafka import connector_jars
from trident.spouts import KafkaSpout, TransactionAttempt
from trident_spouts.kafka.offset_ranges import TopicRange, to_metadata

ROOT = Path(__file__).parents[3]


FIRST, NEW = {"kept": 100}, {"new": 50}


def read_with(folder: Path, leaders: str) -> dict[str, Any]:
    """Return the values that each stream read in two batches, between which the broker was restored."""
    jars = ",".join(map(str, connector_jars()))
    child = subprocess.run(
        [sys.executable, "-m", "tests.spouts.kafka.read_ahead_program", str(folder), leaders], cwd=ROOT, text=True,
        env=os.environ | {"PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell"}, capture_output=True, timeout=600,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr[-4000:]
    found: dict[str, Any] = json.loads(child.stdout)
    return found


@pytest.mark.spark
def test_messages_that_kafka_lost_are_not_emitted_because_a_worker_had_read_them_ahead(tmp_path: Path) -> None:
    read = read_with(tmp_path, "later-epoch")
    assert read["by-spark"] == read["by-driver"] == [FIRST, NEW]
    *batches, error = read["planned-before"]
    assert batches == [FIRST, NEW] and "up to offset 150: leader epoch 0 now ends at offset 100: Kafka was" in error
    assert read["some-read"] == [{"kept": 90, "lost": 10}, {"kept": 90, "new": 10}], "from the first offset"


@pytest.mark.spark
@pytest.mark.soak
def test_nor_are_they_if_the_leaders_have_the_epochs_again_that_they_had(tmp_path: Path) -> None:
    read = read_with(tmp_path, "same-epoch")
    assert read == dict.fromkeys(("by-spark", "by-driver", "planned-before"), [FIRST, NEW]) | {
        "some-read": [{"kept": 90, "lost": 10}, NEW]
    }


def test_workers_keep_consumers_for_one_run_one_life_of_a_topic_and_one_leader() -> None:
    """Messages read ahead serve no other run, no topic that was created again, and no leader that may lack them."""
    runs: Any = [KafkaSpout("b:1", "t", options={"group.id": "mine"}).open() for _ in range(2)]
    for run in runs:
        run._lasts.saw_epoch(("t", 0), 3)
    lives: Any = [("x", 3), ("x", 3), ("y", 3), ("x", 4), ("x", 4), ("x", None), ("x", None)]
    plans = [to_metadata({"t": TopicRange(id, [0], [5], epochs=[epoch])}) for id, epoch in lives]
    groups = [[run.emit(TransactionAttempt(1, 0, 1), plan).group() for plan in plans] for run in runs]
    assert groups[0][0] == groups[0][1] and len({*groups[0]}) == 6, "no message of epoch 4 was seen"
    assert not {*groups[0]} & {*groups[1]} and groups[0][0].startswith("mine-")
    runs[0]._lasts.saw_epoch(("t", 0), 4)
    assert runs[0].emit(TransactionAttempt(1, 0, 1), plans[3]).group() not in groups[0], "the group of epoch 4"
    runs[0]._evidence.forget("t", 0)
    runs[0]._lasts.saw_epoch(("t", 0), 3)
    assert runs[0].emit(TransactionAttempt(1, 0, 1), plans[0]).group() not in groups[0], "after a loss"
