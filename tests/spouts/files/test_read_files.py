"""The record of read files: exact for the latest thousand, bounded for the rest."""

import random
from dataclasses import replace

import pytest

from trident_spouts.files import read_files as module
from trident_spouts.files.read_files import Entry, ReadFiles
from trident_spouts.files.storage import ListedFile


def read(*files: ListedFile) -> list[tuple[str, Entry]]:
    return [(file.name, Entry(file.size, file.mtime, inode=file.inode, check=7)) for file in files]


def unread(seen: ReadFiles, *files: ListedFile) -> list[str]:
    return [file.name for file in files if file.name not in seen.entries and not seen.is_past(file)]


def test_a_file_that_was_read_fits_its_entry_until_something_is_done_to_it() -> None:
    entry = Entry(10, 5, inode=3, changed=7)

    def now(mtime: int, size: int, inode: int = 3, changed: int = 7) -> ListedFile:
        return ListedFile(mtime, "a", size, inode=inode, changed=changed)

    assert entry.fits(now(5, 10))
    for changed in (now(6, 10), now(5, 11), now(4, 9), now(5, 10, inode=4), now(5, 10, changed=8)):
        assert not entry.fits(changed)
    assert not Entry(10, 5, inode=3).fits(now(5, 10)), "its content must be proved again"
    assert replace(entry, more=True).fits(now(5, 11))
    assert not replace(entry, more=True).fits(now(5, 10))


def test_a_late_file_with_an_older_time_is_still_read() -> None:
    assert unread(ReadFiles().after(read(ListedFile(5, "b", 1)), None), ListedFile(4, "late", 1)) == ["late"]


def test_old_entries_fall_out_and_their_files_stay_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 2)
    files = [ListedFile(at, name, 1) for at, name in [(1, "a"), (2, "b"), (2, "c"), (3, "d")]]
    seen = ReadFiles().after(read(*files), None)
    assert sorted(seen.entries) == ["c", "d"]
    assert seen.cutoff == (2, "b")
    assert [seen.is_past(file) for file in files] == [True, True, False, False]
    assert unread(seen, *files) == []
    assert unread(seen, ListedFile(2, "bb", 1)) == ["bb"]


def test_the_cutoff_never_passes_a_file_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 1)
    late = ListedFile(2, "b", 1)
    seen = ReadFiles().after(
        read(ListedFile(1, "a", 1), ListedFile(3, "c", 1), ListedFile(4, "d", 1)), (late.mtime, late.name)
    )
    assert unread(seen, late) == ["b"]
    assert seen.cutoff == (1, "a")


def test_a_file_that_is_cut_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 1)
    part = ("a", Entry(4, 1, more=True))
    seen = ReadFiles().after([part, *read(ListedFile(2, "b", 1), ListedFile(3, "c", 1))], None)
    assert seen.entries["a"].end == 4


def test_it_stays_small_over_many_files() -> None:
    seen, chance = ReadFiles(root="/data/in"), random.Random(5)
    for at in range(50):
        for i in range(100):
            mtime = at * 10**12 + i
            born = mtime // 10**6 - chance.randint(1, 1000)
            inode, check, digest = 2**22 + chance.randint(0, 10**6), chance.getrandbits(32), chance.getrandbits(32)
            entry = Entry(i, mtime, False, inode, check, born, digest, mtime + chance.randint(0, 10**9))
            seen = replace(seen, entries={**seen.entries, f"part-{at:05}-{i:05}.txt": entry})
        seen = seen.after([], None)
    assert len(seen.entries) == module.REMEMBERED
    assert len(seen.forgotten.known) == 5_000 - module.REMEMBERED
    assert len(seen.encode()) < 100_000


def test_it_survives_as_text() -> None:
    seen = ReadFiles(
        (1, "\u00e9"), {"b": Entry(5, 9, inode=3, check=4), "a b": Entry(7, 8, True, 9, 0, 10**12)}, "/data/in"
    )
    assert ReadFiles.decode(seen.encode()) == seen
    assert ReadFiles.decode(ReadFiles().encode()) == ReadFiles()
