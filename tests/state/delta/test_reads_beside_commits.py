"""While batches commit, each read of a Delta state has the counts of one txid: by SQL, pandas, DuckDB and Spark."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.support.soak import Soak
from trident import Count, TridentDataSource, TridentTopology
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout
from trident.state import DeltaMapState
from trident.testing.local import start_local

KEYS = 40

Counts = dict[Any, int]


class Readers:
    """The ways to read the state `counts`; each returns the count of each key."""

    def __init__(self, running: RunningTopology, folder: Path, spark: SparkSession | None = None) -> None:
        self._running, self._tables = running, folder / "tables"
        self._table = str(self._tables / "reads" / "counts")
        self._spark = spark
        self._held, self._duckdb = DeltaTable(self._table), duckdb.connect(config={"threads": 1})

    def _at_last(self) -> DeltaTable:
        """Return a table that stays open, at its last version. That takes a tenth of the time of opening it."""
        self._held.update_incremental()
        return self._held

    def sql(self) -> Counts:
        result = self._running.sql("select key, n from counts")
        found = {row.key: row.n for row in result}
        assert set(found.values()) == {result.asOfTxid}
        return found

    def pandas(self) -> Counts:
        return dict(DeltaTable(self._table).to_pandas().groupby("key")["value"].sum())

    def held_pandas(self) -> Counts:
        return dict(self._at_last().to_pandas().groupby("key")["value"].sum())

    def duckdb(self) -> Counts:
        rows = DeltaTable(self._table).to_pyarrow_dataset()
        query = "select key, sum(value)::long from t group by key"
        return dict(duckdb.connect().from_arrow(rows).query("t", query).fetchall())

    def held_duckdb(self) -> Counts:
        """Read the files of the table by DuckDB's own reader."""
        query = "select key, sum(value)::long from read_parquet(?) group by key"
        return dict(self._duckdb.execute(query, [self._at_last().file_uris()]).fetchall())

    def spark_rows(self) -> Counts:
        """Read the rows of the table's files in Spark, as a reader of Delta does."""
        assert self._spark is not None
        rows = self._spark.read.parquet(*DeltaTable(self._table).file_uris())
        return {row[0]: row[1] for row in rows.groupBy("key").sum("value").collect()}

    def spark_state(self) -> Counts:
        """Read the state in Spark by the format of this library."""
        assert self._spark is not None
        where = {"delta": str(self._tables), "topology": "reads", "txidColumn": "txid"}
        found = self._spark.read.format("trident").options(**where).load("counts").collect()
        assert {row.txid for row in found} == {row.value for row in found}
        return {row.key: row.value for row in found}


@contextmanager
def committing(folder: Path) -> Iterator[tuple[RunningTopology, Callable[[], int]]]:
    """Run a topology in which batch t brings each key once, so that each key has the count t as of txid t."""
    topology, feeder, over = TridentTopology(), FeederBatchSpout("key long"), threading.Event()
    state = DeltaMapState.opaque(str(folder / "tables"))
    topology.newStream("keys", feeder).groupBy("key").persistentAggregate(state, Count(), "n", name="counts")

    def feed() -> None:
        while not over.wait(0.03):
            feeder.feed(list(range(KEYS)), wait=True, timeout=120)

    with start_local(topology, name="reads", checkpointLocation=folder / "log") as running:
        feeder.feed(list(range(KEYS)), wait=True, timeout=120)
        feeding = threading.Thread(target=feed)
        feeding.start()
        try:
            yield running, lambda: running.asOfTxid["keys"]
        finally:
            over.set()
            feeding.join()


def check(read: Callable[[], Mapping[Any, int]], txid: Callable[[], int]) -> int:
    """Read once, and return the txid whose counts the read has. Its version may precede its COMMITTED in the log."""
    before = txid()
    found = read()
    after = txid() + 1
    assert len(found) == KEYS
    (seen,) = set(found.values())
    assert before <= seen <= after
    return seen


class Seen:
    """The txids that each way of reading has seen. None goes back.

    Readers of the table see its last version, and SQL the last COMMITTED of the log, which may be one batch before.
    """

    def __init__(self, txid: Callable[[], int]) -> None:
        self._txid, self.txids, self.reads = txid, set[int](), 0
        self._last: dict[Callable[[], Counts], int] = {}

    def by(self, read: Callable[[], Counts]) -> None:
        found = check(read, self._txid)
        assert found >= self._last.get(read, 0)
        self._last[read], self.reads = found, self.reads + 1
        self.txids.add(int(found))


def test_each_read_has_the_counts_of_one_txid(tmp_path: Path) -> None:
    with committing(tmp_path) as (running, txid):
        readers, seen = Readers(running, tmp_path), Seen(txid)
        for _ in range(8):
            for read in (readers.sql, readers.pandas, readers.held_pandas, readers.duckdb, readers.held_duckdb):
                seen.by(read)
    assert len(seen.txids) > 5


@pytest.mark.spark
def test_spark_reads_the_counts_of_one_txid(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(TridentDataSource)
    with committing(tmp_path) as (running, txid):
        readers, seen = Readers(running, tmp_path, spark), Seen(txid)
        for _ in range(3):
            for read in (readers.spark_rows, readers.spark_state):
                seen.by(read)
    assert len(seen.txids) > 2


@pytest.mark.spark
@pytest.mark.soak(weight=2)
def test_ten_thousand_reads_have_the_counts_of_one_txid(spark: SparkSession, tmp_path: Path, soak: Soak) -> None:
    spark.dataSource.register(TridentDataSource)
    with committing(tmp_path) as (running, txid):
        readers, seen = Readers(running, tmp_path, spark), Seen(txid)
        # Most reads are by the fast ways, so that 10,000 take minutes.
        often = {readers.held_pandas: 800, readers.held_duckdb: 800, readers.sql: 200, readers.pandas: 100}
        ways = {**often, readers.duckdb: 70, readers.spark_rows: 10, readers.spark_state: 10}
        for dice in soak.draws(10_000):
            (read,) = dice.choices([*ways], weights=[*ways.values()])
            seen.by(read)
        soak.tell(f"{seen.reads} reads, of {len(seen.txids)} txids up to {max(seen.txids)}")
