"""``spark.read.format("trident")`` reads a state of every kind of store, as of one txid, through real Spark."""

import datetime
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.access.small_topologies import Fed, counted, counting, fixed
from tests.support.postgres import PostgresServer
from tests.support.server import RedisServer
from tests.support.soak import some_of
from trident import Average, Count, First, Sum, TridentDataSource, TridentTopology, dropState, openState
from trident.log import RedisLog
from trident.state import DeltaMapState, MemoryMapState, PostgresMapState, RedisMapState, SqliteMapState
from trident.testing.local import start_local

pytestmark = pytest.mark.spark

BATCHES = (["dog", "cat"], ["dog"], ["dog", "emu", None])
COUNTS = {"dog": 3, "cat": 1, "emu": 1, None: 1}
WORDS = [f"word{number}" for number in range(200)]
PLACES = [
    pytest.param("memory", marks=pytest.mark.connect),
    *some_of(
        ["memory, log in redis", "redis", "redis in groups", "sqlite", "postgres", "delta"],
        ["memory, log in redis", "redis in groups", "postgres", "delta"],
    ),
]
"""The workers reach each kind of place; `test_spark_reader.py` reads all of them without Spark."""

Place = tuple[Any, dict[str, Any], dict[str, str]]
"""A state, the options of its topology's start, and the options of a read by Spark."""


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session that knows the format: the first one, as a new session cannot register what it has."""
    spark.dataSource.register(TridentDataSource)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield spark
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, shared_redis: RedisServer) -> Iterator[Place]:
    started: dict[str, Any] = {"checkpointLocation": tmp_path}
    name, where = request.param, {"checkpoint": str(tmp_path)}
    state: Any = MemoryMapState.opaque()
    if name == "memory, log in redis":
        started["log"] = RedisLog(shared_redis.url, requireDurable=False)
        where |= {"logUrl": shared_redis.url, "topology": "wc"}
    elif name.startswith("redis"):
        state = RedisMapState.opaque(shared_redis.url, buckets=64, groups=4 if "groups" in name else 1)
        where = {"url": shared_redis.url, "topology": "wc"}
    elif name == "sqlite":
        state = SqliteMapState.opaque(tmp_path / "states.db")
        where |= {"sqlite": str(tmp_path / "states.db")}
    elif name == "delta":
        state = DeltaMapState.opaque(str(tmp_path / "tables"))
        where |= {"delta": str(tmp_path / "tables")}
    elif name == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        (tmp_path / "address").write_text(server.url)
        state = PostgresMapState.opaque(server.url)
        where |= {"postgresUrl": f"file:{tmp_path / 'address'}"}
    yield state, started, where
    if name == "postgres":
        dropState("wc", "counts", tmp_path, factory=state)


def load(session: SparkSession, where: dict[str, str], state: str = "counts", **more: object) -> DataFrame:
    return session.read.format("trident").options(**where, **more).load(state)


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_state_is_a_dataframe(session: SparkSession, place: Place) -> None:
    state, started, where = place
    counted(counting(fixed(*BATCHES), state), **started)
    frame = load(session, where, txidColumn="txid")
    assert frame.schema.simpleString() == "struct<word:string,value:bigint,txid:bigint>"
    assert {row.word: row.value for row in frame.collect()} == COUNTS
    assert {row.txid for row in frame.collect()} == {3}
    divided = load(session, where, partitions=3)
    assert {row.word: row.value for row in divided.collect()} == COUNTS and divided.count() == len(COUNTS)
    assert len({row.part for row in divided.select(F.spark_partition_id().alias("part")).collect()}) > 1
    previous = load(session, where, partitions=2, asOf="previous")
    assert {row.word: row.value for row in previous.collect()} == {"dog": 2, "cat": 1}
    one = load(session, where, txidColumn="txid", pushdown=True).where("word = 'dog'")
    assert [tuple(row) for row in one.collect()] == [("dog", 3, 3)]
    listed = load(session, where, keys='["cat", "gnu", null]').collect()
    assert sorted(tuple(row) for row in listed if row.word) == [("cat", 1)] and len(listed) == 2
    assert load(session, where).groupBy().agg(F.sum("value").alias("all")).collect()[0]["all"] == 6


@pytest.mark.parametrize(
    "place",
    some_of(["memory", "redis in groups", "sqlite", "postgres"], ["memory", "redis in groups"]),
    indirect=True,
)
def test_each_read_beside_commits_is_as_of_one_txid(session: SparkSession, place: Place) -> None:
    """Each batch adds one to every word, so all values of a read equal its txid, or two batches were mixed."""
    state, started, where = place
    fed, end, fed_batches = Fed(state, **started), threading.Event(), [0]

    def feed() -> None:
        while not end.is_set():
            fed.feed(*WORDS)
            fed_batches[0] += 1
            end.wait(0.3)

    fed.feed(*WORDS)
    feeding = threading.Thread(target=feed)
    feeding.start()
    seen, moved = set[int](), 0
    try:
        for number in range(6):
            try:
                rows = load(session, where, txidColumn="txid", partitions=1 + number % 2 * 3).collect()
            except PySparkException as error:
                assert number % 2 and "SnapshotMovedError" in str(error) and 'option("partitions", 1)' in str(error)
                moved += 1
                continue
            (txid,) = {row.txid for row in rows}
            assert len(rows) == len(WORDS) and {row.value for row in rows} == {txid}
            seen.add(txid)
    finally:
        end.set()
        feeding.join()
        fed.running.stop()
    assert fed_batches[0] > 3 and len(seen) > 2
    print(f"{len(seen)} txids, {moved} of 3 divided reads came too late")


@pytest.mark.parametrize("groups", [1, 4])
def test_a_read_of_one_key_does_not_scan(
    session: SparkSession, shared_redis: RedisServer, tmp_path: Path, groups: int
) -> None:
    state = RedisMapState.opaque(shared_redis.url, buckets=64, groups=groups)
    counted(counting(fixed(WORDS), state), checkpointLocation=tmp_path)
    where = {"url": shared_redis.url, "topology": "wc"}

    def calls(command: str) -> int:
        stats = shared_redis.client.info("commandstats")
        return int(stats.get(f"cmdstat_{command}", {}).get("calls", 0))

    scans = calls("hscan")
    pushing = {**where, "pushdown": "true"}
    assert [row.value for row in load(session, pushing).where("word = 'word7'").collect()] == [1]
    assert [row.value for row in load(session, pushing).where("word in ('word7', 'word8')").collect()] == [1, 1]
    assert [row.value for row in load(session, where, keys='["word7"]').collect()] == [1]
    assert calls("hscan") == scans
    assert load(session, where).where("word like 'word7%'").count() == 11
    assert calls("hscan") == scans + 64


@pytest.mark.connect
def test_keys_of_every_type_are_pushed_down_and_found(session: SparkSession, tmp_path: Path) -> None:
    fields = "id long, small short, price decimal(10,2), at timestamp, local timestamp_ntz, day date, ok boolean, "
    fields += "raw binary, x double"
    time = datetime.datetime(2026, 11, 28, 9, 30, 1, 250_000)
    keys = [
        (7, 1, Decimal("1.50"), time.astimezone(datetime.UTC), time, time.date(), True, b"\x00a", 0.0),
        (-1, 2, Decimal("2.00"), time.astimezone(datetime.UTC), time, time.date(), False, b"", float("nan")),
    ]
    names = [part.split()[0] for part in fields.split(", ")]
    topology = TridentTopology()
    for name in names:
        stream = topology.newStream(name, fixed([tuple(key) for key in keys], fields=fields))
        stream.groupBy(name).persistentAggregate(MemoryMapState.opaque(), Count(), "n", name=f"by_{name}")
    counted(topology, checkpointLocation=tmp_path)
    where = {"checkpoint": str(tmp_path)}
    for at, name in enumerate(names):
        whole = load(session, where, f"by_{name}")
        for key in keys[at % 2 :][:1]:
            found = load(session, where, f"by_{name}", pushdown=True)
            expected = found.where(F.col(name).eqNullSafe(F.lit(key[at]))).collect()
            assert [row.value for row in expected] == [2 if keys[0][at] == keys[1][at] else 1], (name, key[at])
        assert whole.count() == len({repr(key[at]) for key in keys})
    zeros = load(session, where, "by_x", pushdown=True).where("x in (0.0D, -0.0D)").collect()
    assert [tuple(row) for row in zeros] == [(0.0, 1)]


def test_a_key_of_several_fields_is_read_if_all_are_fixed(session: SparkSession, tmp_path: Path) -> None:
    topology = TridentTopology()
    visits = [(1, "mon"), (2, "mon"), (1, "tue"), (1, "tue")]
    stream = topology.newStream("visits", fixed(visits, fields="user long, day string"))
    stream.groupBy("user", "day").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    counted(topology, checkpointLocation=tmp_path)
    frame = load(session, {"checkpoint": str(tmp_path)})
    pushing = load(session, {"checkpoint": str(tmp_path)}, pushdown=True)
    assert [tuple(row) for row in pushing.where("user = 1 and day = 'tue'").collect()] == [(1, "tue", 2)]
    assert sorted(map(tuple, frame.where("user = 1").collect())) == [(1, "mon", 1), (1, "tue", 2)]
    assert sorted(map(tuple, frame.where("user in (1, 2) and day = 'mon'").collect())) == [(1, "mon", 1), (2, "mon", 1)]


def test_values_are_columns_as_tables_show_them(session: SparkSession, tmp_path: Path) -> None:
    topology = TridentTopology()
    sales = [("a", 2, "x"), ("a", 4, "y"), ("b", 5, "z")]
    stream = topology.newStream("sales", fixed(sales, fields="shop string, price int, note string"))
    by_shop, memory = stream.groupBy("shop"), MemoryMapState.opaque
    by_shop.persistentAggregate(memory(), Average("price"), "mean", name="means")
    by_shop.persistentAggregate(memory(), First("price"), "first", name="firsts")
    by_shop.persistentAggregate(
        memory(), {"n": Count(), "mean": Average("price"), "total": Sum("price")}, name="several"
    )
    stream.persistentAggregate(memory(), Count(), "n", name="whole")
    counted(topology, checkpointLocation=tmp_path)
    where = {"checkpoint": str(tmp_path)}

    def rows(state: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, load(session, where, state).collect()))

    assert load(session, where, "means").schema.simpleString() == "struct<shop:string,value:double>"
    assert rows("means") == [("a", 3.0), ("b", 5.0)]
    assert load(session, where, "firsts").schema.simpleString() == "struct<shop:string,value:int>"
    assert rows("firsts") == [("a", 2), ("b", 5)]
    several = "struct<shop:string,n:bigint,mean:double,total:bigint>"
    assert load(session, where, "several").schema.simpleString() == several
    assert rows("several") == [("a", 2, 3.0, 6), ("b", 1, 5.0, 5)]
    assert rows("whole") == [(3,)]


@pytest.mark.connect
def test_a_dataframe_that_is_collected_again_reads_again(session: SparkSession, tmp_path: Path) -> None:
    """A DataFrame of one partition is as of the newest txid at each read; that of several keeps its txid or fails."""
    fed = Fed(SqliteMapState.opaque(tmp_path / "states.db"), checkpointLocation=tmp_path)
    where = {"sqlite": str(tmp_path / "states.db"), "topology": "wc"}
    fed.feed("dog")
    alone, divided = load(session, where), load(session, where, partitions=2)
    assert [row.value for row in alone.collect()] == [row.value for row in divided.collect()] == [1]
    fed.feed("dog")
    fed.feed("dog")
    fed.feed("dog")
    assert [row.value for row in alone.collect()] == [4]
    try:
        assert [row.value for row in divided.collect()] == [4]  # Spark Connect plans each read
    except PySparkException as error:
        assert "SnapshotMovedError: state 'counts' of topology 'wc': this read of 2 partitions was" in str(error)
    fed.running.stop()


def test_a_state_without_entries_has_its_columns(session: SparkSession, tmp_path: Path) -> None:
    with start_local(counting(fixed()), name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable()
    empty = load(session, {"checkpoint": str(tmp_path)})
    assert empty.collect() == [] and empty.columns == ["word", "value"]
    assert load(session, {"checkpoint": str(tmp_path)}, partitions=2).count() == 0


def test_an_average_read_by_spark_equals_openstates(session: SparkSession, tmp_path: Path) -> None:
    topology = TridentTopology()
    stream = topology.newStream("words", fixed([(word, number) for number, word in enumerate(WORDS * 3)], fields=_PAIR))
    state = SqliteMapState.transactional(tmp_path / "states.db")
    stream.groupBy("word").persistentAggregate(state, Average("n"), "mean", name="means")
    counted(topology, checkpointLocation=tmp_path)
    with openState("wc", "means", factory=state) as means:
        expected = dict(means)
    frame = load(session, {"sqlite": str(tmp_path / "states.db"), "topology": "wc"}, "means", partitions=5)
    assert {row.word: row.value for row in frame.collect()} == expected and len(expected) == len(WORDS)


_PAIR = "word string, n long"
