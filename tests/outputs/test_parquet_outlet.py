"""The Parquet output: which batches are visible, when, after which failures, and who owns the folder."""

import datetime
import json
import os
import resource
import shutil
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet
import pytest

import trident
from tests.compiler.stage_runner import table
from tests.support.topologies import DeclaredSpout
from trident import TridentTopology, publishedFiles
from trident.base.attempt import Lease
from trident.base.callsite import CallSite
from trident.base.spark_types import parse_schema
from trident.compiler.parquet_files import FolderTarget
from trident.errors import (
    BatchFailedError,
    GuaranteeError,
    OutputConflictError,
    OutputError,
    OutputUnavailableError,
    TopologyError,
)
from trident.files.disk import DiskFiles
from trident.outputs import parquet_folder
from trident.outputs.parquet_folder import NewBatch
from trident.outputs.parquet_outlet import ParquetOutlet
from trident.outputs.run_identity import RunIdentity
from trident.plan.nodes import SpoutSource, WriteParquet
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.testing.local import start_local
from trident_spouts.executor import SpoutKind

pytestmark = pytest.mark.usefixtures("nothing_left_running")


def words(topology: TridentTopology, *batches: list[Any], fields: str = "word string, n long") -> Any:
    return topology.newStream("words", FixedBatchSpout(fields, [list(batch) for batch in batches]))


def run(topology: TridentTopology, tmp_path: Path, checkpoint: str = "checkpoint", **options: Any) -> None:
    with start_local(topology, name="t", checkpointLocation=tmp_path / checkpoint, **options) as running:
        running.processAllAvailable(timeout=20)


def rows(path: Path, after: int = 0) -> list[tuple[Any, ...]]:
    files = publishedFiles(path, afterTxid=after)
    return [] if not files else [tuple(row.values()) for row in dataset.dataset(files).to_table().to_pylist()]


BATCHES: tuple[list[Any], ...] = ([("a", 1), ("b", 2)], [("drop", 0)], [("a", 3)])


def written(tmp_path: Path, *batches: list[Any], **options: Any) -> TridentTopology:
    topology = TridentTopology()
    stream = words(topology, *(batches or BATCHES)).filter("n", lambda n: n > 0)
    stream.writeParquet(tmp_path / "out", **options)
    return topology


def on_its_way(out: Path) -> list[Path]:
    """Return the folders of batches that are not published."""
    return [left for left in (out / "_trident" / "staging").rglob("*") if left.parent.name != "staging"]


def test_every_batch_is_a_folder_and_an_empty_one_is_none(tmp_path: Path) -> None:
    run(written(tmp_path), tmp_path)
    out = tmp_path / "out"
    assert sorted(name for name in os.listdir(out) if name[0] != "_") == ["txid=1", "txid=3"]
    assert rows(out) == [("a", 1), ("b", 2), ("a", 3)] and rows(out, after=1) == [("a", 3)]
    told = json.loads((out / "txid=1" / "_manifest.json").read_text())
    assert told["txid"] == 1 and told["files"][0]["rows"] == 2
    assert on_its_way(out) == []
    assert [name for name in os.listdir(out / "txid=1") if name.startswith(".")] == []


def test_every_type_comes_back_as_it_was(tmp_path: Path) -> None:
    when = datetime.datetime(2020, 5, 17, 12, 30, 0, 250_000, tzinfo=datetime.UTC)
    given = (
        True, 7, -3, 1.5, 2.5, "wörd", b"\x00\xff", Decimal("12.30"), datetime.date(1999, 12, 31), when,
        when.replace(tzinfo=None), [1, None], {"a": 1}, (5, "s"),
    )  # fmt: skip
    fields = (
        "b boolean, i int, t tinyint, f float, d double, s string, y binary, p decimal(10,2), day date, at timestamp, "
        "n timestamp_ntz, l array<int>, m map<string,int>, r struct<x:int,w:string>"
    )
    topology = TridentTopology()
    words(topology, [given, (None,) * len(given)], fields=fields).writeParquet(tmp_path / "out")
    run(topology, tmp_path)
    (found, nulls) = rows(tmp_path / "out")
    assert found == (*given[:-3], [1, None], [("a", 1)], {"x": 5, "w": "s"}) and set(nulls) == {None}


def test_partitions_name_folders_and_stay_in_the_files(tmp_path: Path) -> None:
    given = [("a/b", 1), ("a/b", 2), (None, 3), ("", 4), ("x=%", 5), ("nul\0", 6)]
    run(written(tmp_path, given, partitionBy="word"), tmp_path)
    out = tmp_path / "out"
    folders = sorted(path.parent.name for path in (out / "txid=1").rglob("part-*"))
    assert folders == ["word=__HIVE_DEFAULT_PARTITION__", "word=a%2Fb", "word=nul%00", "word=x%3D%25"]
    assert sorted(rows(out), key=lambda row: row[1]) == given


def test_pandas_reads_partitioned_files_without_the_names_of_their_folders(tmp_path: Path) -> None:
    run(written(tmp_path, [("a/b", 1), ("c", 2)], [("c", 3)], partitionBy="word"), tmp_path)
    for read in (pandas.read_parquet, parquet.read_table):
        for files in (tmp_path / "out", publishedFiles(tmp_path / "out")):
            found = read(files, partitioning=None)
            found = found.to_pandas() if isinstance(found, pyarrow.Table) else found
            assert sorted(found.itertuples(index=False, name=None)) == [("a/b", 1), ("c", 2), ("c", 3)]


def outlet(path: Path, epoch: int = 1, found: int = 0, log: str = "uuid", name: str = "out", **other: Any) -> Any:
    """Return a Parquet output of a run, without the run."""
    site, schema = CallSite("x"), parse_schema(other.pop("fields", "word string"))
    source = SpoutSource("s", DeclaredSpout(SpoutKind.TRANSACTIONAL), step="s/0", site=site, schema=schema)
    sink = WriteParquet(source, name, str(path), (), step="s/1:writeParquet", site=site, schema=schema)
    return ParquetOutlet(sink, RunIdentity("t", log, epoch, found), DiskFiles(path.parent), None)


@pytest.mark.parametrize("text", ["a" * 251, "é" * 126, "/" * 84, chr(0) * 84])
def test_a_text_that_can_name_no_folder_fails_its_batch_before_the_freeze(tmp_path: Path, text: str) -> None:
    """So a start whose program filters it out goes on. The longest texts that fit are written."""
    hint = f"field 'word' has a text of {len(text)} characters, which is too long for a folder name"
    given = [("b", 0)] * 20 + [(text, 1)]
    with pytest.raises(BatchFailedError, match=hint):
        run(written(tmp_path, given, partitionBy="word", name="o"), tmp_path)
    topology = TridentTopology()
    words(topology, [(word[:-1] or word, n) for word, n in given]).writeParquet(
        tmp_path / "out", partitionBy="word", name="o"
    )
    run(topology, tmp_path)
    assert len(rows(tmp_path / "out")) == 21


@pytest.mark.parametrize("at", ["before it is staged", "after it is staged"])
def test_a_driver_that_slept_while_another_log_got_the_folder_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    out, sleeper = tmp_path / "out", outlet(tmp_path / "out")

    def replaced(work: Any) -> Any:
        def replacing(*args: Any) -> Any:
            found = work(*args)
            monkeypatch.undo()
            shutil.rmtree(out)
            outlet(out, log="another")
            return found

        return replacing

    name = "owner_of" if at == "before it is staged" else "seal"
    monkeypatch.setattr(parquet_folder, name, replaced(getattr(parquet_folder, name)))
    with pytest.raises(OutputError):
        sleeper.take(table("word string", ("a",)), 1)
    with pytest.raises(OutputConflictError, match="no longer belongs to this output; restart"):
        sleeper.take(table("word string", ("a",)), 1)
    assert parquet_folder.txids(out) == [] and on_its_way(out) == []


def staged_batch(
    out: Path, writer: ParquetOutlet, batch: pyarrow.Table, epoch: int, repeated: bool = False
) -> tuple[Path, NewBatch]:
    """Return the folder of a batch of txid 1 that is sealed and not published, and the batch."""
    staged = parquet_folder.make_staged_folder(out, "uuid", Lease(epoch, ""), 1)
    assert staged is not None
    new = NewBatch("uuid", 1, tuple(writer._write_files(batch, FolderTarget(staged))))
    if repeated:
        writer._write_files(batch, FolderTarget(staged))
    parquet_folder.seal(staged, new)
    return staged, new


def test_a_batch_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    out, batch = tmp_path / "out", table("word string", ("a",), ("b",))
    outlet(out).take(batch, 1)
    before = publishedFiles(out)
    outlet(out, epoch=2, found=1).take(batch, 1)
    assert publishedFiles(out) == before
    with pytest.raises(OutputConflictError, match=r"batch 1 in .* has 2 rows, but the log has 1"):
        outlet(out, epoch=3, found=1).take(batch.slice(1), 1)


def test_of_two_drivers_one_publishes_and_the_other_finds_it_done(tmp_path: Path) -> None:
    """A driver stops in the middle of a batch; a later one writes it; the first wakes up and goes on."""
    out, batch = tmp_path / "out", table("word string", ("a",))
    zombie = outlet(out)
    staged, first = staged_batch(out, zombie, batch, epoch=1)
    later = outlet(out, epoch=2)
    assert not staged.exists(), "what an earlier epoch has on its way is removed: it is written anew"
    later.take(batch, 1)
    with pytest.raises(FileNotFoundError):
        parquet_folder.publish(out, staged, first)
    before = publishedFiles(out)
    again, second = staged_batch(out, later, batch, epoch=2)
    assert parquet_folder.publish(out, again, second) is False, "the first one to publish a batch has done it for all"
    zombie.take(batch, 1)
    assert publishedFiles(out) == before and rows(out) == [("a",)]


def test_files_that_nobody_listed_are_never_seen(tmp_path: Path) -> None:
    """A task that was repeated leaves its file in the batch's folder, before or after it is published."""
    out, batch = tmp_path / "out", table("word string", ("a",))
    found = outlet(out)
    staged, new = staged_batch(out, found, batch, epoch=1, repeated=True)
    found._write_files(batch, FolderTarget(staged))  # one that ends late
    assert parquet_folder.publish(out, staged, new)
    assert rows(out) == [("a",)]
    assert dataset.dataset(out, partitioning="hive").count_rows() == 1, "any other reader skips it, too"


def test_a_full_disk_is_waited_for_and_leaves_nothing(tmp_path: Path) -> None:
    out, batch = tmp_path / "out", table("word string", *[(f"{n:060d}",) for n in range(3000)])
    found = outlet(out)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(OutputUnavailableError, match=r"s/1:writeParquet.*batch|the files of a batch could not be"):
            found.take(batch, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert on_its_way(out) == [] and rows(out) == []
    found.take(batch, 1)
    assert len(rows(out)) == 3000


def test_a_folder_that_holds_other_things_is_refused_and_not_touched(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.csv").write_text("1")
    with pytest.raises(OutputConflictError, match=r"contains other files \(mine.csv\): choose a folder that is empty"):
        run(written(tmp_path), tmp_path)
    assert not trident.active() and (out / "mine.csv").read_text() == "1"


def test_a_folder_that_is_emptied_while_it_is_opened_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_folder.os, "link", lambda source, target: None)  # it is gone again
    with pytest.raises(OutputConflictError, match=r"was emptied while the output was opened: start the topology again"):
        outlet(tmp_path / "out")


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (
            {"name": "other"},
            r"belongs to output 'out' of topology 't'; give output 'other' a separate path; or, .* give it name='out'",
        ),
        ({"log": "another"}, r"belongs to another log \(uuid uuid\), not to this one \(uuid another\)"),
        ({"fields": "word string, n long"}, r"has \(word string\), but the topology writes \(word string, n bigint\)"),
        ({"found": 6}, "has batch 7, but the last batch in the log is 6: the log is an old copy"),
    ],
)
def test_another_output_s_folder_is_refused(other: dict[str, Any], says: str, tmp_path: Path) -> None:
    outlet(tmp_path / "out").take(table("word string", ("a",)), 7)
    with pytest.raises(OutputConflictError, match=says):
        outlet(tmp_path / "out", **{"found": 7, **other})
    outlet(tmp_path / "out", found=7)


def test_a_folder_that_was_taken_away_or_changed_is_told(tmp_path: Path) -> None:
    out, batch = tmp_path / "out", table("word string", ("a",))
    found = outlet(out)
    (out / "txid=4").mkdir()
    with pytest.raises(OutputConflictError, match=r"txid=4 was not published by this output: it has no _manifest.json"):
        found.take(batch, 4)
    (out / "txid=4").rmdir()
    found.take(batch, 5)
    (file,) = publishedFiles(out)
    Path(file).write_bytes(b"x")
    with pytest.raises(OutputConflictError, match="has 1 bytes, but .* were published: the batch was changed"):
        publishedFiles(out)
    Path(file).unlink()
    with pytest.raises(OutputConflictError, match="is gone: the batch was changed after it was published"):
        publishedFiles(out)
    shutil.rmtree(out)
    with pytest.raises(OutputConflictError, match="no longer belongs to this output; restart"):
        found.take(batch, 6)
    with pytest.raises(OutputError, match="is not a folder of a writeParquet output"):
        publishedFiles(out)


def test_a_folder_taken_away_under_a_run_stops_it_with_the_batch_frozen(tmp_path: Path) -> None:
    topology, feeder = TridentTopology(), FeederBatchSpout("word string")
    topology.newStream("words", feeder).writeParquet(tmp_path / "out")
    options: dict[str, Any] = {"name": "t", "checkpointLocation": tmp_path / "checkpoint"}
    running = start_local(topology, **options)
    shutil.rmtree(tmp_path / "out")
    feeder.feed(["a"])
    with pytest.raises(OutputConflictError):
        running.processAllAvailable(timeout=20)
    running.stop()
    with start_local(topology, **options) as again:
        again.processAllAvailable(timeout=20)
    assert rows(tmp_path / "out") == [("a",)]


def test_a_reader_is_told_which_places_there_are(tmp_path: Path) -> None:
    says = "path='ftp://host/x': ftp: is not supported; a batch is published on a local disk, on an object store"
    with pytest.raises(TopologyError, match=says):
        publishedFiles("ftp://host/x")
    with pytest.raises(
        TopologyError, match="storage= is an option of object stores, but /.* is not in an object store"
    ):
        publishedFiles(tmp_path, storage={"region": "a"})


def test_what_it_needs_is_demanded_at_the_start(tmp_path: Path) -> None:
    topology = written(tmp_path)
    with pytest.raises(TopologyError, match=r"output 'words.writeParquet' \(.*out\) outlives this process"):
        start_local(topology)
    weak = TridentTopology()
    weak.newStream("s", DeclaredSpout(SpoutKind.NON_TRANSACTIONAL)).writeParquet(tmp_path / "out", name="out")
    with pytest.raises(GuaranteeError, match=r"output out \(s/1:writeParquet\) guarantees only: each emitted batch"):
        start_local(weak, requireExactlyOnce=True, checkpointLocation=tmp_path / "c")


def test_readers_beside_the_writer_see_the_first_batches_whole(tmp_path: Path) -> None:
    """Whenever one looks, it is the batches 1 to n, each of them complete."""
    topology, feeder = TridentTopology(), FeederBatchSpout("txidOf long, n long")
    topology.newStream("numbers", feeder).writeParquet(tmp_path / "out")
    seen = set()
    with start_local(topology, name="t", checkpointLocation=tmp_path / "checkpoint") as running:
        for batch in range(1, 40):
            feeder.feed([(batch, n) for n in range(5)])
        deadline = time.monotonic() + 60
        while (not seen or max(seen) < 39) and time.monotonic() < deadline:
            found = rows(tmp_path / "out")
            last = max((row[0] for row in found), default=0)
            assert found == [(batch, n) for batch in range(1, last + 1) for n in range(5)]
            seen.add(last)
        running.processAllAvailable(timeout=20)
    assert len(rows(tmp_path / "out")) == 195 and max(seen) == 39
