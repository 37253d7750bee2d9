"""Identity of files: a read file is recognized under another name and on another disk, and no other file is.

The tests run whole topologies, with a restart between two listings.
"""

import os
import shutil
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.plans import logged, planned
from trident import Count, TridentTopology
from trident.errors import BatchFailedError, SpoutContractError
from trident.spouts import FileSpout, TransactionAttempt, Watch
from trident.state import MemoryMapState
from trident.testing.local import start_local
from trident_spouts.files import executor, local_storage
from trident_spouts.files.file_births import birth_of
from trident_spouts.files.read_files import Entry, ReadFiles


def lines(word: str, count: int) -> str:
    """Lines of equal length, each another one."""
    return "".join(f"{word}{at:04}\n" for at in range(count))


class Reader:
    """Counts the lines of a place, one run after the other over one checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint

    def __call__(self, path: Path | str, **options: Any) -> Counter[str]:
        """How often each line was counted by now."""
        topology = TridentTopology()
        stream = topology.newStream("lines", FileSpout(path, **options))
        stream.groupBy("line").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
        with start_local(topology, name="t", checkpointLocation=str(self.checkpoint)) as running:
            running.processAllAvailable(timeout=60)
            rows = running.state("counts").toPandas().to_dict("records")
        return Counter({row["line"]: row["count"] for row in rows})

    def refused(self, path: Path | str, match: str) -> None:
        """Check that the next run stops with this error and counts nothing."""
        with pytest.raises(BatchFailedError, match=match) as caught:
            self(path)
        assert isinstance(caught.value.__cause__, SpoutContractError)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path / "checkpoint")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def once(*texts: str) -> Counter[str]:
    return Counter(line for text in texts for line in text.splitlines())


# --- another content under a name that was read -------------------------------------------------------------------


def replaced(path: Path, text: str) -> None:
    path.with_name("_new").write_text(text)
    path.with_name("_new").replace(path)


def rewritten(path: Path, text: str) -> None:
    path.write_text(text)


def pointed_elsewhere(path: Path, text: str) -> None:
    path.with_name("_other").write_text(text)
    path.unlink()
    path.symlink_to(path.with_name("_other"))


@pytest.mark.parametrize("change", [replaced, rewritten, pointed_elsewhere])
@pytest.mark.parametrize("count", [150, 100, 50])
def test_another_content_is_never_half_read(
    reader: Reader, folder: Path, change: Callable[[Path, str], None], count: int
) -> None:
    (folder / "a.log").write_text(lines("old", 100))
    assert reader(folder) == once(lines("old", 100))
    change(folder / "a.log", lines("new", count))
    os.utime(folder / "a.log", (2_000_000_000, 2_000_000_000))
    reader.refused(folder, "a.log was read to byte 800 .* is now another file, or was rewritten")
    (folder / "a.log").rename(folder / "b.log")
    assert reader(folder) == once(lines("old", 100), lines("new", count)), (
        "under another name it is read from its start"
    )


@pytest.mark.parametrize("keep_time", [False, True], ids=["with-a-new-time", "with-its-time"])
@pytest.mark.parametrize("same_inode", [False, True], ids=["another-inode", "in-place"])
@pytest.mark.parametrize("whole", [True, False], ids=["as-long", "grown"])
def test_a_file_that_is_written_anew_in_its_middle_is_another_file(
    reader: Reader, folder: Path, keep_time: bool, same_inode: bool, whole: bool
) -> None:
    path, text = folder / "export.csv", lines("row", 2_000)
    path.write_text(text)
    reader(folder)
    status, new = path.stat(), text[:7_200] + "odd0000\n" + text[7_208:] + ("" if whole else "more\n")
    rewritten(path, new) if same_inode else replaced(path, new)
    if keep_time:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    reader.refused(folder, "export.csv was read to byte 14000|export.csv was read to byte 16000")


def test_a_file_that_is_written_anew_while_a_batch_of_it_waits_is_another_file(folder: Path) -> None:
    text = lines("row", 2_000)
    (folder / "a").write_text(text)
    spout = FileSpout(folder, maxBytesPerBatch=8_000)
    first, second = planned(spout)
    rewritten(folder / "a", text[:2_400] + "odd0000\n" + text[2_408:])
    with pytest.raises(SpoutContractError, match="it has changed since"):
        spout.open().emit(TransactionAttempt(1, 1), first)
    assert spout.open().emit(TransactionAttempt(2, 1), second).arrow().num_rows == 1_000, "its bytes are as planned"
    with pytest.raises(SpoutContractError, match="is now another file, or was rewritten"):
        planned(spout, previous=first)


def test_a_folder_that_was_read_is_not_taken_for_another_of_equal_names(reader: Reader, tmp_path: Path) -> None:
    for year, count in (("2024", 100), ("2025", 150)):
        for name in "ab":
            (tmp_path / year).mkdir(exist_ok=True)
            (tmp_path / year / name).write_text(lines(year + name, count))
            os.utime(tmp_path / year / name, (5, 5))
    assert reader(tmp_path / "2024").total() == 200
    reader.refused(tmp_path / "2025", "this stream has read .*/2024; .*/2025 is another folder")


def test_equal_sizes_and_times_do_not_make_another_folder_the_same(reader: Reader, tmp_path: Path) -> None:
    for year in ("2024", "2025"):
        (tmp_path / year).mkdir()
        for name, content in (("a", year), ("b", "both")):
            (tmp_path / year / name).write_text(lines(content, 100))
            os.utime(tmp_path / year / name, (5, 5))
    reader(tmp_path / "2024")
    reader.refused(tmp_path / "2025", "a was read to byte 900 .* is now another file,")
    (tmp_path / "2025" / "b").unlink()
    reader.refused(tmp_path / "2025", "this stream has read .*/2024; .*/2025 is another folder")


def test_another_folder_is_told_with_the_way_out(reader: Reader, tmp_path: Path) -> None:
    for year in ("2024", "2025"):
        (tmp_path / year).mkdir()
        (tmp_path / year / f"{year}.log").write_text(lines(year, 3))
    (tmp_path / "current").symlink_to(tmp_path / "2024")
    reader(tmp_path / "current")
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to(tmp_path / "2025")
    reader.refused(
        tmp_path / "current", "this stream has read .*/2024; .*/2025 is another .*: it has none of the files"
    )


def test_a_path_may_come_to_name_more_folders_or_fewer(reader: Reader, folder: Path) -> None:
    for at, name in enumerate(["x/a", "x/b", "y/a"]):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(lines(f"{at}", 10))
    expected = once(lines("0", 10), lines("1", 10))
    assert reader(folder / "x") == expected
    expected += once(lines("2", 10))
    assert reader(folder / "*" / "*") == expected
    for name in ("x/a", "y/a"):
        with (folder / name).open("a") as file:
            file.write("more\n")
    expected["more"] += 1
    assert reader(folder / "x" / "*") == expected
    expected["more"] += 1
    (folder / "a").write_text("top\n")  # named as the files below were, when the path was narrower
    assert reader(folder / "**") == expected + once("top\n")
    assert reader(folder / "y") == expected + once("top\n")


def test_a_wider_path_never_takes_a_file_for_one_of_those_read_long_ago(reader: Reader, folder: Path) -> None:
    for at, name in enumerate(["y/0", "x/1", "x/2", "x/3"]):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(lines(name, 10))
        os.utime(folder / name, (at, at))
    assert reader(folder / "x" / "*", watch=Watch(rememberedFiles=1)).total() == 30
    everything = once(*(lines(name, 10) for name in ("y/0", "x/1", "x/2", "x/3")))
    assert reader(folder / "*" / "*", watch=Watch(rememberedFiles=1)) == everything
    assert reader(folder / "y*" / "*", watch=Watch(rememberedFiles=1)) == everything  # fewer folders
    assert reader(folder / "*" / "*", watch=Watch(rememberedFiles=1)) == everything  # and all again


def test_another_folder_is_read_as_its_refusal_says(tmp_path: Path) -> None:
    for year in ("2024", "2025"):
        (tmp_path / year).mkdir()
        (tmp_path / year / "a").write_text(lines(year, 3))

    def counted(**streams: Any) -> Counter[str]:
        topology = TridentTopology()
        options = {"anew": True} if "anew" in streams.pop("how", "") else {}
        news = [topology.newStream(name, FileSpout(tmp_path / year), **options) for name, year in streams.items()]
        merged = topology.merge(*news) if len(news) > 1 else news[0]
        merged.groupBy("line").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
        with start_local(topology, name="t", checkpointLocation=tmp_path / "checkpoint") as running:
            running.processAllAvailable(timeout=60)
            return Counter(dict(running.state("counts").items()))

    assert counted(one="2024") == once(lines("2024", 3))
    with pytest.raises(
        BatchFailedError, match=r"add a second one\. To read it instead, .* newStream\(\.\.\., anew=True\)"
    ):
        counted(one="2025")
    assert counted(one="2024", two="2025") == once(lines("2024", 3), lines("2025", 3))
    (tmp_path / "2026").mkdir()
    (tmp_path / "2026" / "a").write_text(lines("2026", 3))
    assert counted(three="2026", how="anew") == once(lines("2024", 3), lines("2025", 3), lines("2026", 3))


def test_a_replaced_parquet_file_is_refused_and_a_copied_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": list(range(9))}), path)
    spout = FileSpout(path, "parquet")
    [plan] = planned(spout)
    shutil.copy(path, tmp_path / "_copy")
    (tmp_path / "_copy").replace(path)
    [noted] = planned(spout, previous=plan)
    assert spout.open().emit(TransactionAttempt(2, 1), noted).rows == 0
    assert spout.open().emit(TransactionAttempt(1, 1), plan).rows == 9
    pq.write_table(pa.table({"n": list(range(1, 10))}), path)
    with pytest.raises(SpoutContractError, match="is now another file"):
        planned(spout, previous=plan)
    with pytest.raises(SpoutContractError, match="it has changed since"):
        spout.open().emit(TransactionAttempt(1, 1), plan)


def test_a_replay_does_not_read_half_of_another_longer_file(folder: Path) -> None:
    (folder / "a").write_text(lines("old", 100))
    spout = FileSpout(folder, maxBytesPerBatch=400)
    first, second = planned(spout)
    replaced(folder / "a", lines("new", 150))
    for txid, plan in ((1, first), (2, second)):
        with pytest.raises(SpoutContractError, match="it has changed since"):
            spout.open().emit(TransactionAttempt(txid, 1), plan)


# --- the same content elsewhere -----------------------------------------------------------------------------------


def test_files_that_were_copied_or_restored_go_on_where_they_were(reader: Reader, folder: Path, tmp_path: Path) -> None:
    for name in "ab":
        (folder / name).write_text(lines(name, 100))
    reader(folder)
    shutil.copytree(folder, tmp_path / "backup", copy_function=shutil.copyfile)  # other inodes, other times
    shutil.rmtree(folder)
    (tmp_path / "backup").rename(folder)
    assert reader(folder) == once(lines("a", 100), lines("b", 100))
    with (folder / "a").open("a") as file:
        file.write("more\n")
    assert reader(folder) == once(lines("a", 100), lines("b", 100), "more\n")


def test_a_folder_moves_with_its_checkpoint(reader: Reader, folder: Path, tmp_path: Path) -> None:
    (folder / "a").write_text(lines("a", 100))
    (folder / "b").write_text(lines("b", 10))
    reader(folder, maxBytesPerBatch=200)
    shutil.copytree(folder, tmp_path / "moved", copy_function=shutil.copyfile)
    shutil.rmtree(folder)
    reader.checkpoint = reader.checkpoint.rename(tmp_path / "checkpoint2")
    with (tmp_path / "moved" / "a").open("a") as file:
        file.write("more\n")
    (tmp_path / "moved" / "c").write_text("new\n")
    assert reader(tmp_path / "moved") == once(lines("a", 100), lines("b", 10), "more\n", "new\n")


def test_a_file_that_is_touched_is_not_read_again(reader: Reader, folder: Path) -> None:
    (folder / "a").write_text(lines("a", 10))
    for at in (5, 6):
        os.utime(folder / "a", (at, at))
        assert reader(folder) == once(lines("a", 10))


# --- renamed ------------------------------------------------------------------------------------------------------


def test_a_log_that_is_rotated_by_renaming_is_read_to_its_end_and_once(reader: Reader, folder: Path) -> None:
    log, written = folder / "app.log", ""
    for day in range(4):
        with log.open("a") as file:
            file.write(lines(f"day{day}", 50))
        assert reader(folder / "app.log*") == once(written, lines(f"day{day}", 50))
        with log.open("a") as file:  # after the last look
            file.write(lines(f"eve{day}", 50))
        written += lines(f"day{day}", 50) + lines(f"eve{day}", 50)
        (folder / "app.log.2").unlink(missing_ok=True)  # its inode is free for the new log
        for older, newer in (("app.log.1", "app.log.2"), ("app.log", "app.log.1")):
            if (folder / older).exists():
                (folder / older).rename(folder / newer)
        log.write_text("")
    assert reader(folder / "app.log*") == once(written)


def test_a_log_that_is_rotated_since_it_was_listed_is_not_read_in_the_middle(folder: Path) -> None:
    (folder / "app.log").write_text(lines("old", 100))
    executor = FileSpout(folder, maxBytesPerBatch=400).open()
    plans = [logged(executor.plan(TransactionAttempt(1, 0), None, 0.0))]
    (folder / "app.log").rename(folder / "app.log.1")
    (folder / "app.log").write_text(lines("new", 150))
    while (plan := executor.plan(TransactionAttempt(len(plans) + 1, 0), plans[-1], 0.0)) is not None:
        plans.append(logged(plan))
    emitted = [executor.emit(TransactionAttempt(2 + at, 0), plan) for at, plan in enumerate(plans[1:])]
    rest = Counter(line for emission in emitted for line in emission.arrow().column(0).to_pylist())
    assert rest == once(lines("old", 100)[400:], lines("new", 150))


def test_a_new_file_with_the_inode_of_a_deleted_one_is_read(reader: Reader, folder: Path) -> None:
    for at in range(5):
        path = folder / f"report-{at}"
        path.write_text("nothing to report\n")
        os.utime(path, (at, at))
        assert reader(folder)["nothing to report"] == at + 1
        path.unlink()


@pytest.mark.parametrize(("born", "read"), [(7, [["a", "a", "a"]]), (5, [["a", "a"]]), (0, [["a", "a"]])])
def test_a_new_file_with_inode_and_beginning_of_a_deleted_one_is_told_by_its_birth(
    folder: Path, monkeypatch: pytest.MonkeyPatch, born: int, read: list[list[str]]
) -> None:
    monkeypatch.setattr(local_storage, "birth_of", lambda descriptor: 5)
    (folder / "monday").write_text("a\n")
    [plan] = planned(FileSpout(folder))
    monkeypatch.setattr(local_storage, "birth_of", lambda descriptor: born)
    (folder / "monday").rename(folder / "tuesday")
    (folder / "tuesday").write_text("a\na\na\n")
    spout = FileSpout(folder)
    emitted = [spout.open().emit(TransactionAttempt(2, 0), each).arrow() for each in planned(spout, previous=plan)]
    assert [table.column(0).to_pylist() for table in emitted] == read


def test_a_files_birth_stays_when_it_is_renamed_and_grows(folder: Path) -> None:
    def birth(name: str) -> int:
        with (folder / name).open("rb") as file:
            return birth_of(file.fileno())

    (folder / "a").write_text("a\n")
    os.utime(folder / "a", (5, 5))
    born, now = birth("a"), time.time() * 1000
    if not born:
        pytest.skip(f"the file system of {folder} does not tell when a file was made")
    assert abs(born - now) < 60_000
    (folder / "a").rename(folder / "b")
    (folder / "b").write_text("a\nb\n")
    assert birth("b") == born


def test_the_inode_of_a_deleted_file_that_is_still_remembered_does_not_hide_a_renamed_one(folder: Path) -> None:
    (folder / "f").write_text("old\n")
    plans = planned(FileSpout(folder))
    (folder / "f").unlink()
    (folder / "d").write_text("new\n")  # often with the inode of the deleted one
    os.utime(folder / "d", (5, 5))
    plans += planned(FileSpout(folder), previous=plans[-1])
    (folder / "d").rename(folder / "h")
    assert [each["files"] for each in planned(FileSpout(folder), previous=plans[-1])] == [[]]


def test_a_log_that_is_truncated_after_it_was_copied_is_refused(reader: Reader, folder: Path) -> None:
    (folder / "app.log").write_text(lines("a", 50))
    reader(folder)
    shutil.copy(folder / "app.log", folder / "app.log.1")
    os.truncate(folder / "app.log", 0)
    with (folder / "app.log").open("a") as file:
        file.write(lines("b", 60))
    reader.refused(folder, "app.log was read to byte .* Logs that are rotated by renaming are followed")


def test_a_file_that_several_names_lead_to_is_read_once(reader: Reader, folder: Path) -> None:
    (folder / "data.txt").write_text(lines("a", 10))
    (folder / "latest.txt").symlink_to(folder / "data.txt")
    os.link(folder / "data.txt", folder / "copy.txt")
    (folder / "sub").mkdir()
    (folder / "sub" / "again").symlink_to(folder)
    assert reader(folder / "**" / "*.txt") == once(lines("a", 10))
    (folder / "a-link.txt").symlink_to(folder / "data.txt")  # sorts before the name that it was read under
    assert reader(folder / "**" / "*.txt") == once(lines("a", 10))


# --- hidden -------------------------------------------------------------------------------------------------------


def test_what_a_writer_has_under_way_is_read_when_it_is_there(reader: Reader, folder: Path) -> None:
    unfinished = folder / "day=1" / "_temporary" / "0" / "part-00000.txt"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_text("one\n")
    (folder / "day=1" / ".staging").mkdir()
    (folder / "day=1" / ".staging" / "x.txt").write_text("no\n")
    (folder / "day=1" / "y.txt._COPYING_").write_text("no\n")
    assert reader(folder / "**" / "*.txt*") == Counter()
    unfinished.rename(folder / "day=1" / "part-00000.txt")
    (folder / "_hour=2").mkdir()
    (folder / "_hour=2" / "z.txt").write_text("partition\n")
    assert reader(folder / "**" / "*.txt*") == once("one\n", "partition\n")


# --- metadata of before -------------------------------------------------------------------------------------------


def seen_in(plan: Any) -> ReadFiles:
    return ReadFiles.decode(plan["seen"])


def test_an_entry_remembers_inode_and_checksum(folder: Path) -> None:
    (folder / "a").write_text("1\n")
    [plan] = planned(FileSpout(folder))
    status = (folder / "a").stat()
    with (folder / "a").open("rb") as file:
        born = birth_of(file.fileno())
    assert seen_in(plan).entries == {
        "a": Entry(2, status.st_mtime_ns, False, status.st_ino, zlib.crc32(b"1\n1\n"), born, zlib.crc32(b"1\n")),
    }


def copied(path: Path) -> None:
    """Give a file another inode, as a restore from a copy does."""
    shutil.copyfile(path, path.with_name("_copy"))
    path.with_name("_copy").rename(path)


@pytest.mark.parametrize("again", [1, 3])
def test_a_file_that_was_renamed_in_a_quiet_run_and_then_copied_counts_once(
    again: int, reader: Reader, tmp_path: Path
) -> None:
    """The run after the renaming has no line to read, and the next one does not find the file's inode."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "app.log").write_text(lines("w", 50))
    assert reader(logs) == Counter(lines("w", 50).split())
    (logs / "app.log").rename(logs / "app.log.1")
    for _ in range(again):
        reader(logs)
    copied(logs / "app.log.1")
    with (logs / "app.log.1").open("a") as log:
        log.write(lines("x", 2))
    assert reader(logs) == Counter(lines("w", 50).split() + lines("x", 2).split())


def test_a_file_that_was_copied_in_a_quiet_run_and_then_renamed_counts_once(reader: Reader, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "app.log").write_text(lines("w", 50))
    reader(logs)
    copied(logs / "app.log")
    reader(logs)
    (logs / "app.log").rename(logs / "app.log.1")
    assert reader(logs) == Counter(lines("w", 50).split())


def test_a_batch_without_files_saves_names_and_inodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spout, log = FileSpout(tmp_path / "*.log*"), tmp_path / "app.log"
    log.write_text(lines("w", 5))
    plans = planned(spout)
    log = log.rename(tmp_path / "app.log.1")
    plans += planned(spout, previous=plans[-1])
    assert planned(spout, previous=plans[-1]) == []
    copied(log)
    plans += planned(spout, previous=plans[-1])
    assert [bool(each["files"]) for each in plans] == [True, False, False]
    time.sleep(0.15)  # until the status proves that nothing has changed
    inodes = iter(range(1_000_000, 2_000_000))
    list_all = executor.list_files
    monkeypatch.setattr(executor, "list_files", lambda *args: [f._replace(inode=next(inodes)) for f in list_all(*args)])
    plans += planned(spout, previous=plans[-1])
    assert planned(spout, previous=plans[-1]) == [], "this file system shows another inode at each look"
