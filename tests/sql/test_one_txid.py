"""While batches commit, each query sees all states of a group as of one committed txid."""

import threading
from pathlib import Path

import pytest

from tests.support.server import RedisServer
from trident import Count, TridentTopology, openTopology
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState, RedisMapState, SqliteMapState
from trident.testing.local import start_local

KEYS = 20

QUERY = (
    "select (select sum(n) from memory) as a, (select sum(n) from redis) as b, (select sum(n) from lite) as c,"
    " (select max(latest.n) from latest) as d, (select min(n) from memory) as least, (select max(n) from redis) as most"
)


def counted(redis: str, folder: Path) -> tuple[TridentTopology, FeederBatchSpout]:
    """Return a topology in which batch t brings each key once, so that each state has `t` for each key."""
    topology, feeder = TridentTopology(), FeederBatchSpout("id long, n long")
    stream = topology.newStream("ids", feeder)
    by_id = stream.groupBy("id")
    by_id.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="memory")
    by_id.persistentAggregate(RedisMapState.opaque(redis), Count(), "n", name="redis")
    by_id.persistentAggregate(SqliteMapState.opaque(str(folder / "lite.sqlite")), Count(), "n", name="lite")
    stream.toTable("id", name="latest")
    return topology, feeder


@pytest.mark.parametrize("reads", [60, pytest.param(200, marks=pytest.mark.soak)])
def test_reads_beside_commits(shared_redis: RedisServer, tmp_path: Path, reads: int) -> None:
    topology, feeder = counted(shared_redis.url, tmp_path)
    with start_local(topology, name="ids", checkpointLocation=tmp_path / "checkpoint") as running:
        feeder.feed([(key, 1) for key in range(KEYS)])
        running.processAllAvailable()
        over = threading.Event()

        def feed() -> None:
            batch = 2
            while not over.is_set():
                feeder.feed([(key, batch) for key in range(KEYS)])
                running.processAllAvailable()
                batch += 1

        feeding = threading.Thread(target=feed)
        feeding.start()
        seen = list[int]()
        try:
            for _ in range(reads):
                result = running.sql(QUERY)
                (row,), txid = result, result.asOfTxid
                assert isinstance(txid, int)
                assert row == (KEYS * txid, KEYS * txid, KEYS * txid, txid, txid, txid)
                seen.append(txid)
        finally:
            over.set()
            feeding.join()
    assert seen == sorted(seen), "no answer is older than the one before"
    assert len(set(seen)) > 10, "batches were committed meanwhile"


def test_two_groups_each_at_its_own_txid(tmp_path: Path) -> None:
    topology, feeders = TridentTopology(), [FeederBatchSpout("id long"), FeederBatchSpout("id long")]
    for name, feeder in zip(("left", "right"), feeders, strict=True):
        topology.newStream(name, feeder).groupBy("id").persistentAggregate(
            MemoryMapState.opaque(), Count(), "n", name=f"{name}_counts"
        )
    with start_local(topology, name="two", checkpointLocation=tmp_path) as running:
        for _ in range(3):
            feeders[0].feed([(1,)])
            running.processAllAvailable()
        feeders[1].feed([(1,)])
        running.processAllAvailable()
        both = running.sql("select l.n, r.n as m from left_counts l join right_counts r using (id)")
        assert both.collect() == [(3, 1)]
        assert both.asOfTxid == both.txids == {"left": 3, "right": 1}
        assert running.sql("select n from left_counts").asOfTxid == 3
        assert running.sql("select 1").asOfTxid is None


def test_an_opened_topology(shared_redis: RedisServer, tmp_path: Path) -> None:
    topology, feeder = counted(shared_redis.url, tmp_path)
    with start_local(topology, name="ids", checkpointLocation=tmp_path / "checkpoint") as running:
        for batch in (1, 2):
            feeder.feed([(key, batch) for key in range(KEYS)])
            running.processAllAvailable()
        with openTopology(topology, name="ids", checkpointLocation=tmp_path / "checkpoint") as opened:
            assert opened.sql(QUERY).collect() == [(40, 40, 40, 2, 2, 2)]
            feeder.feed([(key, 3) for key in range(KEYS)])
            running.processAllAvailable()
            assert opened.sql(QUERY).asOfTxid in (2, 3)
    with openTopology(topology, name="ids", checkpointLocation=tmp_path / "checkpoint") as opened:
        result = opened.sql("select id, n from memory order by id limit 1")
        assert (result.collect(), result.asOfTxid) == ([(0, 3)], 3)
