"""The promises of every place of files: on a disk, on a real S3 server, and on a real HDFS."""

import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.hdfs import Hdfs
from tests.support.objects import Objects
from trident.errors import FilesError
from trident.files import hdfs, objects
from trident.files.disk import DiskFiles
from trident.files.store import FileStore


@pytest.fixture(params=["disk", "private disk", "s3", "hdfs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> FileStore:
    if request.param in ("s3", "hdfs"):
        found: Objects | Hdfs = request.getfixturevalue("objects" if request.param == "s3" else "hdfs")
        return found.files()
    return DiskFiles(tmp_path / "files", private=request.param == "private disk")


def content(place: FileStore, name: str) -> bytes:
    return bytes(place.read(name))


def write(place: FileStore, name: str, *parts: bytes, fails: bool = False) -> None:
    with place.writer(name) as file:
        for part in parts:
            file.write(part)
        if fails:
            raise KeyError


def test_what_is_written_is_there_as_a_whole(place: FileStore) -> None:
    write(place, "a/b/one", b"12", b"", b"345")
    write(place, "a/empty")
    assert content(place, "a/b/one") == b"12345" and content(place, "a/empty") == b""
    assert place.size("a/b/one") == 5 and place.size("a/nothing") is None
    place.sync("a/b")


def test_nothing_is_there_before_the_end(place: FileStore) -> None:
    """A reader that is told a name too early must not take a part for the whole."""
    with place.writer("one") as file:
        file.write(b"1234")
        assert place.size("one") in (None, 0) or isinstance(place, DiskFiles)


def test_a_writer_that_fails_leaves_nothing(place: FileStore) -> None:
    with pytest.raises(KeyError):
        write(place, "one", b"1", fails=True)
    assert place.size("one") is None and list(place.files()) == []


def test_no_file_is_overwritten(place: FileStore) -> None:
    write(place, "one", b"1")
    with pytest.raises((FileExistsError, FilesError)):
        write(place, "one", b"2")
    assert content(place, "one") == b"1"


def test_the_first_of_several_that_create_a_file_wins(place: FileStore) -> None:
    assert place.create("a/one", b"first")
    assert not place.create("a/one", b"second")
    assert content(place, "a/one") == b"first"
    assert place.create("a/one", b"first"), "the same again, as after a reply that was lost"


def test_one_of_many_that_create_a_file_at_once_wins(place: FileStore) -> None:
    won, start = list[int](), threading.Barrier(8)

    def create(number: int) -> None:
        start.wait()
        if place.create("one", b"%d" % number * 1000):
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and content(place, "one") == b"%d" % won[0] * 1000


def test_files_and_folders_are_listed(place: FileStore) -> None:
    assert list(place.files()) == [] and place.folders("a") == []
    for name in ("a/one", "a/b/two", "a/c/d/three", "ab/four"):
        write(place, name, b"12")
    assert sorted(place.files("a")) == [("a/b/two", 2), ("a/c/d/three", 2), ("a/one", 2)]
    assert sorted(place.folders("a")) == ["b", "c"]
    assert sorted(place.below("a").files()) == [("b/two", 2), ("c/d/three", 2), ("one", 2)]
    assert content(place.below("a/b"), "two") == b"12"
    assert place.below("a").path("one") == place.path("a/one")


def test_the_sizes_of_files_are_those_that_were_written(place: FileStore) -> None:
    for name, size in (("a/one", 1), ("a/b/two", 2), ("three", 3)):
        write(place, name, b"x" * size)
    assert place.below("a").sizes(["one", "b/two", "three"]) == {"one": 1, "b/two": 2}
    assert place.sizes(["three", "nothing"]) == {"three": 3}
    assert place.below("nowhere").sizes(["one"]) == {} == place.sizes([])


def test_files_are_deleted_and_those_that_are_gone_are_no_error(place: FileStore) -> None:
    for name in ("a/one", "a/two", "b/three"):
        write(place, name, b"12")
    place.delete(["a/one", "a/nothing", "nowhere/nothing"])
    place.delete([])
    assert sorted(place.files()) == [("a/two", 2), ("b/three", 2)]
    place.remove("a")
    place.remove("a")
    assert list(place.files()) == [("b/three", 2)]
    with pytest.raises(FileNotFoundError):
        place.read("a/two")


def test_a_folder_goes_only_if_it_is_empty(place: FileStore) -> None:
    inner = place.below("a")
    inner.remove_empty()
    write(inner, "one", b"1")
    inner.remove_empty()
    assert content(inner, "one") == b"1"
    inner.delete(["one"])
    inner.remove_empty()
    assert place.folders("") == []


def test_it_travels_to_workers(place: FileStore) -> None:
    write(place, "one", b"1")
    sent: Any = pickle.loads(pickle.dumps(place))  # noqa: S301
    assert sent == place and content(sent, "one") == b"1"


def test_a_large_file_goes_in_parts_and_a_failure_leaves_none(
    place: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "WHOLE", 1 << 20)
    monkeypatch.setattr(hdfs, "BLOCK", 1 << 20)
    monkeypatch.setattr(hdfs, "PIECE", 1 << 18)
    monkeypatch.setattr(hdfs, "_READ", 5 << 20)
    block = bytes(range(256)) * 4096  # 1 MB
    write(place, "large", *[block] * 12)
    assert place.size("large") == 12 << 20 and content(place, "large") == block * 12
    with pytest.raises(KeyError):
        write(place, "none", *[block] * 12, fails=True)
    assert place.size("none") is None
