"""DRPC, state views and progress of a whole topology at work (the driver-side engine in Spark's place)."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import Row

from tests.support.server import RedisServer
from trident import Count, FilterNull, MapGet, Sum, TridentTopology
from trident.base.errors import StateUnavailableError, UserFunctionError
from trident.run.running import RunningTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState, StateFactory
from trident.testing.local import start_local

BATCH = [("the cat sat",), ("the dog",)]
BATCHES = 110


def split(line: str) -> Iterator[str]:
    if line == "bad":
        raise ValueError("no such word")
    yield from line.split()


def wordcount(state: StateFactory) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("sentences", FixedBatchSpout("line string", [BATCH] * BATCHES)).each(
        "line", split, "word string"
    )
    counts = words.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
    total = words.persistentAggregate(state, Count(), "count", name="total")
    (
        topology.newDRPCStream("words")
        .each("args", split, "word string")
        .groupBy("word")
        .stateQuery(counts, "word", MapGet(), "count")
        .each("count", FilterNull())
        .aggregate("count", Sum(), "sum")
    )
    (
        topology.newDRPCStream("share")
        .stateQuery(counts, "args", MapGet(), "count")
        .stateQuery(total, MapGet(), "total")
        .project("count", "total")
    )
    return topology


@pytest.fixture(params=["memory", "redis"])
def state(request: pytest.FixtureRequest) -> StateFactory:
    if request.param == "memory":
        return MemoryMapState.opaque()
    return RedisMapState.opaque(request.getfixturevalue("shared_redis").url)


@pytest.fixture
def running(state: StateFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTopology]:
    folder = tmp_path_factory.mktemp("checkpoint")
    with start_local(wordcount(state), name="asked", checkpointLocation=folder) as running:
        yield running


def test_every_answer_fits_the_txid_that_it_names(running: RunningTopology) -> None:
    """Each batch has "the" twice and five words in all, so an answer that mixes two batches shows."""

    def ask(me: int) -> list[int]:
        txids = []
        while not txids or txids[-1] < BATCHES:
            words = running.drpc.execute("words", "the cat unicorn")
            share = running.drpc.execute("share", "the")
            if words.asOfTxid:
                assert words == [Row(sum=3 * words.asOfTxid)]
            if share.asOfTxid:
                assert share == [Row(count=2 * share.asOfTxid, total=5 * share.asOfTxid)]
            txids += [words.asOfTxid, share.asOfTxid]
        return txids

    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(ask, range(4)))
    assert all(txids == sorted(txids) for txids in seen), "somebody saw time go back"
    assert len({txid for txids in seen for txid in txids}) > 10, "nobody asked while batches were committed"


def test_the_state_is_a_mapping_and_the_global_one_a_value(running: RunningTopology) -> None:
    running.processAllAvailable(60)
    counts = running.state("counts")
    assert dict(counts.items()) == {"the": 220, "cat": 110, "sat": 110, "dog": 110}
    assert (counts["the"], counts.get("unicorn", 0), counts.asOfTxid) == (220, 0, BATCHES)
    assert running.state("total").value == 550
    assert "<td>the</td><td>220</td>" in counts._repr_html_()


def test_a_user_functions_error_reaches_its_caller_and_the_run_goes_on(running: RunningTopology) -> None:
    with pytest.raises(UserFunctionError, match=r"split \(test_running.py:\d+\) raised ValueError: no such word"):
        running.drpc.execute("words", "bad")
    running.processAllAvailable(60)
    assert running.drpc.execute("words", "dog", timeout=10) == [Row(sum=110)]
    assert running.exception() is None


def test_progress_and_the_picture_of_a_run(running: RunningTopology) -> None:
    running.processAllAvailable(60)
    last = running.lastProgress
    assert last is not None
    assert (last["event"], last["txid"], last["numInputRows"]) == ("committed", BATCHES, 2)
    assert {name: (told["keys"], told["written"]) for name, told in last["states"].items()} == {
        "counts": (4, 4),
        "total": (1, 1),
    }
    assert {"plan", "run", "freeze", "commit", "total"} <= set(last["durationMs"])
    assert [event["txid"] for event in running.recentProgress] == list(range(BATCHES - 99, BATCHES + 1))
    shown = running._repr_html_()
    assert "<b>asked</b> running" in shown and "<svg" in shown
    assert f"<td>sentences</td><td>{BATCHES}</td>" in shown


def test_progress_is_printed_where_there_is_no_notebook(
    running: RunningTopology, capsys: pytest.CaptureFixture[str]
) -> None:
    live = running.showProgress(every=0.01)
    running.processAllAvailable(60)
    live.stop()
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"asked (running) sentences: txid {BATCHES}, 2 rows")


def test_while_the_server_is_away_a_query_says_so_and_when_it_is_back_it_is_answered(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    state = RedisMapState.opaque(redis_server.url)
    with start_local(wordcount(state), name="away", checkpointLocation=tmp_path / "checkpoint") as running:
        running.processAllAvailable(60)
        redis_server.kill()
        with pytest.raises(StateUnavailableError):
            running.drpc.execute("words", "the")
        with pytest.raises(StateUnavailableError):
            running.state("counts")["the"]
        assert "<i>" in running.state("counts")._repr_html_()
        redis_server.start()
        deadline = time.monotonic() + 20
        while True:
            try:
                assert running.drpc.execute("words", "the") == [Row(sum=220)]
                break
            except StateUnavailableError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
