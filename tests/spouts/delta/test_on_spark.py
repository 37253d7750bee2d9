"""DeltaSpout on Spark: the workers read the data files, whole or in parts, and no jar is needed."""

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import WriterProperties
from pyspark.sql import SparkSession

from tests.spouts.delta.tables import FEED, Table
from trident import Count, TridentTopology, expr
from trident.compiler.spark import engine, stage_job
from trident.compiler.spark.frozen_writes import manifest_of
from trident.compiler.spark.sessions import Sizes
from trident.errors import BatchFailedError, DataLossError
from trident.frozen.results import FrozenFiles
from trident.spouts import DeltaSpout
from trident.state import MemoryMapState
from trident.testing import EngineStart, SpoutContract, crash_at, engines, run_through
from trident_spouts.tables import emission
from trident_spouts.tables.data_files import shares

pytestmark = pytest.mark.spark
start = engines(["spark"], spark="spark")


def words(rows: int, first: int = 0) -> pa.Table:
    return pa.table({"id": range(first, first + rows), "word": [f"w{n % 3}" for n in range(rows)]})


def test_workers_read_what_the_driver_reads(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large file in parts, partitions, a field that older files lack."""
    monkeypatch.setattr(emission, "shares", partial(shares, least=1))
    monkeypatch.setattr(emission, "parallelism", lambda spark: 5)
    table = Table(tmp_path / "table")
    table.write(words(1000), partition_by=["word"], writer_properties=WriterProperties(max_row_group_size=50))
    table.write(words(10).append_column("n", pa.array(range(10))), schema_mode="merge")
    spout = DeltaSpout(table.path, startingVersion="earliest", maxFilesPerBatch=4)
    SpoutContract().test_workers_read_what_the_driver_reads(lambda: spout, spark, tmp_path)


def test_counts_are_exact_over_a_killed_driver(start: Any, tmp_path: Path) -> None:
    table = Table(tmp_path / "table").write(words(1000)).write(words(500, 1000)).write(words(100, 1500))
    topology = TridentTopology()
    rows = topology.newStream("rows", DeltaSpout(table.path, startingVersion="earliest", maxFilesPerBatch=1))
    loud = rows.each("word", str.upper, "loud string").filter(expr("id >= 0"))
    loud.groupBy("loud").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    options: dict[str, Any] = {"checkpointLocation": tmp_path / "log", "start": start}
    with crash_at("freeze.after", 2), run_through(topology, **options) as running:
        assert dict(running.state("counts").items()) == {"W0": 535, "W1": 533, "W2": 532}


def test_a_loss_that_a_worker_meets_stops_the_topology_with_its_error(start: Any, tmp_path: Path) -> None:
    table = Table(tmp_path / "table").write(words(10))
    (file,) = table.path.glob("*.parquet")
    file.unlink()
    topology = TridentTopology()
    topology.newStream("rows", DeltaSpout(table.path)).aggregate(Count(), "n").peek("n", print)
    running = start(topology, checkpointLocation=tmp_path / "log")
    with pytest.raises(BatchFailedError) as caught:
        running.processAllAvailable(timeout=60)
    assert isinstance(caught.value.__cause__, DataLossError)
    assert f"the data file {file.name} was removed before its rows were read" in str(caught.value.__cause__)


def test_the_last_change_of_a_key_decides_in_whichever_part_of_a_large_batch(
    start: EngineStart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part of a batch is frozen as a file of its own, and the files are read in the order of the parts."""
    monkeypatch.setattr(emission, "shares", partial(shares, least=1))
    monkeypatch.setattr(emission, "parallelism", lambda spark: 12)
    monkeypatch.setattr(engine, "Sizes", lambda spark, inline_bytes: Sizes(spark, 20))
    table = Table(tmp_path / "table").add(*range(6), configuration=FEED)
    for n in range(5):
        table.delta.update(updates={"word": f"'{n}'"})
        table.delta.update(updates={"id": "id + 1"})
    written = list[int]()
    monkeypatch.setattr(stage_job, "manifest_of", lambda *args: noted(manifest_of(*args), written))
    topology, limits = TridentTopology(), {"startingVersion": "earliest", "maxFilesPerBatch": 7}
    changes = topology.newStream("s", DeltaSpout(table.path, changes=True, **limits)).asChanges()  # type: ignore[arg-type]
    changes.toTable("id", name="rows")
    changes.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="words")
    with run_through(topology, checkpointLocation=tmp_path / "ckpt", start=start) as running:
        assert dict(running.state("rows")) == {id: ("4",) for id in range(5, 11)}
        assert dict(running.state("words")) == {"4": 6}
    assert max(written) > 3, "a large result has a file for each part"


def noted(result: FrozenFiles, files: list[int]) -> FrozenFiles:
    files.append(len(result.files))
    return result
