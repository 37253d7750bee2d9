"""SQL over states that are Delta tables, beside a state in memory: each answer as of one txid, also of folded rows."""

import threading
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="tests of states in Delta tables need the package deltalake")

from trident import Count, Max, Sum, TridentTopology, openTopology
from trident.spouts import FeederBatchSpout
from trident.state import DeltaMapState, MemoryMapState
from trident.testing.local import start_local

KEYS, READS = 5, 4
QUERY = (
    "select (select sum(n) from memory), (select sum(n) from lake), (select max(most) from lake),"
    " (select n from lake where id = 3), (select count(*) from memory join lake using (id))"
)


def test_a_table_and_a_state_in_memory_are_read_as_of_one_txid(tmp_path: Path) -> None:
    """Batch t brings each key once, with the value t. Sums and maxima of a table are added as rows and folded."""
    topology, feeder = TridentTopology(), FeederBatchSpout("id long, v long")
    by_id = topology.newStream("ids", feeder).groupBy("id")
    by_id.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="memory")
    members = {"n": Count(), "most": Max("v"), "total": Sum("v")}
    by_id.persistentAggregate(DeltaMapState.opaque(str(tmp_path / "lake")), members, name="lake")
    with start_local(topology, name="ids", checkpointLocation=tmp_path) as running:
        batches, over = iter(range(1, 10**6)), threading.Event()

        def feed() -> None:
            batch = next(batches)
            feeder.feed([(key, batch) for key in range(KEYS)])
            running.processAllAvailable(timeout=60)

        def feed_on() -> None:
            while not over.is_set():
                feed()

        feed()
        feeding = threading.Thread(target=feed_on)
        feeding.start()
        seen = set[int]()
        try:
            while len(seen) < READS:
                result = running.sql(QUERY)
                (row,), txid = result, result.asOfTxid
                assert isinstance(txid, int)
                assert row == (KEYS * txid, KEYS * txid, txid, txid, KEYS)
                seen.add(txid)
        finally:
            over.set()
            feeding.join()
        last = running.sql(QUERY).collect()
    with openTopology(topology, name="ids", checkpointLocation=tmp_path) as opened:
        assert opened.sql(QUERY).collect() == last
        assert opened.sql("select sum(total) as t from lake").collect() == [(KEYS * sum(range(1, last[0][2] + 1)),)]
