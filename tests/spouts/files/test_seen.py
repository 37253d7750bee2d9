"""What is remembered of read files: exact for the latest thousand, bounded for the rest."""

import pytest

from trident.errors import SpoutContractError
from trident_spouts.files import seen as module
from trident_spouts.files.listing import Found
from trident_spouts.files.seen import Entry, Seen


def read(*files: Found) -> list[tuple[Found, int]]:
    return [(found, found.size) for found in files]


def test_a_file_is_read_once() -> None:
    found = Found(5, "a", 10)
    assert Seen().start_of(found, grows=True) == 0
    assert Seen().after(read(found), None).start_of(found, grows=True) is None


def test_reading_goes_on_where_a_batch_cut_a_file() -> None:
    found = Found(5, "a", 10)
    assert Seen().after([(found, 4)], (5, "a")).start_of(found, grows=True) == 4


def test_a_text_file_may_grow_and_a_parquet_file_may_not() -> None:
    seen = Seen().after(read(Found(5, "a", 10)), None)
    assert seen.start_of(Found(6, "a", 15), grows=True) == 10
    with pytest.raises(SpoutContractError) as caught:
        seen.start_of(Found(6, "a", 15), grows=False)
    assert str(caught.value) == (
        "FileSpout: a was read to byte 10 (modified 5) and now has 15 bytes (modified 6); a file must not change after "
        "it was read. Give the new content another name to have it read, or take the file away: it was read already"
    )


@pytest.mark.parametrize("changed", [Found(6, "a", 9), Found(6, "a", 10), Found(4, "a", 10)])
def test_any_other_change_is_an_error_and_no_second_reading(changed: Found) -> None:
    seen = Seen().after(read(Found(5, "a", 10)), None)
    with pytest.raises(SpoutContractError, match="a was read to byte 10 .modified 5. and now has"):
        seen.start_of(changed, grows=True)


def test_a_late_file_with_an_older_time_is_still_read() -> None:
    seen = Seen().after(read(Found(5, "b", 1)), None)
    assert seen.start_of(Found(4, "late", 1), grows=True) == 0


def test_old_entries_fall_out_and_their_files_stay_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 2)
    files = [Found(at, name, 1) for at, name in [(1, "a"), (2, "b"), (2, "c"), (3, "d")]]
    seen = Seen().after(read(*files), None)
    assert sorted(seen.entries) == ["c", "d"]
    assert seen.cutoff == (2, "b")
    assert [seen.start_of(found, grows=True) for found in files] == [None] * 4
    assert seen.start_of(Found(2, "bb", 1), grows=True) == 0


def test_the_cutoff_never_passes_a_file_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 1)
    files = [Found(1, "a", 1), Found(3, "c", 1), Found(4, "d", 1)]
    late = Found(2, "b", 1)
    seen = Seen().after(read(*files), (late.mtime, late.name))
    assert seen.start_of(late, grows=True) == 0
    assert seen.cutoff == (1, "a")


def test_a_file_that_is_cut_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 1)
    part = Found(1, "a", 10)
    seen = Seen().after([(part, 4), *read(Found(2, "b", 1), Found(3, "c", 1))], None)
    assert seen.start_of(part, grows=True) == 4


def test_it_stays_small_over_many_files() -> None:
    seen = Seen()
    for at in range(50):
        seen = seen.after(read(*(Found(at * 10**12 + i, f"part-{at:05}-{i:05}.txt", i) for i in range(100))), None)
    assert len(seen.entries) == module.REMEMBERED
    assert len(seen.encode()) < 20_000


def test_it_survives_as_text() -> None:
    seen = Seen((1, "\u00e9"), {"b": Entry(5, 9), "a b": Entry(7, 8, True)})
    assert Seen.decode(seen.encode()) == seen
    assert Seen.decode(Seen().encode()) == Seen()
