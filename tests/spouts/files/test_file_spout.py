"""FileSpout: exact plans, replays from the plan, files that appear, grow, change and vanish. No Spark."""

import os
import pickle
import re
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.plans import logged, planned
from trident.errors import (
    MalformedInputError,
    SourceUnreadableError,
    SpoutContractError,
    TopologyError,
    TypeDeclarationError,
)
from trident.spouts import FileSpout, Json, SpoutKind, Text, TransactionAttempt, Watch
from trident_spouts.executor import Metadata
from trident_spouts.files import executor as executor_module
from trident_spouts.files.storage import ListedFile

T0 = 1_700_000_000
"""A time, in seconds, that all files are older than."""


def write(path: Path, content: str | bytes, at: float = T0 - 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(path, ns=(int(at * 1e9), int(at * 1e9)))
    return path


def read(spout: FileSpout, metadata: Metadata, txid: int = 1, attempt: int = 0) -> list[Any]:
    table = spout.open().emit(TransactionAttempt(txid, attempt), metadata).arrow()
    return list(table.column(0).to_pylist())


def drain(spout: FileSpout, previous: Metadata = None) -> list[list[Any]]:
    return [read(spout, plan) for plan in planned(spout, previous=previous, limit=1000)]


def ranges(metadata: Any) -> list[tuple[str, int, int]]:
    return [(name, start, end) for name, _, _, start, end, *_ in metadata["files"]]


# --- plans --------------------------------------------------------------------------------------------------------


def test_files_come_by_time_then_name(tmp_path: Path) -> None:
    for name, at in [("b", 1), ("c", 1), ("a", 2)]:
        write(tmp_path / name, f"{name}\n", at)
    assert drain(FileSpout(tmp_path, maxFilesPerBatch=1)) == [["b"], ["c"], ["a"]]


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_compressed_file_is_told_by_name_and_never_taken_for_text(format: Any, tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "1\n", 1)
    write(tmp_path / "b.txt.XZ", b"\xfd7zXZ", 2)
    spout = FileSpout(tmp_path, format, schema="n string")
    with pytest.raises(MalformedInputError, match=r"b\.txt\.XZ .* compress it again, or select the other files with"):
        planned(spout, limit=10)
    assert ranges(planned(FileSpout(tmp_path / "*.txt", format, schema="n string"), limit=10)[0]) == [("a.txt", 0, 2)]


def test_a_place_without_any_file_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    executor = FileSpout(tmp_path / "*.txt").open()
    for _ in range(3):
        assert executor.plan(TransactionAttempt(1, 0), None, T0) is None
    assert [record.getMessage() for record in caplog.records] == [f"FileSpout: there is no file at {tmp_path}/*.txt"]


@pytest.mark.parametrize(("path", "hidden"), [("_t.txt", "_t.txt"), ("", ".h"), ("_*.txt", "_t.txt"), ("**", "_x/y")])
def test_a_place_where_all_files_are_hidden_is_told_as_that(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, hidden: str
) -> None:
    write(tmp_path / hidden, "1\n")
    assert FileSpout(tmp_path / path).open().plan(TransactionAttempt(1, 0), None, T0) is None
    [record] = caplog.records
    assert "that is not hidden: files and folders whose names begin with _ or ." in record.getMessage()
    assert f"{hidden} is such a file; rename it" in record.getMessage()


def test_several_files_share_a_batch_up_to_its_bytes(tmp_path: Path) -> None:
    for at, name in enumerate("abcd"):
        write(tmp_path / name, f"{name}{name}\n", at)
    assert drain(FileSpout(tmp_path, maxBytesPerBatch=6)) == [["aa", "bb"], ["cc", "dd"]]


def test_the_plan_names_every_file_with_size_time_and_bytes(tmp_path: Path) -> None:
    inode = write(tmp_path / "a.txt", "the\ncow\n", 7).stat().st_ino
    [plan] = planned(FileSpout(tmp_path))
    ends, all_ = zlib.crc32(b"the\ncow\n" * 2), zlib.crc32(b"the\ncow\n")
    assert plan["files"] == [["a.txt", 8, 7_000_000_000, 0, 8, ends, inode, "", all_, 0]]  # 0: it changed just now


def test_a_long_file_is_cut_at_line_starts(tmp_path: Path) -> None:
    write(tmp_path / "long", "aaaa\nbb\ncccc\nd\n")
    plans = planned(FileSpout(tmp_path, maxBytesPerBatch=6))
    assert [ranges(plan) for plan in plans] == [[("long", 0, 8)], [("long", 8, 15)]]
    assert drain(FileSpout(tmp_path, maxBytesPerBatch=6)) == [["aaaa", "bb"], ["cccc", "d"]]


def test_a_line_longer_than_a_batch_is_not_cut(tmp_path: Path) -> None:
    write(tmp_path / "long", "x" * 100 + "\ny\n")
    assert drain(FileSpout(tmp_path, maxBytesPerBatch=10)) == [["x" * 100], ["y"]]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    files=st.lists(st.lists(st.sampled_from(["", "a", "bc", "\u00e9", "d\r"]), max_size=12), min_size=1, max_size=4),
    last=st.booleans(),
    most=st.integers(1, 30),
    count=st.none() | st.integers(1, 3),
)
def test_whatever_the_limits_the_batches_hold_every_line_once_in_order(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[str]], last: bool, most: int, count: int | None
) -> None:
    folder = tmp_path_factory.mktemp("files")
    for at, content in enumerate(files):
        write(folder / f"{at}", "\n".join(content) + ("\n" if last and content else ""), at)
    expected = []
    for at in range(len(files)):
        parts = (folder / f"{at}").read_bytes().decode().split("\n")
        expected += [part.removesuffix("\r") for part in (parts[:-1] if parts[-1] == "" else parts)]
    found = drain(FileSpout(folder, maxBytesPerBatch=most, maxFilesPerBatch=count))
    assert [line for batch in found for line in batch] == expected


def test_hidden_and_empty_files_are_left_out(tmp_path: Path) -> None:
    for name in ("_SUCCESS", ".part.crc", "_temporary/x"):
        write(tmp_path / name, "no\n")
    write(tmp_path / "empty", "")
    write(tmp_path / "sub" / "below", "no\n")
    write(tmp_path / "yes", "yes\n")
    assert drain(FileSpout(tmp_path)) == [["yes"]]


def test_globs_go_into_folders_where_they_say_so(tmp_path: Path) -> None:
    write(tmp_path / "2024" / "a.txt", "a\n", 1)
    write(tmp_path / "2025" / "x" / "b.txt", "b\n", 2)
    write(tmp_path / "2025" / "c.csv", "c\n", 3)
    assert drain(FileSpout(tmp_path / "20*" / "*.txt")) == [["a"]]
    assert drain(FileSpout(tmp_path / "**" / "*.txt")) == [["a", "b"]]
    assert drain(FileSpout(tmp_path / "2025" / "c.csv")) == [["c"]]
    assert drain(FileSpout(f"file://{tmp_path}/2025/c.csv")) == [["c"]]


def test_a_name_with_glob_signs_is_taken_literally_where_it_exists(tmp_path: Path) -> None:
    write(tmp_path / "a[1].txt", "one\n")
    write(tmp_path / "a1.txt", "two\n")
    assert drain(FileSpout(tmp_path / "a[1].txt")) == [["one"]]


# --- replays ------------------------------------------------------------------------------------------------------


def test_a_replay_reads_the_same_in_another_process(tmp_path: Path) -> None:
    write(tmp_path / "a", "1\n2\n3\n4\n", 1)
    spout = FileSpout(tmp_path, maxBytesPerBatch=4)
    first, second = planned(spout)
    write(tmp_path / "b", "5\n", 0)
    again = pickle.loads(pickle.dumps(spout))  # noqa: S301
    assert again == spout
    assert read(again, first, attempt=1) == ["1", "2"]
    assert read(again, second, txid=2, attempt=4) == ["3", "4"]


def test_a_planned_file_that_vanished_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "1\n", 1)
    spout = FileSpout(tmp_path)
    [plan] = planned(spout)
    path.unlink()
    with pytest.raises(SourceUnreadableError) as caught:
        read(spout, plan, txid=7)
    assert str(caught.value) == (
        f"FileSpout: txid 7 was planned to read {path} (2 bytes, modified 1970-01-01T00:00:01.000000Z), which cannot "
        "be read now: No such file or directory; restore the old file, or restart the topology, which then plans "
        "the batch again"
    )


@pytest.mark.parametrize("content", ["2\n", "", "1"])
def test_a_planned_file_that_changed_is_named_with_both(tmp_path: Path, content: str) -> None:
    path = write(tmp_path / "a", "1\n", 1)
    spout = FileSpout(tmp_path)
    [plan] = planned(spout)
    write(path, content, 2)
    with pytest.raises(SpoutContractError) as caught:
        read(spout, plan, txid=7)
    assert str(caught.value) == (
        f"FileSpout: txid 7 was planned to read {path} (2 bytes, modified 1970-01-01T00:00:01.000000Z), and it has "
        f"changed since ({len(content)} bytes, modified 1970-01-01T00:00:02.000000Z); a replay must read the same: "
        "restore the old file, or restart the topology, which then plans the batch again"
    )


def test_a_planned_text_file_may_have_grown(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "1\n", 1)
    spout = FileSpout(tmp_path)
    [plan] = planned(spout)
    write(path, "1\n2\n", 2)
    assert read(spout, plan) == ["1"]


def test_the_folder_may_move_with_the_checkpoint(tmp_path: Path) -> None:
    write(tmp_path / "old" / "a", "1\n", 1)
    [plan] = planned(FileSpout(tmp_path / "old"))
    (tmp_path / "old").rename(tmp_path / "new")
    moved = FileSpout(tmp_path / "new")
    assert read(moved, plan) == ["1"]
    assert drain(moved, previous=plan) == []


# --- files that appear and grow -----------------------------------------------------------------------------------


def test_new_files_are_picked_up_and_none_is_read_twice(tmp_path: Path) -> None:
    spout = FileSpout(tmp_path)
    assert planned(spout) == []
    write(tmp_path / "b", "b\n", 5)
    [first] = planned(spout)
    write(tmp_path / "c", "c\n", 6)
    write(tmp_path / "late", "late\n", 1)
    [second] = planned(spout, previous=first)
    assert read(spout, second) == ["late", "c"]
    assert planned(spout, previous=second) == []


def test_one_executor_sees_files_that_appear_while_it_runs(tmp_path: Path) -> None:
    write(tmp_path / "a", "a\n", 5)
    executor = FileSpout(tmp_path).open()
    first = logged(executor.plan(TransactionAttempt(1, 0), None, T0))
    write(tmp_path / "b", "b\n", 6)
    second = executor.plan(TransactionAttempt(2, 0), first, T0)
    assert ranges(second) == [("b", 0, 2)]


def test_a_listing_with_unread_files_is_used_again(tmp_path: Path) -> None:
    for name in "abc":
        write(tmp_path / name, f"{name}\n", 5)
    executor = FileSpout(tmp_path, maxFilesPerBatch=1).open()
    first = logged(executor.plan(TransactionAttempt(1, 0), None, T0))
    write(tmp_path / "aa", "late\n", 5)
    assert ranges(executor.plan(TransactionAttempt(2, 0), first, T0)) == [("b", 0, 2)]


def test_a_file_that_is_gone_since_it_was_listed_is_not_planned(tmp_path: Path) -> None:
    for name in "abcd":
        write(tmp_path / name, f"{name}\n", 5)
    executor = FileSpout(tmp_path, maxFilesPerBatch=1).open()
    first = logged(executor.plan(TransactionAttempt(1, 0), None, T0))
    (tmp_path / "b").unlink()
    (tmp_path / "c").rename(tmp_path / "x")
    write(tmp_path / "new", "c2\n", 5).rename(tmp_path / "d")
    second = logged(executor.plan(TransactionAttempt(2, 0), first, T0))
    assert ranges(second) == [("d", 0, 3)], "another file by now, in its place and with its size"
    assert read(FileSpout(tmp_path), second) == ["c2"]
    assert ranges(executor.plan(TransactionAttempt(3, 0), second, T0)) == [("x", 0, 2)]


def test_a_file_that_is_touched_since_it_was_listed_is_planned_as_it_is(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / name, f"{name}\n", 5)
    executor = FileSpout(tmp_path, maxFilesPerBatch=1).open()
    first = logged(executor.plan(TransactionAttempt(1, 0), None, T0))
    write(tmp_path / "b", "b\nc\n", 9)
    second = logged(executor.plan(TransactionAttempt(2, 0), first, T0))
    assert read(FileSpout(tmp_path), second) == ["b", "c"]


def test_files_that_go_whenever_they_are_listed_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ghost = ListedFile(5, "ghost", 9, 1, 1)
    monkeypatch.setattr(executor_module, "list_files", lambda *_: [ghost])
    with pytest.raises(SourceUnreadableError, match=f"the files at {tmp_path} change faster than they can be"):
        FileSpout(tmp_path).open().plan(TransactionAttempt(1, 0), None, T0)


def test_a_file_that_grows_by_whole_lines_is_read_on(tmp_path: Path) -> None:
    path = write(tmp_path / "log", "1\n2\n", 1)
    spout = FileSpout(tmp_path)
    [first] = planned(spout)
    write(path, "1\n2\n3\n", 2)
    [second] = planned(spout, previous=first)
    assert ranges(second) == [("log", 4, 6)]
    assert read(spout, second) == ["3"]


@pytest.mark.parametrize("age", [5, 100], ids=["young", "complete"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_end_of_a_line_that_was_read_without_one_is_no_line(tmp_path: Path, age: float, end: str) -> None:
    path = write(tmp_path / "log", "1\n2", 1)
    [first] = planned(FileSpout(tmp_path))
    assert read(FileSpout(tmp_path), first) == ["1", "2"]
    executor = FileSpout(tmp_path, watch=Watch(completeAfterSecs=10)).open()
    write(path, f"1\n2{end}", T0)
    assert executor.plan(TransactionAttempt(2, 0), first, T0 + age) is None
    write(path, f"1\n2{end}3\n", T0)
    executor = FileSpout(tmp_path, watch=Watch(completeAfterSecs=10)).open()
    second = logged(executor.plan(TransactionAttempt(2, 0), first, T0 + age))
    assert read(FileSpout(tmp_path), second, 2) == ["3"]


def test_the_two_signs_of_a_lines_end_may_come_one_by_one(tmp_path: Path) -> None:
    path, other = write(tmp_path / "log", "1", 1), tmp_path / "other"
    previous, lines = None, []
    for at, content in enumerate(["1", "1\r", "1\r\n", "1\r\n2\n"], 2):
        write(path, content, at)
        write(other, "".join(f"o{each}\n" for each in range(at)), at)  # has the position move
        for plan in planned(FileSpout(tmp_path), previous=previous):
            lines += [line for line in read(FileSpout(tmp_path), plan) if not line.startswith("o")]
            previous = plan
    assert lines == ["1", "2"]


@pytest.mark.parametrize("seconds", [0, 10, 1e6], ids=["at once", "complete", "young"])
@pytest.mark.parametrize("after", ["3\nnext\nlast\n", "3\r\nnext\nlast\n", "\rx\nnext\nlast\n"])
def test_a_line_that_goes_on_after_it_was_read_is_refused_with_a_way_out(
    tmp_path: Path, seconds: float, after: str
) -> None:
    path = write(tmp_path / "some logs" / "log", "1\n2", 1)
    [first] = planned(FileSpout(path.parent))
    assert read(FileSpout(path.parent), first) == ["1", "2"]
    write(path, f"1\n2{after}", T0)
    spout = FileSpout(path.parent, watch=Watch(completeAfterSecs=seconds))
    with pytest.raises(SpoutContractError, match="log grew after byte 3, in the middle of a line: its") as caught:
        spout.open().plan(TransactionAttempt(2, 0), first, T0 + 100)
    way_out = re.search(r"\{ head .*?; \} > .*? && mv [^.]*", str(caught.value))
    assert way_out is not None
    subprocess.run(["/bin/sh", "-ec", way_out[0]], check=True, timeout=30)
    os.utime(path, (T0, T0))
    second = logged(spout.open().plan(TransactionAttempt(2, 0), first, T0 + 100))
    assert read(spout, second, 2) == ["next", "last"]


def test_a_file_that_grows_by_half_a_line_is_not_forgotten(tmp_path: Path) -> None:
    log = write(tmp_path / "log", "1\n", T0 - 50)
    executor = FileSpout(tmp_path, watch=Watch(completeAfterSecs=40, rememberedFiles=1)).open()
    plans = [logged(executor.plan(TransactionAttempt(1, 0), None, T0))]
    write(log, "1\n2", T0)
    for at in (1, 2, 3):
        write(tmp_path / f"{at}", f"{at}\n", T0 + at)
        executor = FileSpout(tmp_path, watch=Watch(completeAfterSecs=40, rememberedFiles=1)).open()
        plans.append(logged(executor.plan(TransactionAttempt(1 + at, 0), plans[-1], T0 + 4)))
    assert [ranges(plan) for plan in plans] == [[("log", 0, 2)], [("1", 0, 2)], [("2", 0, 2)], [("3", 0, 2)]]
    write(log, "1\n2\n", T0 + 9)
    [last] = planned(FileSpout(tmp_path), previous=plans[-1])
    assert ranges(last) == [("log", 2, 4)]


def test_a_young_file_is_read_to_its_last_whole_line_until_it_is_complete(tmp_path: Path) -> None:
    path = write(tmp_path / "log", "1\n2", T0)
    executor = FileSpout(tmp_path, watch=Watch(completeAfterSecs=10)).open()
    first = logged(executor.plan(TransactionAttempt(1, 0), None, T0 + 5))
    assert ranges(first) == [("log", 0, 2)]
    assert executor.plan(TransactionAttempt(2, 0), first, T0 + 5) is None
    write(path, "1\n23\n4", T0 + 8)
    executor = FileSpout(tmp_path, watch=Watch(completeAfterSecs=10)).open()
    second = logged(executor.plan(TransactionAttempt(2, 0), first, T0 + 9))
    assert ranges(second) == [("log", 2, 5)]
    third = logged(executor.plan(TransactionAttempt(3, 0), second, T0 + 18))
    assert ranges(third) == [("log", 5, 6)]
    assert executor.plan(TransactionAttempt(4, 0), third, T0 + 100) is None


def test_a_young_parquet_file_waits(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    os.utime(tmp_path / "a.parquet", (T0, T0))
    executor = FileSpout(tmp_path, "parquet", watch=Watch(completeAfterSecs=10)).open()
    assert executor.plan(TransactionAttempt(1, 0), None, T0 + 9) is None
    assert executor.plan(TransactionAttempt(1, 0), None, T0 + 10) is not None


def test_a_changed_file_that_was_read_is_an_error_and_no_second_reading(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "1\n", 1)
    spout = FileSpout(tmp_path)
    [first] = planned(spout)
    write(path, "2\n", 2)
    with pytest.raises(SpoutContractError, match="a was read to byte 2 .* a file must not change after it was read"):
        planned(spout, previous=first)
    path.rename(tmp_path / "a2")
    assert drain(spout, previous=first) == [["2"]]


# --- formats ------------------------------------------------------------------------------------------------------


def test_json_gives_its_fields(tmp_path: Path) -> None:
    write(tmp_path / "a.json", '{"user": 1, "page": "x"}\n\n{"user": 2}')
    spout = FileSpout(tmp_path, format="json", schema="user long, page string", maxBytesPerBatch=10)
    tables = [spout.open().emit(TransactionAttempt(1, 0), plan).arrow() for plan in planned(spout)]
    assert [table.to_pylist() for table in tables] == [[{"user": 1, "page": "x"}], [{"user": 2, "page": None}]]


def test_a_malformed_json_line_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", '{"n": 1}\n{"n": 2}\nnonsense\n')
    spout = FileSpout(tmp_path, format="json", schema="n long", maxBytesPerBatch=9)
    plans = planned(spout)
    with pytest.raises(
        MalformedInputError, match=f"^{path}:3: expected a JSON object: Expecting value at column 1; correct"
    ):
        read(spout, plans[-1])
    kept = FileSpout(tmp_path, format=Json(malformed="keep"), schema="n long")
    assert kept.schema.names == ["n", "_corrupt", "_corrupt_reason"]
    [plan] = planned(kept)
    table = kept.open().emit(TransactionAttempt(1, 0), plan).arrow()
    assert table.column("_corrupt").to_pylist() == [None, None, "nonsense"]
    said = "expected a JSON object: Expecting value at column 1"
    assert table.column("_corrupt_reason").to_pylist() == [None, None, said]


def test_invalid_utf8_is_named_with_file_and_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "a", b"the\ncow\n\xffmoon\n")
    spout = FileSpout(tmp_path, maxBytesPerBatch=4)
    with pytest.raises(MalformedInputError, match=f"^{path}: invalid UTF-8 at byte 8 .ff: invalid start byte"):
        read(spout, planned(spout)[-1])
    assert drain(FileSpout(tmp_path, Text(encodingErrors="replace"))) == [["the", "cow", "\ufffdmoon"]]


def test_parquet_has_the_fields_of_its_first_file_and_knows_its_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"word": ["a", "b"], "n": pa.array([1, 2], pa.int32())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": pa.array([3], pa.int32()), "word": ["c"]}), tmp_path / "b.parquet")
    spout = FileSpout(tmp_path / "*.parquet", format="parquet")
    assert spout.schema.simpleString() == "struct<word:string,n:int>"
    [plan] = planned(spout)
    emission = spout.open().emit(TransactionAttempt(1, 0), plan)
    assert emission.rows == 3
    assert emission.arrow().to_pylist() == [{"word": w, "n": n} for w, n in [("a", 1), ("b", 2), ("c", 3)]]


def test_parquet_files_are_whole_and_a_batch_holds_one_at_least(tmp_path: Path) -> None:
    for name in "abc":
        pq.write_table(pa.table({"n": [1]}), tmp_path / f"{name}.parquet")
    assert len(planned(FileSpout(tmp_path, "parquet", maxBytesPerBatch=10))) == 3
    assert len(planned(FileSpout(tmp_path, "parquet", maxFilesPerBatch=2))) == 2


def test_a_parquet_file_of_other_types_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": ["1"]}), tmp_path / "a.parquet")
    spout = FileSpout(tmp_path, "parquet", schema="n long, more string")
    with pytest.raises(SpoutContractError, match="a.parquet has 'n' as string, expected bigint"):
        read(spout, planned(spout)[0])


def test_what_is_no_parquet_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", "no parquet at all\n")
    spout = FileSpout(tmp_path, "parquet", schema="n long")
    with pytest.raises(SourceUnreadableError, match="a.parquet is not a readable Parquet file: "):
        read(spout, planned(spout)[0])


# --- what is refused ----------------------------------------------------------------------------------------------


def test_a_missing_path_is_named_when_the_spout_opens(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadableError, match=f"there is no file or folder {tmp_path}/nowhere"):
        FileSpout(tmp_path / "nowhere").open()


def test_a_folder_that_went_away_is_named(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    executor = FileSpout(tmp_path / "in").open()
    (tmp_path / "in").rmdir()
    with pytest.raises(SourceUnreadableError, match=f"cannot list {tmp_path}/in: No such file or directory"):
        executor.plan(TransactionAttempt(1, 0), None, T0)


def test_a_folder_of_a_glob_may_be_made_later(tmp_path: Path) -> None:
    """Every look finds no file, not the first alone; a folder of which files were read is missed."""
    executor = FileSpout(tmp_path / "in" / "*.txt").open()
    assert [executor.plan(TransactionAttempt(1, 0), None, T0) for _ in range(3)] == [None] * 3
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("the cow\n")
    read = executor.plan(TransactionAttempt(1, 0), None, T0)
    assert read is not None
    (tmp_path / "in").rename(tmp_path / "away")
    with pytest.raises(
        SourceUnreadableError, match=f"the folder {tmp_path}/in, which was read before, no longer exists"
    ):
        executor.plan(TransactionAttempt(2, 0), logged(read), T0)


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        ({"format": "xml"}, TopologyError, "format='xml' is not one of 'text', 'json', 'csv', 'parquet'"),
        ({"format": "json"}, TypeDeclarationError, 'format="json" needs the fields: schema='),
        ({"schema": "a string, b string"}, TypeDeclarationError, 'format="text" emits one string per line'),
        ({"maxBytesPerBatch": 0}, TopologyError, "maxBytesPerBatch=0: expected a whole number of at least 1"),
        ({"maxFilesPerBatch": -1}, TopologyError, "maxFilesPerBatch=-1: expected a whole number of at least 1"),
        (
            {"path": ["a.json", "b.json"]},
            TopologyError,
            "FileSpout: path=['a.json', 'b.json'] (list): expected one path, a str or a pathlib.Path; for several "
            "files give a glob, such as 'in/*.json', or a Manifest('files.txt')",
        ),
        ({"path": None}, TopologyError, "path=None (NoneType): expected one path, a str or a pathlib.Path"),
        ({"delimiter": ";"}, TopologyError, "FileSpout: there is no option 'delimiter': it is an option of the format"),
        ({"maxFilesPerTrigger": 9}, TypeError, "watch, storage; did you mean 'maxFilesPerBatch'?"),
        ({"maxFilePerBatch": 3}, TopologyError, "did you mean 'maxFilesPerBatch'?"),
        (
            {"path": "ftp://host/x"},
            TopologyError,
            "expected a path, or a URL (s3://, s3a://, gs://, az://, abfs://, abfss://, hdfs://, viewfs://) with its "
            "bucket or host, got 'ftp://host/x'; mount or copy other files",
        ),
    ],
)
def test_wrong_arguments_are_refused_where_they_stand(arguments: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as caught:
        FileSpout(**{"path": "/data", **arguments})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Text(encodingErrors="ignore"), "Text: encodingErrors='ignore' is not one of 'strict', 'replace'"),  # type: ignore[arg-type]
        (lambda: Json(malformed="skip"), "Json: malformed='skip' is not one of 'fail', 'keep'"),  # type: ignore[arg-type]
    ],
)
def test_wrong_options_of_a_format_are_refused(make: Any, said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        make()


def test_parquet_fields_of_an_empty_folder_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(TypeDeclarationError, match="the fields come from a Parquet file, .* yet; declare the fields"):
        _ = FileSpout(tmp_path, "parquet").schema


def test_metadata_of_another_spout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpoutContractError, match="this spout cannot replay the batch"):
        FileSpout(tmp_path).open().plan(TransactionAttempt(2, 0), 5, T0)


def test_a_relative_path_stays_where_it_was_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in" / "a", "1\n")
    monkeypatch.chdir(tmp_path)
    spout = FileSpout("in")
    monkeypatch.chdir("/")
    assert drain(spout) == [["1"]]


def test_it_is_transactional_and_says_what_is_not_usual() -> None:
    spout = FileSpout("/data", format="json", schema="n long", maxBytesPerBatch=5)
    assert spout.kind is SpoutKind.TRANSACTIONAL
    assert repr(spout) == "FileSpout('/data', 'json', 'n bigint', maxBytesPerBatch=5)"
