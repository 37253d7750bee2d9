"""Objects are read as the same files on a disk are, on the driver and by Spark's workers; Spark needs no jar for it."""

import gzip
import io
import pickle
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spouts.files.test_compressed import PACK
from tests.spouts.objects.conftest import Objects
from tests.spouts.objects.test_contract import parquet_of
from trident import Count, TridentTopology
from trident.compiler.spark.engine import SparkEngine
from trident.errors import MalformedInputError, SourceUnreadableError, SpoutContractError, TypeDeclarationError
from trident.run.start import start_on
from trident.spouts import FileSpout, TransactionAttempt
from trident.state import MemoryMapState
from trident.testing import start_local
from trident.testing.contracts.spout_calls import check_workers, emissions
from trident_spouts.files import line_reader
from trident_spouts.files.line_reader import LinesEmission
from trident_spouts.files.remote_file import RangeReader

ATTEMPT = TransactionAttempt(1, 0)
WORDS = [f"word{at % 97}" for at in range(5_000)]


def table_of(spout: FileSpout) -> pa.Table:
    """Return the tuples of all batches."""
    executor, plan, tables = spout.open(), None, list[pa.Table]()
    while (plan := executor.plan(ATTEMPT, plan, 0.0)) is not None:
        tables.append(executor.emit(ATTEMPT, plan).arrow())
    return pa.concat_tables(tables)


FILES = {
    "text": {"a.txt": b"one\r\ntwo", "b.txt": b"\xef\xbb\xbfthree\n\nfour\n", "_unfinished.txt": b"no\n"},
    "json": {"a.json": b'{"w": "one", "n": 1}\n', "b.json": b'\n{"n": 2, "more": []}\n{"w": null}'},
    "csv": {"a.csv": b'w,n\n"one, two",1\n', "b.csv": b"n,x,w\n2,,three\n"},
}


@pytest.mark.parametrize("order", ["time", "name"])
@pytest.mark.parametrize("glob", ["", "*", "**/*"])
@pytest.mark.parametrize("format", [*FILES, "parquet"])
def test_the_markers_of_folders_hold_no_tuples(objects: Objects, format: Any, glob: str, order: Any) -> None:
    """Consoles and Hadoop make objects without a byte for folders; obstore names them without their slash."""
    files = {"a.parquet": parquet_of(pa.table({"w": ["one"], "n": [1]}))} if format == "parquet" else FILES[format]
    options: Any = {"format": format, "orderBy": order}
    options |= {} if format == "text" else {"schema": "w string, n long"}
    for name, data in files.items():
        objects.put(name, data)
    alone = table_of(objects.spout(glob, **options)).num_rows
    for key in ("", "sub/", "sub_$folder$"):
        objects.put(key, b"")
    assert table_of(objects.spout(glob, **options)).num_rows == alone > 0


@pytest.mark.parametrize("limit", [1, 1 << 20])
@pytest.mark.parametrize("format", FILES)
@pytest.mark.parametrize("suffix", ["", *PACK])
def test_lines_come_as_from_a_disk(objects: Objects, tmp_path: Path, format: Any, suffix: str, limit: int) -> None:
    for name, data in FILES[format].items():
        objects.put(name + suffix, PACK.get(suffix, bytes)(data))
        (tmp_path / (name + suffix)).write_bytes(PACK.get(suffix, bytes)(data))
    options: Any = {"format": format, "orderBy": "name", "maxBytesPerBatch": limit}
    options |= {} if format == "text" else {"schema": "w string, n long"}
    assert table_of(objects.spout(**options)) == table_of(FileSpout(tmp_path, **options))


def test_parquet_comes_as_from_a_disk(objects: Objects, tmp_path: Path) -> None:
    for at in range(20):
        table = pa.table({"N": range(at * 1_000, at * 1_000 + 1_000), "w": WORDS[:1_000], "left out": [at] * 1_000})
        objects.put(f"{at:02}.parquet", parquet_of(table, row_group_size=300))
        pq.write_table(table, tmp_path / f"{at:02}.parquet", row_group_size=300)
    options: Any = {"format": "parquet", "orderBy": "name", "schema": "w string, n long, missing double"}
    assert table_of(objects.spout(**options)) == table_of(FileSpout(tmp_path, **options))
    assert objects.spout("*.parquet", "parquet").schema == FileSpout(tmp_path, "parquet").schema


@pytest.mark.parametrize("name", ["a b.txt", "a%20b.txt", "ü*#?=&+.txt", "x/y=1/deep.txt", "[1].txt"])
def test_any_name_is_read_by_itself_and_by_a_pattern(objects: Objects, name: str) -> None:
    objects.put(name, "line\n")
    pattern = name.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")
    for spout in (objects.spout(pattern), objects.spout("**"), objects.spout("**/*.txt")):
        assert table_of(spout).column(0).to_pylist() == ["line"]


def test_a_path_names_an_object_a_prefix_or_a_pattern_and_no_more(objects: Objects) -> None:
    for name in ("eve", "day/a.txt", "day/sub/b.txt", "day2/c.txt", "days", ".hidden", "day/_part"):
        objects.put(name, f"{name}\n")

    def read(path: str) -> list[str]:
        return sorted(table_of(objects.spout(path)).column(0).to_pylist())

    assert read("eve") == ["eve"]
    assert read("day") == read("day/") == ["day/a.txt"]
    assert read("day*") == ["days"]
    assert read("day*/*") == ["day/a.txt", "day2/c.txt"]
    assert read("day/**") == ["day/a.txt", "day/sub/b.txt"]
    assert read("d?y[0-9]/*.txt") == ["day2/c.txt"]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_an_error_names_the_object_and_the_line(objects: Objects, suffix: str) -> None:
    # More than a chunk, so that the lines before it are counted.
    lines = (b'{"n": 1' + b" " * 92 + b"}\n") * 60_000 + b'{"n": "x"}\n'
    objects.put(f"a.json{suffix}", gzip.compress(lines, 1) if suffix else lines)
    with pytest.raises(MalformedInputError, match=rf"{objects.url}/a.json{suffix}:60001: field 'n': expected bigint"):
        table_of(objects.spout(f"*.json{suffix}", "json", "n long"))


def test_a_damaged_object_is_malformed_and_one_that_is_no_parquet_unreadable(objects: Objects) -> None:
    objects.put("a.txt.gz", gzip.compress(b"line\n" * 1_000)[:-20])
    with pytest.raises(MalformedInputError, match="a.txt.gz: cannot decompress the file: Compressed file ended"):
        table_of(objects.spout("*.gz"))
    objects.put("a.parquet", "no parquet")
    with pytest.raises(SourceUnreadableError, match=f"{objects.url}/a.parquet is not a readable Parquet file"):
        table_of(objects.spout("*.parquet", "parquet", "n long"))
    with pytest.raises(TypeDeclarationError, match=rf"none at {objects.url}/x\* yet"):
        _ = objects.spout("x*", "parquet").schema


def test_objects_are_read_in_the_order_of_their_times_or_names(objects: Objects) -> None:
    objects.put("b", "first\n")
    time.sleep(1.1)  # S3 tells times in whole seconds
    objects.put("a", "second\n")
    assert table_of(objects.spout(orderBy="time")).column(0).to_pylist() == ["first", "second"]
    assert table_of(objects.spout(orderBy="name")).column(0).to_pylist() == ["second", "first"]


def test_long_reads_are_few_requests() -> None:
    """Each read in order asks for twice as much as the one before, up to 8 MB; a jump asks for 64 KB."""
    data, asked = bytes(range(256)) * (160 << 10), list[tuple[int, int]]()

    def fetch(start: int, end: int) -> memoryview:
        asked.append((start, end))
        return memoryview(data)[start:end]

    file = io.BufferedReader(RangeReader(len(data), fetch), 64 << 10)
    assert b"".join(iter(lambda: file.read(100_000), b"")) == data
    assert len(asked) <= 11 and max(end - start for start, end in asked) <= 8 << 20
    asked.clear()
    file.seek(-10, io.SEEK_END)
    assert file.read() == data[-10:] and len(asked) <= 1
    file.seek(3 << 20)
    asked.clear()
    assert file.read(3_000_000) == data[3 << 20 :][:3_000_000] and len(asked) == 1


# --- engines ------------------------------------------------------------------------------------------------------


def counting(spout: FileSpout, native: bool) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", spout)
    if not native:
        words = words.map(lambda word: word, "word string")
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def put_words(objects: Objects, format: str) -> FileSpout:
    for at in range(4):
        part = WORDS[at::4]
        if format == "parquet":
            objects.put(f"{at}", parquet_of(pa.table({"word": part}), row_group_size=500))
        else:
            data = "".join(f'{{"word": "{word}"}}\n' for word in part).encode()
            objects.put(f"{at}.gz", gzip.compress(data)) if at % 2 else objects.put(f"{at}", data)
    return objects.spout(format=format, schema="word string", maxFilesPerBatch=2)


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_objects_are_counted_without_spark(objects: Objects, format: str) -> None:
    with start_local(counting(put_words(objects, format), native=True)) as running:
        running.processAllAvailable(timeout=60)
        assert Counter(dict(running.state("counts").items())) == Counter(WORDS)


@pytest.mark.spark
@pytest.mark.parametrize("native", [True, False], ids=["Spark operates", "Python operates"])
@pytest.mark.parametrize("format", ["json", "parquet"])
def test_workers_read_objects(
    spark: SparkSession, objects: Objects, monkeypatch: pytest.MonkeyPatch, format: str, native: bool
) -> None:
    monkeypatch.setattr(line_reader, "MOST_BYTES_IN_PLAN", -1)
    monkeypatch.setattr(line_reader, "on_this_machine", lambda session: False)  # the workers read, however little it is
    if format == "json":
        monkeypatch.setattr(LinesEmission, "arrow", lambda self: pytest.fail("the driver reads"))
    topology = counting(put_words(objects, format), native)
    with start_on(lambda settings: SparkEngine(spark, settings.files), topology) as running:
        running.processAllAvailable(timeout=120)
        assert Counter(dict(running.state("counts").items())) == Counter(WORDS)


@pytest.mark.spark
@pytest.mark.parametrize("format", ["json", "parquet"])
def test_workers_read_and_count_what_the_driver_reads(
    spark: SparkSession, objects: Objects, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, format: str
) -> None:
    monkeypatch.setattr(line_reader, "MOST_BYTES_IN_PLAN", -1)
    monkeypatch.setattr(line_reader, "on_this_machine", lambda session: False)
    for txid, _, emission in emissions(put_words(objects, format).open()):
        check_workers(spark, emission, f"batch {txid}", tmp_path)


@pytest.mark.spark
@pytest.mark.parametrize("format", ["json", "parquet"])
def test_a_worker_refuses_an_object_that_was_replaced(
    spark: SparkSession, objects: Objects, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    monkeypatch.setattr(line_reader, "MOST_BYTES_IN_PLAN", -1)
    monkeypatch.setattr(line_reader, "on_this_machine", lambda session: False)
    executor = put_words(objects, format).open()
    emission = executor.emit(ATTEMPT, executor.plan(ATTEMPT, None, 0.0))
    worker: Any = emission.reader(spark, ["word"])
    for name in ("0", "1"):
        objects.put(name, b"other")
    with pytest.raises(SpoutContractError, match="has since been replaced"):
        list(pickle.loads(pickle.dumps(worker.read))(iter([pa.record_batch({"id": [0]})])))  # noqa: S301
