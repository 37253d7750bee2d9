"""Objects through drivers that die, on both engines and with every kind of state: rows count as the kind promises."""

import gzip
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.spouts.objects.conftest import Objects
from trident import Count, TridentTopology
from trident.state import MemoryMapState
from trident.testing import EngineStart, crash_at, engines, run_through

STATES = ["opaque", "transactional", "nonTransactional"]
POINTS = ["plan.made", "emit.after", "freeze.after", "commit.state.after"]
start = engines(["embedded"])
on_spark = engines(["spark"], spark="spark")


def put_words(objects: Objects) -> Counter[str]:
    """Put objects of several sizes, packed and plain; return how often each word comes."""
    chance, counts = random.Random(5), Counter[str]()
    for at in range(8):
        words = [chance.choice("abcdef") for _ in range(chance.randrange(1, 400))]
        data = "".join(f'{{"word": "{word}"}}\n' for word in words).encode()
        objects.put(f"{at}.json{'.gz' if at % 3 == 0 else ''}", gzip.compress(data) if at % 3 == 0 else data)
        counts.update(words)
    return counts


def check_counts(start: EngineStart, objects: Objects, folder: Path, state: str, point: str) -> None:
    """Run through three crashes at a point, and compare the counts with what was put."""
    counts = put_words(objects)
    topology = TridentTopology()
    spout = objects.spout("*.json*", "json", "word string", maxBytesPerBatch=2_000, maxFilesPerBatch=2, orderBy="name")
    words = topology.newStream("words", spout).groupBy("word")
    words.persistentAggregate(getattr(MemoryMapState, state)(), Count(), "n", name="counts")
    with crash_at(point, 3), run_through(topology, checkpointLocation=folder, start=start) as running:
        counted = Counter(dict(running.state("counts")))
        assert state == "nonTransactional" or running.state("counts").asOfTxid > 4  # more than the batch of the crash
    assert counted >= counts if state == "nonTransactional" else counted == counts


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("point", POINTS)
def test_every_row_counts_once(start: EngineStart, objects: Objects, tmp_path: Path, state: str, point: str) -> None:
    check_counts(start, objects, tmp_path, state, point)


@pytest.mark.spark
def test_every_row_counts_once_on_spark(on_spark: EngineStart, objects: Objects, tmp_path: Path) -> None:
    check_counts(on_spark, objects, tmp_path, "opaque", "emit.after")


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("point", POINTS)
def test_every_row_counts_once_on_spark_in_each_cell(
    on_spark: EngineStart, objects: Objects, tmp_path: Path, state: str, point: str
) -> None:
    check_counts(on_spark, objects, tmp_path, state, point)
