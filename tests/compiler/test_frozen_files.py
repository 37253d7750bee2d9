"""Large results by reference: written where they are made, and read back only if they are complete."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.compiler.functions import Longest, split
from tests.compiler.stage_runner import STATE, emission, rows, stream
from trident import Count, TridentTopology, expr
from trident.base.attempt import TransactionAttempt
from trident.base.errors import LogCorruptError
from trident.compiler.spark.engine import SparkEngine
from trident.compiler.spark.executor_reach import reachable
from trident.compiler.stages import cut
from trident.files.disk import DiskFiles
from trident.frozen.files import FrozenFolders, read_frozen, write_frozen
from trident.frozen.results import FrozenFile, FrozenFiles

SCHEMA = pa.schema([("word", pa.string()), ("count", pa.int64())])


def frozen(folder: Path) -> FrozenFiles:
    """Three batches in one file."""
    batches = [pa.record_batch([["a" * n, "b"], [n, None]], schema=SCHEMA) for n in range(3)]
    file = write_frozen(iter(batches), DiskFiles(folder), "frozen/x", "0", SCHEMA)
    assert file is not None
    return FrozenFiles("frozen/x", (file,), SCHEMA)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    found = frozen(tmp_path)
    (table,) = read_frozen(DiskFiles(tmp_path), found)
    assert table.to_pydict() == {"word": ["", "b", "a", "b", "aa", "b"], "count": [0, None, 1, None, 2, None]}
    (file,) = (tmp_path / "frozen" / "x").iterdir()
    assert (file.name, file.stat().st_size, found.files[0].rows) == (found.files[0].name, found.files[0].bytes, 6)


def test_nothing_writes_no_file(tmp_path: Path) -> None:
    empty = pa.record_batch([[], []], schema=SCHEMA)
    assert write_frozen(iter([empty]), DiskFiles(tmp_path), "x", "0", SCHEMA) is None
    assert list(tmp_path.iterdir()) == []


def test_two_writers_never_share_a_file(tmp_path: Path) -> None:
    """A cancelled task's Python goes on for seconds beside the task that replaces it."""
    assert frozen(tmp_path).files[0].name != frozen(tmp_path).files[0].name


@pytest.mark.parametrize("damage", ["a flipped bit", "a cut end", "a missing file"])
def test_a_damaged_file_is_refused(tmp_path: Path, damage: str) -> None:
    found = frozen(tmp_path)
    path = tmp_path / "frozen" / "x" / found.files[0].name
    content = bytearray(path.read_bytes())
    if damage == "a flipped bit":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif damage == "a cut end":
        path.write_bytes(content[:-8])
    else:
        path.unlink()
    expected = "is missing" if damage == "a missing file" else "is damaged: it has"
    with pytest.raises(LogCorruptError, match=expected):
        list(read_frozen(DiskFiles(tmp_path), found))


def test_only_listed_files_count(tmp_path: Path) -> None:
    found = frozen(tmp_path)
    frozen(tmp_path)  # another attempt's, in the same folder
    assert sum(table.num_rows for table in read_frozen(DiskFiles(tmp_path), found)) == 6


@pytest.mark.connect
@pytest.mark.spark
def test_executors_answer_whether_they_reach_the_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    assert reachable(spark, DiskFiles(tmp_path / "here"))
    assert list((tmp_path / "here").iterdir()) == [], "nothing stays behind"


@pytest.mark.connect
@pytest.mark.spark
def test_a_result_that_was_large_is_written_the_next_time(spark: SparkSession, tmp_path: Path) -> None:
    topology = TridentTopology()
    lines = stream(topology, "line string", ["the cow", "the moon"])
    words = lines.each("line", expr("explode(split(line, ' '))"), "word string")
    words.groupBy("word").persistentAggregate(STATE, Count(), "count", name="native")
    python = lines.each("line", split, "word string").groupBy("word")
    python.persistentAggregate(STATE, "word", Longest(), "longest", name="python")
    words.persistentAggregate(STATE, Count(), "n", name="one")
    (group,) = cut(topology).groups
    slot = SparkEngine(spark, FrozenFolders(DiskFiles(tmp_path), "uuid"), inlineBytes=20).slot(group)
    found = []
    for attempt in (TransactionAttempt(7, 0, 3), TransactionAttempt(8, 1, 3)):
        given = {group.spouts[0]: emission("line string", ("the cow",), ("the moon",))}
        found.append(slot.run(group.stages[0], given, attempt, tmp_path / "scratch").results)
    inline, large = found
    assert all(isinstance(result, pa.Table) for result in inline.values())
    assert {name for name, result in large.items() if isinstance(result, FrozenFiles)} == {"native", "python"}
    for name in ("native", "python"):
        files = large[name]
        assert isinstance(files, FrozenFiles) and files.folder == "frozen/uuid/s/3-8-1-1"
        assert all(isinstance(file, FrozenFile) for file in files.files)
        assert rows(pa.concat_tables(read_frozen(DiskFiles(tmp_path), files))) == rows(inline[name])
    assert rows(large["one"]) == rows(inline["one"]) == [(4,)]
    slot.close()
