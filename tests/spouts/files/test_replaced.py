"""Files that are renamed, replaced or written anew while a batch of them is under way: each line counts once."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.support.plans import planned
from trident import Count, TridentTopology
from trident.base import crash_points
from trident.base.spark_types import parse_schema
from trident.compiler.spark.engine import SparkEngine
from trident.errors import SourceUnreadableError, SpoutContractError
from trident.run.start import start_on
from trident.spouts import FileSpout, TransactionAttempt
from trident.state import MemoryMapState
from trident.testing.local import start_local
from trident_spouts.emission import UnionEmission
from trident_spouts.files import executor as executor_module
from trident_spouts.files import line_reader
from trident_spouts.files.line_reader import LinesEmission, ShareReader
from trident_spouts.files.local_storage import LocalStorage
from trident_spouts.files.parquet import FilesEmission
from trident_spouts.files.parquet_reader import GroupReader, RowGroups
from trident_spouts.files.storage import ListedFile

OLD, NEW = [f"old{at:03}" for at in range(100)], [f"new{at:03}" for at in range(150)]
REPLACED = "was renamed, replaced or changed while the batch was read; this attempt is discarded"


def write(path: Path, lines: list[str]) -> None:
    """Write a file in the format of its suffix, and make it appear at once."""
    hidden = path.with_name(f"_{path.name}")
    if ".parquet" in path.name:
        pq.write_table(pa.table({"line": lines}), hidden)
    else:
        hidden.write_text("".join(f"{line}\n" for line in lines))
    hidden.rename(path)


def spout_over(folder: Path, name: str) -> FileSpout:
    return FileSpout(folder / f"{name}*", "parquet" if "parquet" in name else "text", "line string")


def counting(spout: FileSpout, native: bool = True) -> TridentTopology:
    topology = TridentTopology()
    lines = topology.newStream("lines", spout)
    if not native:
        lines = lines.map(lambda line: line, "line string")
    lines.groupBy("line").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def counted(running: Any) -> Counter[str]:
    with running:
        running.processAllAvailable(timeout=120)
        return Counter(dict(running.state("counts").items()))


@pytest.fixture
def at_point() -> Iterator[Callable[[str, Callable[[], None]], None]]:
    """Have something done once, when a batch reaches a point of its life."""

    def arrange(point: str, do: Callable[[], None]) -> None:
        def heard(reached: str) -> None:
            if reached == point:
                crash_points.listen(None)
                do()

        crash_points.listen(heard)

    yield arrange
    crash_points.listen(None)


def rotated(folder: Path, name: str, new: list[str] | None) -> None:
    (folder / name).rename(folder / f"{name}.1")
    if new is not None:
        write(folder / name, new)


@pytest.mark.parametrize("new", [NEW, NEW[:3], None], ids=["longer", "shorter", "none"])
@pytest.mark.parametrize("name", ["app.log", "facts.parquet"])
@pytest.mark.parametrize("point", ["plan.made", "emit.after"])
def test_a_file_that_is_rotated_under_a_batch_is_read_under_its_new_name(
    tmp_path: Path, at_point: Any, point: str, name: str, new: list[str] | None
) -> None:
    write(tmp_path / name, OLD)
    at_point(point, lambda: rotated(tmp_path, name, new))
    for _ in range(2):
        running = start_local(counting(spout_over(tmp_path, name)), name="t", checkpointLocation=tmp_path / "_log")
        assert counted(running) == Counter(OLD + (new or []))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "native"),
    [
        ("facts.parquet", True),
        ("facts.parquet", False),
        ("app.log", False),
        pytest.param("app.log", True, marks=pytest.mark.soak),
    ],
    ids=["parquet-Spark scans", "parquet-Python reads", "text-Python reads", "text-Spark scans"],
)
def test_a_file_that_is_rotated_under_a_batch_counts_once_on_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_point: Any, name: str, native: bool
) -> None:
    monkeypatch.setattr(line_reader, "MOST_BYTES_IN_PLAN", -1)
    monkeypatch.setattr(line_reader, "on_this_machine", lambda session: False)  # the workers read, however little it is
    write(tmp_path / name, OLD)
    at_point("emit.after", lambda: rotated(tmp_path, name, NEW[:100]))
    topology = counting(spout_over(tmp_path, name), native)
    for _ in range(2):
        running = start_on(
            lambda settings: SparkEngine(spark, settings.files),
            topology,
            name="t",
            checkpointLocation=tmp_path / "_log",
        )
        assert counted(running) == Counter(OLD + NEW[:100])


def test_a_file_that_is_rotated_while_the_folder_is_listed_is_found_by_a_second_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, listings = executor_module.list_files, list[int]()

    def without_the_renamed_one(place: LocalStorage, *options: Any) -> list[ListedFile]:
        listings.append(len(listings))
        found = whole(place)
        return [file for file in found if file.name != "app.log.1"] if len(listings) == 2 else found

    monkeypatch.setattr(executor_module, "list_files", without_the_renamed_one)
    monkeypatch.setattr(executor_module, "_LISTING_SECONDS", 0.0)
    monkeypatch.setattr(executor_module, "_LISTING_SHARE", 0)
    write(tmp_path / "app.log", OLD)
    executor = spout_over(tmp_path, "app.log").open()
    first = executor.plan(TransactionAttempt(1, 0), None, 0.0)
    rotated(tmp_path, "app.log", NEW[:100])
    second = executor.plan(TransactionAttempt(2, 0), first, 0.0)
    assert executor.emit(TransactionAttempt(2, 0), second).arrow().column(0).to_pylist() == NEW[:100]
    assert len(listings) == 3


# --- what a reader checks -----------------------------------------------------------------------------------------


def emitted(folder: Path, name: str) -> Any:
    spout = spout_over(folder, name)
    [plan] = planned(spout)
    return spout.open().emit(TransactionAttempt(1, 0), plan)


def in_the_worker(emission: LinesEmission | FilesEmission) -> list[str]:
    """Return the lines as a worker's process reads them."""
    reader: ShareReader | GroupReader
    if isinstance(emission, LinesEmission):
        reader = ShareReader((emission.stretches,), emission.line_format)
    else:
        groups = (RowGroups(file, (0,)) for file in emission.paths)
        reader = GroupReader((tuple(groups),), parse_schema("line string"))
    numbers = pa.RecordBatch.from_pydict({"id": [0]})
    return [line for batch in reader(iter([numbers])) for line in batch.column(0).to_pylist()]


@pytest.mark.parametrize("read", [in_the_worker, lambda emission: emission.arrow()], ids=["worker", "driver"])
@pytest.mark.parametrize("name", ["app.log", "facts.parquet"])
def test_a_reader_refuses_another_file_under_the_planned_name(tmp_path: Path, name: str, read: Any) -> None:
    write(tmp_path / name, OLD)
    emission = emitted(tmp_path, name)
    write(tmp_path / name, NEW[:100])
    with pytest.raises(SourceUnreadableError, match=REPLACED):
        read(emission)


@pytest.mark.parametrize("name", ["app.log", "facts.parquet"])
def test_on_this_machine_the_inode_tells_and_elsewhere_the_content(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, OLD)
    emission = emitted(tmp_path, name)
    shutil.copy(tmp_path / name, tmp_path / "_copy")
    (tmp_path / "_copy").rename(tmp_path / name)
    with pytest.raises(SourceUnreadableError, match=REPLACED):
        in_the_worker(emission)
    if isinstance(emission, FilesEmission):
        elsewhere: Any = replace(emission, paths=tuple(replace(file, host="other") for file in emission.paths))
    else:
        [part] = emission.stretches
        elsewhere = LinesEmission((replace(part, path=replace(part.path, host="other")),), emission.line_format)
    assert in_the_worker(elsewhere) == OLD
    write(tmp_path / name, NEW[:100])
    with pytest.raises(SourceUnreadableError, match=REPLACED):
        in_the_worker(elsewhere)


def test_a_log_that_is_written_anew_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "app.log", OLD)
    emission = emitted(tmp_path, "app.log")
    [part] = emission.stretches
    tables = line_reader.read_stretch(part, emission.line_format)
    next(tables)
    (tmp_path / "app.log").write_text("".join(f"{line}\n" for line in NEW))
    with pytest.raises(SourceUnreadableError, match=REPLACED):
        next(tables)


def test_a_log_that_grows_while_it_is_read_is_the_same(tmp_path: Path) -> None:
    write(tmp_path / "app.log", OLD)
    emission = emitted(tmp_path, "app.log")
    with (tmp_path / "app.log").open("a") as log:
        log.write("more\n")
    assert in_the_worker(emission) == OLD


def test_what_spark_scanned_is_checked_by_all_that_a_stat_tells(tmp_path: Path) -> None:
    write(tmp_path / "facts.parquet", OLD)
    emission = emitted(tmp_path, "facts.parquet")
    emission.paths[0].check_scanned()
    os.utime(tmp_path / "facts.parquet", (5, 5))
    with pytest.raises(SourceUnreadableError, match=REPLACED):
        emission.paths[0].check_scanned()
    (tmp_path / "facts.parquet").unlink()
    with pytest.raises(SourceUnreadableError, match=REPLACED):
        emission.paths[0].check_scanned()
    assert UnionEmission((emission,)).rows == 100


def test_a_planned_file_that_is_found_nowhere_is_told_under_its_planned_name(tmp_path: Path) -> None:
    write(tmp_path / "app.log", OLD)
    spout = FileSpout(tmp_path / "app.log")
    [plan] = planned(spout)
    executor = spout.open()
    rotated(tmp_path, "app.log", NEW)
    with pytest.raises(SpoutContractError, match=r"read .*/app\.log \(700 bytes, .* and it has changed since"):
        executor.emit(TransactionAttempt(1, 0), plan)
