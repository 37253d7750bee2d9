"""FileSpout(orderBy="name"): files in the order of their names, whatever copies did to their times."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spouts.files.test_file_spout import T0, drain, ranges, write
from tests.support.plans import logged, planned
from trident.errors import SpoutContractError, TopologyError
from trident.spouts import FileSpout, TransactionAttempt, Watch
from trident_spouts.files.read_files import Entry, ReadFiles
from trident_spouts.files.storage import ListedFile


def by_name(path: Path, **options: Any) -> FileSpout:
    return FileSpout(path, orderBy="name", maxFilesPerBatch=1, **options)


def test_files_come_by_name_whatever_their_times(tmp_path: Path) -> None:
    for name, at in [("2013-01", 9), ("2013-02", 3), ("2013-10", 1)]:
        write(tmp_path / name, f"{name}\n", at)
    assert drain(by_name(tmp_path)) == [["2013-01"], ["2013-02"], ["2013-10"]]
    assert drain(FileSpout(tmp_path, maxFilesPerBatch=1)) == [["2013-10"], ["2013-02"], ["2013-01"]]


@pytest.mark.parametrize("order", ["name", "time"])
def test_files_with_any_name_are_each_read_once(tmp_path: Path, order: Any) -> None:
    texts = ["new\nline", "back\\slash", "emoji😀", "nfc\u00e9", "nfce\u0301", "quote'\"", "star*?[x]", "a b", "50%41"]
    names = [*map(os.fsencode, texts), b"latin\xe9", b"#h", b"-rf", b"~h", b"A", b"a"]
    folder = tmp_path / "in"
    folder.mkdir()
    for number, name in enumerate(names):
        Path(os.fsdecode(os.path.join(os.fsencode(folder), name))).write_text(f"{number}\n", encoding="utf-8")
    spout, previous, read = FileSpout(folder, orderBy=order, maxFilesPerBatch=4), None, list[str]()
    for _ in range(2):  # over a restart too
        executor = spout.open()
        while (plan := executor.plan(TransactionAttempt(1, 0), previous, 0.0)) is not None:
            previous = json.loads(json.dumps(plan))
            read += executor.emit(TransactionAttempt(1, 0), previous).arrow().column("line").to_pylist()
    assert sorted(map(int, read)) == list(range(len(names)))


def test_a_file_that_comes_later_under_an_earlier_name_is_read_too(tmp_path: Path) -> None:
    write(tmp_path / "b", "b\n", 1)
    plans = planned(by_name(tmp_path))
    write(tmp_path / "a", "a\n", 2)
    assert drain(by_name(tmp_path), plans[-1]) == [["a"]]


def test_more_files_than_are_remembered_are_each_read_once(tmp_path: Path) -> None:
    names = [f"{at:02}" for at in range(12)]
    for at, name in enumerate(names):
        write(tmp_path / name, f"{name}\n", 100 - at)
    executor, previous, read = by_name(tmp_path, watch=Watch(rememberedFiles=3)).open(), None, []
    for txid in range(1, 8):
        previous = logged(executor.plan(TransactionAttempt(txid, 0), previous, T0))
        read += [name for name, *_ in ranges(previous)]
    assert ReadFiles.decode(previous["seen"]).cutoff == (0, "03")  # type: ignore[index, call-overload]
    assert drain(by_name(tmp_path, watch=Watch(rememberedFiles=3)), previous) == [
        [name] for name in names[7:]
    ]  # a restart
    assert read == names[:7]


def test_the_record_is_as_before_where_files_come_by_time() -> None:
    record = ReadFiles((1, "a"), {"b": Entry(5, 2)}, "/data")
    assert ReadFiles.decode(record.encode()) == record
    named = ReadFiles((0, "a"), {"b": Entry(5, 2)}, "/data", by_name=True)
    assert ReadFiles.decode(named.encode()) == named
    assert named.is_past(ListedFile(9, "a", 1)) and not named.is_past(ListedFile(0, "aa", 1))


def test_another_order_between_two_starts(tmp_path: Path) -> None:
    for name, at in [("a", 3), ("b", 2), ("c", 1)]:
        write(tmp_path / name, f"{name}\n", at)
    (first, *_) = planned(FileSpout(tmp_path, maxFilesPerBatch=1))
    assert drain(by_name(tmp_path), first) == [["a"], ["b"]]  # c was read: all that was read is known by name
    last = planned(FileSpout(tmp_path, maxFilesPerBatch=1, watch=Watch(rememberedFiles=1)))[-1]
    with pytest.raises(SpoutContractError, match=r"in the order of orderBy='time'.*Restore orderBy='time', or give"):
        by_name(tmp_path).open().plan(TransactionAttempt(4, 0), last, T0)


def test_the_fields_of_parquet_are_those_of_the_file_with_the_first_name(tmp_path: Path) -> None:
    for name, column, at in [("a.parquet", "n", 2), ("b.parquet", "m", 1)]:
        pq.write_table(pa.table({column: [1]}), tmp_path / name)
        write(tmp_path / name, (tmp_path / name).read_bytes(), at)
    assert FileSpout(tmp_path, format="parquet", orderBy="name").schema.names == ["n"]
    assert FileSpout(tmp_path, format="parquet").schema.names == ["m"]


def test_it_is_shown_and_checked(tmp_path: Path) -> None:
    assert repr(FileSpout("/data", orderBy="name")) == "FileSpout('/data', orderBy='name')"
    with pytest.raises(TopologyError, match="FileSpout: orderBy='date' is not one of 'time', 'name'"):
        FileSpout("/data", orderBy="date")  # type: ignore[arg-type]
