"""The fields of Parquet files without a schema: those that the topology was built with, matched by name."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trident import Count, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.errors import BatchFailedError, SpoutContractError, TypeDeclarationError
from trident.spouts import ArrowEmission, FilesEmission, FileSpout, OpaquePartitionedSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local


def counting(spout: Any, field: str = "page", function: bool = False) -> TridentTopology:
    topology = TridentTopology()
    clicks = topology.newStream("clicks", spout)
    if function:
        clicks = clicks.map(field, str, f"{field} string")
    clicks.groupBy(field).persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


@pytest.fixture(params=["driver", pytest.param("spark", marks=pytest.mark.spark)])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    def run(topology: TridentTopology) -> Any:
        options = {"name": "t", "checkpointLocation": str(tmp_path / "checkpoint")}
        if request.param == "driver":
            return start_local(topology, **options)
        return topology.start(request.getfixturevalue("spark"), **options)

    return run


def counts(running: Any, field: str = "page") -> dict[Any, int]:
    with running:
        running.processAllAvailable(timeout=120)
        rows = running.state("counts").toPandas().to_dict("records")
    return {row[field]: row["count"] for row in rows}


def write(path: Path, **columns: list[Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), path)


@pytest.mark.parametrize("function", [False, True])
@pytest.mark.parametrize("more", [{}, {"more": [1]}], ids=["now have another order", "and one more"])
def test_the_fields_are_those_that_the_topology_was_built_with(
    start: Any, tmp_path: Path, function: bool, more: dict[str, list[Any]]
) -> None:
    folder = tmp_path / "in"
    write(folder / "b.parquet", user=["ann", "bob"], page=["/home", "/shop"])
    topology = counting(FileSpout(folder, "parquet"), function=function)
    (folder / "b.parquet").unlink()
    write(folder / "a.parquet", page=["/home"], user=["cyd"], **more)
    write(folder / "c.parquet", user=["dan"])
    expected = {"/home": 1, ("None" if function else None): 1}
    assert counts(start(topology)) == expected


def test_a_folder_named_like_a_partition_changes_no_value_of_its_files(start: Any, tmp_path: Path) -> None:
    for number, name in enumerate(["star*", "[x]", "{a,b}", "50%41", "k=v"]):
        folder = tmp_path / "in" / f"page={number + 90}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"page": [number]}), folder / f"{name}.parquet")
    spout = FileSpout(tmp_path / "in" / "*" / "*.parquet", format="parquet", schema="page long")
    assert counts(start(counting(spout))) == dict.fromkeys(range(5), 1)


def test_a_later_file_of_other_types_is_refused(start: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder / "a.parquet", user=["ann"], page=["/home"])
    topology = counting(FileSpout(folder, "parquet"))
    write(folder / "b.parquet", user=["bob"], page=[7])
    with pytest.raises(BatchFailedError, match="b.parquet has 'page' as int64, expected string") as caught:
        counts(start(topology))
    assert isinstance(caught.value.__cause__, SpoutContractError)


def test_a_field_that_no_file_of_the_first_batch_has_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def warned(folder: Path) -> list[str]:
        caplog.clear()
        spout = FileSpout(folder, "parquet", "user string, pagee string, more long", maxFilesPerBatch=2)
        executor, metadata = spout.open(), None
        for batch in range(1, 3):
            metadata = executor.plan(TransactionAttempt(batch, 0), metadata, 0.0)
            executor.emit(TransactionAttempt(batch, 0), metadata)
        return [record.getMessage() for record in caplog.records]

    for name in "abc":
        write(tmp_path / "in" / f"{name}.parquet", user=["ann"], page=["/home"])
    where = f"FileSpout: {tmp_path / 'in' / 'a.parquet'} and 1 more have"
    there = "which is read as null; the columns there are 'user', 'page'"
    assert warned(tmp_path / "in") == [
        f"{where} no column 'pagee', {there}; did you mean 'page'?",
        f"{where} no column 'more', {there}",
    ]
    write(tmp_path / "right" / "a.parquet", user=["ann"])
    write(tmp_path / "right" / "b.parquet", user=["ann"], PAGEE=["/home"], more=[1])
    write(tmp_path / "right" / "c.parquet", user=["ann"])
    assert warned(tmp_path / "right") == []


class Given(OpaquePartitionedSpout):
    """Emits once, by reference, what it was given."""

    outputFields = "user string, page string"

    def __init__(self, emission: Any) -> None:
        self.emission = emission

    def getPartitions(self) -> list[str]:
        return ["p"]

    def emitPartitionBatch(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        return (self.emission, 1) if lastMetadata is None else (None, lastMetadata)


def emissions(folder: Path, **columns: list[str]) -> list[Any]:
    """Return emissions of the same columns, in memory and in a file."""
    write(folder / "emitted.parquet", **columns)
    schema = FileSpout(folder / "emitted.parquet", "parquet").schema
    return [ArrowEmission(pa.table(columns)), FilesEmission((str(folder / "emitted.parquet"),), schema)]


@pytest.mark.parametrize("at", [0, 1], ids=["memory", "files"])
def test_an_emission_meets_the_declared_fields_by_name(start: Any, tmp_path: Path, at: int) -> None:
    emission = emissions(tmp_path, page=["/home", "/home"], user=["ann", "bob"])[at]
    assert counts(start(counting(Given(emission)))) == {"/home": 2}


@pytest.mark.parametrize("at", [0, 1], ids=["memory", "files"])
def test_an_emission_of_other_fields_is_refused(start: Any, tmp_path: Path, at: int) -> None:
    emission = emissions(tmp_path, page=["/home"], who=["ann"])[at]
    with pytest.raises(BatchFailedError, match=r"\(page, who\), but \(user( string)?, page( string)?\) is declared"):
        counts(start(counting(Given(emission))))


def test_the_fields_are_told_once(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.parquet", n=[1])
    spout = FileSpout(tmp_path / "in", "parquet")
    assert spout.schema.names == ["n"]
    (tmp_path / "in" / "a.parquet").unlink()
    assert spout.schema.names == ["n"]
    assert spout == FileSpout(tmp_path / "in", "parquet")
    hash(spout)


def test_a_folder_of_folders_is_told_with_the_glob_that_reads_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "facts" / "day=1").mkdir(parents=True)
    pq.write_table(pa.table({"n": [1]}), tmp_path / "facts" / "day=1" / "a.parquet")
    said = (
        rf"its files are in subfolders, such as day=1/a.parquet; read these with a glob: "
        rf"{tmp_path}/facts/\*\*/\*.parquet"
    )
    with pytest.raises(TypeDeclarationError, match=said):
        _ = FileSpout(tmp_path / "facts", "parquet").schema
    assert FileSpout(tmp_path / "facts", "parquet", "n long").open().plan(TransactionAttempt(1, 0), None, 0.0) is None
    assert "there is no file at" in caplog.text and "such as day=1/a.parquet" in caplog.text


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.uint32(), pa.float16()])
def test_a_column_without_a_type_is_named_when_the_topology_is_built(tmp_path: Path, kind: pa.DataType) -> None:
    """Spark has a type for a time of day, so a look at Spark alone would find it only when a batch is read."""
    values = pa.array([0], pa.int64() if pa.types.is_time(kind) else None).cast(kind)
    pq.write_table(pa.table({"page": ["/a"], "x": values}), tmp_path / "a.parquet")
    with pytest.raises(TypeDeclarationError, match=rf"column 'x' is {re.escape(str(kind))}, a type that .* schema="):
        TridentTopology().newStream("clicks", FileSpout(tmp_path, format="parquet"))
    spout = FileSpout(tmp_path, format="parquet", schema="page string")
    assert spout.open().plan(TransactionAttempt(1, 0), None, 0) is not None
