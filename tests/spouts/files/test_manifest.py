"""A manifest names the files of a stream: they are read in its order, each once, and it may only get longer."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trident.errors import (
    MalformedInputError,
    SourceUnreadableError,
    SpoutContractError,
    TopologyError,
    TypeDeclarationError,
)
from trident.spouts import FileSpout, Manifest, TransactionAttempt, Watch
from trident.testing import SpoutContract
from trident_spouts.executor import Metadata

ATTEMPT = TransactionAttempt(1, 0)
NOW = 2_000_000_000.0


class Named:
    """A folder of files of lines, and a manifest beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder / "in", folder / "manifest.txt"
        self.folder.mkdir(parents=True)
        self.name([])

    def write(self, name: str, lines: int) -> str:
        data = "".join(f"{name} {at}\n" for at in range(lines)).encode()
        (self.folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return f"in/{name}"

    def name(self, names: list[str]) -> None:
        self.path.write_text("".join(f"{name}\n" for name in names))

    def spout(self, **options: Any) -> FileSpout:
        return FileSpout(Manifest(self.path), **options)


@pytest.fixture
def named(tmp_path: Path) -> Named:
    return Named(tmp_path)


def batches(spout: FileSpout, previous: Metadata = None) -> tuple[list[list[str]], Metadata]:
    """Return the lines of each batch, planned by an executor of its own, and the last plan."""
    lines = []
    while (plan := spout.open().plan(ATTEMPT, previous, NOW)) is not None:
        lines.append(spout.open().emit(ATTEMPT, plan).arrow().column(0).to_pylist())
        previous = plan
        assert len(lines) < 200, "the batches do not come to an end"
    return lines, previous


class TestManifest(SpoutContract):
    @pytest.fixture
    def every_row(self) -> Any:
        return [f"{name} {at}" for name, lines in (("b.txt", 9), ("a.txt.gz", 5), ("c.txt", 3)) for at in range(lines)]

    @pytest.fixture
    def make_spout(self, named: Named) -> Callable[[], Any]:
        named.name([named.write("b.txt", 9), named.write("a.txt.gz", 5), named.write("c.txt", 3)])
        return lambda: named.spout(maxBytesPerBatch=30)


def test_files_are_read_in_the_manifests_order_and_new_names_later(named: Named) -> None:
    names = [named.write("b", 2), named.write("empty", 0), named.write("a.gz", 1)]
    named.write("not named", 5)
    named.name([names[0], names[0], "", *names])  # a name that comes twice, and an empty line
    lines, last = batches(named.spout())
    assert lines == [["b 0", "b 1", "a.gz 0"]]
    named.name([*names, named.write("_0", 1)])
    assert batches(named.spout(), last)[0] == [["_0 0"]]


@pytest.mark.parametrize("limits", [{"maxFilesPerBatch": 1}, {"maxBytesPerBatch": 1}, {"maxBytesPerBatch": 25}, {}])
def test_batches_hold_each_line_once_however_they_are_cut(named: Named, limits: dict[str, int]) -> None:
    names = [f"file{at * 7 % 40}" for at in range(40)]
    named.name([named.write(name, at % 5) for at, name in enumerate(names)])
    lines, _ = batches(named.spout(**limits))
    assert sum(lines, []) == [f"{name} {line}" for at, name in enumerate(names) for line in range(at % 5)]
    assert all(lines)


def test_paths_may_be_absolute_urls_or_in_json(named: Named) -> None:
    paths = [named.write("a", 1), str(named.folder / "b"), f"file:{named.folder}/c", (named.folder / "d").as_uri()]
    for name in "bcd":
        named.write(name, 1)
    named.path.write_text(json.dumps({"entries": [{"url": path, "mandatory": True} for path in paths]}))
    in_json = batches(named.spout())[0]
    named.path.write_text("\ufeff" + "\r\n".join(paths))
    assert batches(named.spout())[0] == in_json == [["a 0", "b 0", "c 0", "d 0"]]


def test_a_manifest_that_other_names_stand_in_stops_the_stream(named: Named) -> None:
    names = [named.write(name, 1) for name in "abc"]
    named.name(names[:2])
    _, last = batches(named.spout())
    said = "the first 2 names were changed after their files were read; names may only be added at the end"
    for others in ([names[2], *names], names[1::-1], names[:1], [], ["in/x", *names[1:]]):
        named.name(others)
        with pytest.raises(SpoutContractError, match=said):
            named.spout().open().plan(ATTEMPT, last, NOW)
    named.name(names)
    assert batches(named.spout(), last)[0] == [["c 0"]]


def test_a_named_file_that_is_not_there_is_told(named: Named) -> None:
    named.name([named.write("a", 1), "in/b"])
    with pytest.raises(
        SourceUnreadableError,
        match=r"manifest.txt names .*/in/b, which does not exist; add a file to the manifest",
    ):
        named.spout().open().plan(ATTEMPT, None, NOW)
    named.write("b", 1)
    lines, last = batches(named.spout())
    assert lines == [["a 0", "b 0"]]
    (named.folder / "a").unlink()  # it was read
    assert batches(named.spout(), last)[0] == []


def test_a_file_that_changed_after_it_was_planned_is_not_read(named: Named) -> None:
    named.name([named.write("a", 3), named.write("b", 3)])
    plan = named.spout().open().plan(ATTEMPT, None, NOW)
    named.write("a", 2)
    with pytest.raises(SpoutContractError, match="planned to read .*/in/a .* has changed since"):
        named.spout().open().emit(ATTEMPT, plan)


def test_a_file_that_changed_when_half_of_it_was_read_stops_the_stream(named: Named) -> None:
    named.name([named.write("a", 9)])
    plan = named.spout(maxBytesPerBatch=12).open().plan(ATTEMPT, None, NOW)
    (named.folder / "a").write_text("other\n" * 9)
    with pytest.raises(SpoutContractError, match="in/a was read to byte 12 .* is now another file,"):
        named.spout().open().plan(ATTEMPT, plan, NOW)


def test_a_last_line_without_a_newline_counts_once_the_manifest_is_complete(named: Named) -> None:
    named.path.write_text(named.write("a.gz", 1))
    os.utime(named.path, (NOW - 5, NOW - 5))
    os.utime(named.folder / "a.gz", (NOW + 6, NOW + 6))  # a file is named once it is complete, however young it is
    waiting = named.spout(watch=Watch(completeAfterSecs=10)).open()
    assert waiting.plan(ATTEMPT, None, NOW) is None
    plan = waiting.plan(ATTEMPT, None, NOW + 6)
    assert waiting.emit(ATTEMPT, plan).arrow().column(0).to_pylist() == ["a.gz 0"]
    named.path.write_text("in/a.gz2\n")  # it was not complete after all
    with pytest.raises(SpoutContractError, match=".*: the first 1 names were changed after their files were read"):
        waiting.plan(ATTEMPT, plan, NOW + 100)


def test_parquet_has_the_fields_of_the_first_named_file(named: Named) -> None:
    spout = named.spout(format="parquet")
    with pytest.raises(TypeDeclarationError, match=r"none at .*manifest.txt yet"):
        _ = spout.schema
    for name, column in (("b", "n"), ("a", "m")):
        pq.write_table(pa.table({column: [1, 2]}), named.folder / f"{name}.parquet")
    named.name(["in/b.parquet", "in/a.parquet"])
    assert spout.schema.names == ["n"]
    assert batches(named.spout(format="parquet", maxFilesPerBatch=1))[0] == [[1, 2], [None, None]]


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        (b"in/\xff", MalformedInputError, "manifest.txt: invalid UTF-8 at byte 3; a manifest is UTF-8 text"),
        (b'{"files": []}', MalformedInputError, r'expected a manifest: the path of a file in each line, or {"entries"'),
        (b"s3://other/a", MalformedInputError, "names s3://other/a, which is not in the same store as the manifest"),
        (b"in/a.xz", MalformedInputError, "in/a.xz has an unsupported compression; expected plain text,"),
        (b"in", SourceUnreadableError, "names .*/in, which does not exist"),
    ],
)
def test_what_is_no_manifest_is_told(named: Named, text: bytes, error: type[Exception], said: str) -> None:
    named.write("a.xz", 1)
    named.path.write_bytes(text)
    with pytest.raises(error, match=said):
        named.spout().open().plan(ATTEMPT, None, NOW)


def test_a_manifest_that_is_not_there_and_an_order_beside_it_are_refused(named: Named) -> None:
    with pytest.raises(SourceUnreadableError, match="cannot read .*/none.txt: there is no such file"):
        FileSpout(Manifest(named.folder / "none.txt")).open().plan(ATTEMPT, None, NOW)
    with pytest.raises(TopologyError, match=r"orderBy='name' with Manifest\('.*'\): files are read in the manif"):
        named.spout(orderBy="name")


def test_a_stream_does_not_change_between_a_manifest_and_a_folder(named: Named) -> None:
    named.name([named.write("a", 1)])
    folder = FileSpout(named.folder)
    for before, after in ((named.spout(), folder), (folder, named.spout())):
        plan = before.open().plan(ATTEMPT, None, NOW)
        with pytest.raises(SpoutContractError, match="cannot replay the batch .* instead of a manifest.* anew=True"):
            after.open().plan(ATTEMPT, plan, NOW)


def test_how_many_of_the_named_files_were_read_is_told(named: Named) -> None:
    named.name([named.write(name, 1) for name in "abc"])
    executor: Any = named.spout(maxFilesPerBatch=2).open()
    assert executor.read_so_far(None).lag == 0  # nobody has looked yet
    plan = executor.plan(ATTEMPT, None, NOW)
    assert executor.read_so_far(None) == (0, 3, "files", None) and executor.read_so_far(plan) == (2, 3, "files", None)


def test_two_spellings_of_a_name_are_one_file(named: Named, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(named.folder)
    one, two = named.write("a", 2), named.write("b", 1)
    spellings = [one, f"./{one}", two, f"{tmp_path}/{one}", f"in/../{one}", "link/a", f"file://{tmp_path}/in/a"]
    named.name(spellings)
    assert batches(named.spout())[0] == [["a 0", "a 1", "b 0"]]
    assert batches(named.spout(maxFilesPerBatch=1))[0] == [["a 0", "a 1"], ["b 0"]]
