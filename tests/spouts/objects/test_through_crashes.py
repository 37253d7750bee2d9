"""Objects through drivers that die, on both engines and with every kind of state: rows count as the kind promises."""

import gzip
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.spouts.objects.conftest import Objects
from trident import Count, TridentTopology
from trident.state import MemoryMapState
from trident.testing import EngineStart, crash_at, engines, run_through

start = engines(spark="spark", marks=[pytest.mark.spark])


def put_words(objects: Objects) -> Counter[str]:
    """Put objects of several sizes, packed and plain; return how often each word comes."""
    chance, counts = random.Random(5), Counter[str]()
    for at in range(8):
        words = [chance.choice("abcdef") for _ in range(chance.randrange(1, 400))]
        data = "".join(f'{{"word": "{word}"}}\n' for word in words).encode()
        objects.put(f"{at}.json{'.gz' if at % 3 == 0 else ''}", gzip.compress(data) if at % 3 == 0 else data)
        counts.update(words)
    return counts


@pytest.mark.parametrize("state", ["opaque", "transactional", "nonTransactional"])
@pytest.mark.parametrize("point", ["plan.made", "emit.after", "freeze.after", "commit.state.after"])
def test_every_row_counts_once(start: EngineStart, objects: Objects, tmp_path: Path, state: str, point: str) -> None:
    counts = put_words(objects)
    topology = TridentTopology()
    spout = objects.spout("*.json*", "json", "word string", maxBytesPerBatch=2_000, maxFilesPerBatch=2, orderBy="name")
    words = topology.newStream("words", spout).groupBy("word")
    words.persistentAggregate(getattr(MemoryMapState, state)(), Count(), "n", name="counts")
    options: dict[str, Any] = {"checkpointLocation": tmp_path / "ckpt", "start": start}
    with crash_at(point, 3), run_through(topology, **options) as running:
        counted = Counter(dict(running.state("counts")))
        assert state == "nonTransactional" or running.state("counts").asOfTxid > 4  # more than the batch of the crash
    assert counted >= counts if state == "nonTransactional" else counted == counts
