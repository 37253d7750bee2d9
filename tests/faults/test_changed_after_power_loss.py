"""The log lost its last pages, or is an old copy, the server did not, and the code changed as well: what is new may
stand beside, behind or before what waits to be committed. Exact, or refused before anything is written."""

import random
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import RedisServer
from tests.support.soak import some_of
from trident import Count, MapGet, TridentTopology
from trident.errors import CodeChangedError, StateAheadError
from trident.spouts import FixedBatchSpout
from trident.state import RedisMapState
from trident.testing.local import start_local

STEPS = ("seen", "out", "peek", "before", "asked")
Batches = list[list[str]]


def words(steps: set[str], state: Any, batches: Batches) -> TridentTopology:
    """Counts of words, and some of the steps that can stand behind them."""
    topology = TridentTopology()
    stream = topology.newStream("words", FixedBatchSpout("word string", batches))
    counts = stream.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
    values, answered = counts.newValuesStream(everyChange=True), stream.stateQuery(counts, "word", MapGet(), "n")
    if "seen" in steps:
        values.groupBy("count").persistentAggregate(state, Count(), "n", name="seen")
    if "out" in steps:
        values.foreachArrow(lambda table, txid, attempt: None, name="out")
    if "peek" in steps:
        values.peek(lambda values: None)
    if "before" in steps:
        answered.groupBy("n").persistentAggregate(state, Count(), "times", name="before")
    if "asked" in steps:
        answered.foreachArrow(lambda table, txid, attempt: None, name="asked")
    return topology


def counted(topology: TridentTopology, folder: Path) -> dict[Any, Any]:
    options: dict[str, Any] = {"maxSpoutPending": 8, "commitRetrySecs": 0}
    with start_local(topology, name="t", checkpointLocation=folder, **options) as running:
        running.processAllAvailable(timeout=20)
        return dict(running.state("counts").items())


@pytest.mark.parametrize("seed", some_of(range(20), range(5)))
@pytest.mark.filterwarnings("ignore:state .* is new:RuntimeWarning")
def test_whatever_the_log_lost_and_whatever_is_new_it_is_exact_or_refused(
    seed: int, tmp_path: Path, shared_redis: RedisServer
) -> None:
    chance = random.Random(seed)
    prefix = f"power{seed}"
    state = chance.choice((RedisMapState.opaque, RedisMapState.transactional))(shared_redis.url, prefix=prefix)
    batches = [chance.choices("abcde", k=chance.randint(1, 3)) for _ in range(chance.randint(3, 6))]
    former = {step for step in STEPS if chance.random() < 0.2}
    now = former | {step for step in STEPS if chance.random() < 0.2}
    cut, copy = tmp_path / "cut", tmp_path / "copy"
    counted(words(former, state, batches), cut)
    shutil.copytree(cut, copy)
    uncommitted = chance.randint(2, len(batches))
    with sqlite3.connect(cut / "t" / "log.sqlite") as log:
        log.execute("UPDATE groups SET committed = frozen - ?", (uncommitted,))
        if chance.random() < 0.6:
            whole = chance.randint(len(batches) - uncommitted, len(batches))
            log.execute("DELETE FROM frozen WHERE stage > 1 AND txid > ?", (whole,))
    log.close()
    before, more = shared_redis.held(prefix), [*batches, ["a", "z"]]
    assert before
    expected = Counter(word for batch in more for word in batch)
    try:
        assert counted(words(now, state, more), cut) == expected
    except (CodeChangedError, StateAheadError):
        assert shared_redis.held(prefix) == before
        shutil.rmtree(cut)
        copy.rename(cut)
        assert counted(words(former, state, more), cut) == expected
