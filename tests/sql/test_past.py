"""Queries as of an earlier batch: ``running.sql(..., asOf=)``."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trident import Count, TridentTopology, openTopology
from trident.base.errors import SqlError, StateError, TxidNotKeptError
from trident.spouts import FeederBatchSpout
from trident.state import DeltaMapState, MemoryMapState
from trident.testing.local import start_local


def test_all_states_are_as_of_the_same_batch(tmp_path: Path) -> None:
    topology, feeder = TridentTopology(), FeederBatchSpout("word string")
    words = topology.newStream("words", feeder)
    for name in ("first", "second"):
        state = DeltaMapState.opaque(tmp_path / "tables")
        words.groupBy("word").persistentAggregate(state, Count(), "n", name=name)
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="held")
    query = "select (select sum(n) from first) as a, (select sum(n) from second) as b"
    with start_local(topology, name="wc", checkpointLocation=tmp_path) as running:
        for _ in range(9):
            feeder.feed(["dog", "cat"], wait=True, timeout=20)
            time.sleep(0.01)
        opened = openTopology(topology, name="wc", checkpointLocation=tmp_path)
        with opened:
            for asked in (running, opened):
                for txid in (1, 4, 9):
                    at = running.commitTimes("words").of(txid)
                    assert at is not None
                    moment = datetime.fromtimestamp(at, UTC) + timedelta(microseconds=1)
                    for as_of in (txid, moment, str(moment)):
                        result = asked.sql(query, asOf=as_of)
                        assert (result.first(), result.asOfTxid) == ((2 * txid, 2 * txid), txid)
                result = asked.sql("select n from first where word = ?", ["dog"], asOf=3)
                assert (result.first().n, result.txids) == (3, {"words": 3})
        assert running.sql("select sum(n) as n from held", asOf=8).first().n == 16
        with pytest.raises(TxidNotKeptError, match="state 'held': txid 3 is not kept any more; .* the txids 8 to 9"):
            running.sql("select * from first join held using (word)", asOf=3)
        with pytest.raises(ValueError, match="expected 'previous'"):
            running.sql(query, asOf="soon")


def test_a_txid_belongs_to_one_group(tmp_path: Path) -> None:
    topology, feeders = TridentTopology(), [FeederBatchSpout("word string") for _ in range(2)]
    for name, feeder in zip(("one", "two"), feeders, strict=True):
        words = topology.newStream(name, feeder).groupBy("word")
        words.persistentAggregate(DeltaMapState.opaque(tmp_path / "tables"), Count(), "n", name=f"in_{name}")
    words = topology.newStream("three", FeederBatchSpout("word string")).groupBy("word")
    words.persistentAggregate(MemoryMapState.nonTransactional(), Count(), "n", name="loose")
    with start_local(topology, name="wc", checkpointLocation=tmp_path) as running:
        feeders[0].feed(["dog"], wait=True, timeout=20)
        feeders[1].feed(["dog"], wait=True, timeout=20)
        moment = datetime.now(UTC)
        time.sleep(0.01)
        for _ in range(3):
            feeders[1].feed(["dog"], wait=True, timeout=20)
        query = "select (select sum(n) from in_one) as a, (select sum(n) from in_two) as b"
        result = running.sql(query, asOf=moment)
        assert (result.first(), result.txids) == ((1, 1), {"one": 1, "two": 1})
        assert running.sql(query).first() == (1, 4)
        with pytest.raises(SqlError, match="asOf=1: .* the batch groups one, two, .* give a time, such as asOf='2026"):
            running.sql(query, asOf=1)
        with pytest.raises(StateError, match="'loose' is nonTransactional"):
            running.sql("from loose", asOf=moment)
