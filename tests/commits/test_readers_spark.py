"""Executors ask a state for a batch's tuples, and read what is carried on: exactly what the driver would have got."""

import secrets
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from tests.support.server import RedisServer
from trident import Count, MapGet, RangeGet, Sum, TridentTopology
from trident.commits.carriers import Carriers
from trident.commits.user_code import UserCode
from trident.compiler.spark import engine
from trident.compiler.spark.sessions import Sizes
from trident.compiler.states.queries import Question
from trident.frozen.results import FrozenFiles
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing.local import start_local
from trident_state.redis import RedisStore
from trident_state.redis.open_snapshot import OpenSnapshot

pytestmark = pytest.mark.spark

BATCHES = [[f"word{(batch * 7 + row) % 50}" for row in range(400)] for batch in range(3)]


FOLLOWERS = {f"word{number}": number for number in range(0, 50, 2)}


def before(batch: int) -> Counter[str]:
    """Return how often each word came in the batches before this one."""
    return Counter(word for words in BATCHES[:batch] for word in words)


class Around:
    """A query function that gives two tuples for a word that was seen, and none for another one."""

    def batchRetrieve(self, state: Any, args: Any) -> Any:
        return state.multiGet([tuple.word for tuple in args])

    def execute(self, tuple: Any, result: Any, collector: Any) -> None:
        for number in () if result is None else (result - 1, result + 1):
            collector.emit([number])


class Coin:
    """A query function that gives 0 or 1 by chance."""

    def batchRetrieve(self, state: Any, args: Any) -> Any:
        return [secrets.randbelow(2) for _ in args]

    def execute(self, tuple: Any, result: Any, collector: Any) -> None:
        collector.emit([result])


class Taking:
    def __init__(self) -> None:
        self.rows: dict[int, Counter[Any]] = {}

    def __call__(self, table: pa.Table, txid: int, attempt: int) -> None:
        self.rows[txid] = Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.fixture
def driver_asks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the steps for which the driver answers."""
    asked, answer = list[str](), UserCode.answer

    def noting(code: UserCode, step: Any, table: pa.Table, as_of: int) -> pa.Table:
        asked.append(step.step)
        return answer(code, step, table, as_of)

    monkeypatch.setattr(UserCode, "answer", noting)
    return asked


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every result be as a large one."""
    monkeypatch.setattr(engine, "Sizes", lambda spark, inline_bytes: Sizes(spark, 20))


def run(topology: TridentTopology, spark: SparkSession, folder: Path) -> list[dict[str, Any]]:
    with topology.start(spark, name="readers", checkpointLocation=folder) as running:
        running.processAllAvailable(timeout=120)
        return running.recentProgress


@pytest.mark.parametrize("writers", ["executors", "driver"])
@pytest.mark.parametrize("query", ["MapGet", "Around"])
def test_a_query_sees_the_state_as_the_batch_before_left_it(
    shared_redis: RedisServer,
    spark: SparkSession,
    tmp_path: Path,
    driver_asks: list[str],
    writers: Any,
    query: str,
) -> None:
    """The same batch updates the state, and the executors ask it behind that update."""
    taking, topology = Taking(), TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", BATCHES))
    state = RedisMapState.opaque(shared_redis.url, writers=writers, groups=2)
    counts = words.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
    function = MapGet() if query == "MapGet" else Around()
    words.stateQuery(counts, "word", function, "count long").foreachArrow(taking)
    # An output of the query alone is the driver's; this one makes a stage of Spark's.
    asked = words.stateQuery(counts, "word", function, "count long").each("count", _or_zero, "known long")
    by_spark = Taking()
    asked.foreachArrow(by_spark, name="spark")
    events = run(topology, spark, tmp_path)
    for txid, words_ in enumerate(BATCHES, 1):
        known = before(txid - 1)
        if query == "MapGet":
            expected = Counter((word, known.get(word)) for word in words_)
        else:
            expected = Counter((w, known[w] + more) for w in words_ if w in known for more in (-1, 1))
        assert taking.rows[txid] == expected
        assert by_spark.rows[txid] == Counter({(*row, row[-1] or 0): n for row, n in expected.items()})
    told = [event.get("queries", {}) for event in events if event["event"] == "committed"]
    if writers == "driver":
        assert told == [{}] * 3 and len(driver_asks) == 6
    else:
        assert [list(each.values()) for each in told] == [[{"tuples": 400, "readers": "executors"}]] * 3
        assert len(driver_asks) == 3, "for the output that the driver makes of the answers"


def test_a_query_of_new_values_that_nothing_stands_between(spark: SparkSession, tmp_path: Path) -> None:
    """The new values enter the stage as they are: the aggregate that made them belongs to the stage before."""
    of_query, of_table, topology = Taking(), Taking(), TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", BATCHES))
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    followers = topology.newStaticState(FOLLOWERS, keyFields="word string", valueType="long", name="followers")
    new = counts.newValuesStream()
    new.stateQuery(counts, "word", MapGet(), "again").foreachArrow(of_query, name="query")
    followed = new.stateQuery(followers, "word", MapGet(), "followers")
    followed.each("followers", _or_zero, "n long").foreachArrow(of_table)
    run(topology, spark, tmp_path)
    for txid, words_ in enumerate(BATCHES, 1):
        known = before(txid)
        assert of_query.rows[txid] == Counter((word, known[word], known[word]) for word in {*words_})
        ours = {word: FOLLOWERS.get(word) for word in words_}
        assert of_table.rows[txid] == Counter((w, known[w], n, _or_zero(n)) for w, n in ours.items())


@pytest.mark.parametrize("reader", ["an update", "the same stage"])
def test_readers_of_answers_see_one_evaluation(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, driver_asks: list[str], reader: str
) -> None:
    """The answers come by chance. Executors would ask once for each piece of work that reads them."""
    topology = TridentTopology()
    rows = [[(number,) for number in range(batch, 1200, 3)] for batch in range(3)]
    keys = topology.newStream("keys", FixedBatchSpout("k long", rows)).each("k", _or_zero, "q long")
    state = RedisMapState.opaque(shared_redis.url, writers="executors", groups=2)
    counts = keys.groupBy("q").persistentAggregate(state, Count(), "count", name="counts")
    asked = keys.stateQuery(counts, "q", Coin(), "side long")
    if reader == "an update":
        asked.toTable("q", state, valueFields="side", name="sides")
    else:
        asked.groupBy("q").persistentAggregate(MemoryMapState.opaque(), "side", Sum(), "side", name="sides")
    zeros = asked.filter("side", lambda side: side == 0).groupBy("q")
    zeros.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="zeros")
    with topology.start(spark, name="coins", checkpointLocation=tmp_path, driverRows=0) as running:
        running.processAllAvailable(timeout=120)
        sides = {key: getattr(value, "side", value) for key, value in running.state("sides").items()}
        assert {key for key, side in sides.items() if side == 0} == {*dict(running.state("zeros").items())}
    assert len(sides) == 1200 and {*sides.values()} == {0, 1}
    assert bool(driver_asks) == (reader == "an update")


def test_executors_of_a_later_stage_ask_as_of_the_batch_before(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, driver_asks: list[str]
) -> None:
    taking, topology = Taking(), TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", BATCHES))
    state = RedisMapState.opaque(shared_redis.url, writers="executors", groups=2)
    counts = words.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
    once = words.stateQuery(counts, "word", MapGet(), "once")
    twice = once.stateQuery(counts, "word", MapGet(), "twice").each("twice", _or_zero, "known long")
    twice.foreachArrow(taking)
    run(topology, spark, tmp_path)
    for txid, words_ in enumerate(BATCHES, 1):
        known = before(txid - 1)
        assert taking.rows[txid] == Counter((w, known.get(w), known.get(w), known[w]) for w in words_)
    assert not driver_asks


def test_executors_read_ranges(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, driver_asks: list[str]
) -> None:
    taking, topology = Taking(), TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", BATCHES))
    state = RedisMapState.opaque(shared_redis.url, writers="executors", groups=2)
    counts = words.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
    asked = words.each("word", _to_the_end, "end string")
    found = asked.stateQuery(counts, "word, end", RangeGet(limit=2), "found, n").project("word, found, n")
    found.foreachArrow(taking)
    run(topology, spark, tmp_path)
    for txid, words_ in enumerate(BATCHES, 1):
        known = sorted((word, count) for word, count in before(txid - 1).items() if count)
        pairs = ((word, pair) for word in words_ for pair in [pair for pair in known if pair[0] >= word][:2])
        assert taking.rows[txid] == Counter((word, *pair) for word, pair in pairs)
    assert not driver_asks


def _to_the_end(word: str) -> str:
    return "~"


def _or_zero(count: int | None) -> int:
    return count or 0


def test_a_state_that_fell_back_is_healed_before_it_is_asked(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the second batch the server loses what the first one wrote."""
    opened, taking = RedisStore.open_snapshot, Taking()
    lost = list[int]()

    def losing(store: RedisStore, asOf: int) -> OpenSnapshot:
        if asOf == 1 and not lost:
            lost.append(shared_redis.client.delete(*shared_redis.client.keys("*readers/counts*")))
        return opened(store, asOf)

    monkeypatch.setattr(RedisStore, "open_snapshot", losing)
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", BATCHES))
    state = RedisMapState.opaque(shared_redis.url, writers="executors")
    counts = words.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
    words.stateQuery(counts, "word", MapGet(), "count").each("count", _or_zero, "known long").foreachArrow(taking)
    events = run(topology, spark, tmp_path)
    assert lost and lost[0] > 0
    assert [event["attempt"] for event in events] == [0] * 3 and "failed" not in {e["event"] for e in events}
    assert taking.rows[2] == Counter((w, before(1).get(w), before(1)[w]) for w in BATCHES[1])
    assert taking.rows[3] == Counter((w, before(2).get(w), before(2)[w]) for w in BATCHES[2])


@pytest.mark.usefixtures("in_files")
def test_what_is_carried_to_a_later_stage_goes_there_by_reference(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taking, topology = Taking(), TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", BATCHES))
    state = RedisMapState.opaque(shared_redis.url)
    counts = words.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
    topology.join([words, counts.newValuesStream()], ["word", "word"], "word, count").foreachArrow(taking)
    carry, by_reference = Carriers.carry, list[str]()

    def noting(self: Carriers, output: Any, result: Any) -> Any:
        emission = carry(self, output, result)
        if isinstance(result, FrozenFiles):  # at first the size of a result is not known, and it comes to the driver
            by_reference.append(type(emission).__name__)
        return emission

    monkeypatch.setattr(Carriers, "carry", noting)
    run(topology, spark, tmp_path)
    assert by_reference and set(by_reference) == {"SharesEmission"}
    for txid, words_ in enumerate(BATCHES, 1):
        assert taking.rows[txid] == Counter((word, before(txid)[word]) for word in words_)


@pytest.mark.usefixtures("in_files")
@pytest.mark.parametrize("query", ["MapGet", "Around"])
def test_given_entries_are_looked_up_by_the_executors(
    spark: SparkSession, tmp_path: Path, driver_asks: list[str], query: str
) -> None:
    taking, topology = Taking(), TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", BATCHES))
    given = topology.newStaticState(FOLLOWERS, keyFields="word string", valueType="long", name="given")
    asked = words.stateQuery(given, "word", MapGet() if query == "MapGet" else Around(), "number long")
    asked.each("number", _or_zero, "known long").foreachArrow(taking)
    events = run(topology, spark, tmp_path)
    for txid, words_ in enumerate(BATCHES, 1):
        if query == "MapGet":
            expected = Counter((word, FOLLOWERS.get(word)) for word in words_)
        else:
            expected = Counter((w, FOLLOWERS[w] + more) for w in words_ if w in FOLLOWERS for more in (-1, 1))
        assert taking.rows[txid] == Counter({(*row, row[-1] or 0): n for row, n in expected.items()})
    told = [each for event in events if event["event"] == "committed" and (each := event.get("queries"))]
    assert all(list(each.values()) == [{"tuples": 400, "readers": "executors"}] for each in told)
    # Batches that begin before the size of a result is known come to the driver: the first, perhaps the second, too.
    assert told and len(told) + len(driver_asks) == 3


@pytest.mark.parametrize("writers", ["executors", "driver"])
def test_a_state_of_another_topology_is_asked_by_the_executors(
    shared_redis: RedisServer, spark: SparkSession, tmp_path: Path, driver_asks: list[str], writers: Any
) -> None:
    written = TridentTopology()
    counted = written.newStream("words", FixedBatchSpout("word string", BATCHES[:2])).groupBy("word")
    counted.persistentAggregate(RedisMapState.opaque(shared_redis.url, groups=2), Count(), "count", name="counts")
    with start_local(written, name="writer", checkpointLocation=tmp_path / "writer") as running:
        running.processAllAvailable(timeout=60)
    taking, topology = Taking(), TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", BATCHES))
    state = RedisMapState.opaque(shared_redis.url, groups=2, writers=writers)
    given = topology.newStaticState(state, keyFields="word string", valueType="long", name="counts", topology="writer")
    words.stateQuery(given, "word", MapGet(), "count").each("count", _or_zero, "known long").foreachArrow(taking)
    events = run(topology, spark, tmp_path)
    for txid, words_ in enumerate(BATCHES, 1):
        assert taking.rows[txid] == Counter((w, before(2).get(w), before(2)[w]) for w in words_)
    told = [event.get("queries", {}) for event in events if event["event"] == "committed"]
    assert [bool(each) for each in told] == [writers == "executors"] * 3
    assert len(driver_asks) == (0 if writers == "executors" else 3)


def test_a_question_travels_without_the_plan_around_it() -> None:
    topology = TridentTopology()
    unsendable = FixedBatchSpout("word string", BATCHES)
    words = topology.newStream("words", unsendable)
    counts = words.groupBy("word").persistentAggregate(RedisMapState.opaque("redis://h"), Count(), "count", name="c")
    question = Question.of(words.stateQuery(counts, "word", MapGet(), "count")._node)  # type: ignore[arg-type]
    sent = cloudpickle.dumps(question.detached())
    assert len(sent) < 10_000 and b"word17" not in sent and b"redis" not in sent
