"""A listing of objects stays cheap: it begins behind what was read long ago, and ends where enough is unread."""

import re
from collections.abc import Iterator
from urllib.parse import unquote

import pytest

from tests.spouts.objects.conftest import Objects
from trident.errors import SourceUnreadableError, SpoutContractError
from trident.spouts import FileSpout, TransactionAttempt
from trident_spouts.executor import Metadata
from trident_spouts.files import read_files
from trident_spouts.files import spout as spout_module

ATTEMPT = TransactionAttempt(1, 0)


def batches(spout: FileSpout, previous: Metadata = None) -> Iterator[dict[str, list[list[str]]]]:
    executor = spout.open()
    while (plan := executor.plan(ATTEMPT, previous, 0.0)) is not None:
        previous = plan
        yield plan  # type: ignore[misc]


def names(plan: dict[str, list[list[str]]]) -> list[str]:
    return [file[0] for file in plan["files"]]


def listings(objects: Objects) -> list[str]:
    """Return where each listing so far began: a name, or nothing for the beginning."""
    lines = [line for line in objects.server.log_lines() if "list-type=2" in line and objects.prefix in line]
    found = [re.search(r"start-after=([^&\s]*)", line) for line in lines]
    return [unquote(match[1]).removeprefix(f"{objects.prefix}/") if match else "" for match in found]


def test_a_listing_begins_behind_what_was_read_long_ago(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_files, "REMEMBERED", 3)
    for at in range(10):
        objects.put(f"{at}.txt", f"{at}\n")
    spout = objects.spout("*.txt", orderBy="name", maxFilesPerBatch=2)
    plans = list(batches(spout))
    assert [names(plan) for plan in plans] == [[f"{at}.txt", f"{at + 1}.txt"] for at in range(0, 10, 2)]
    assert listings(objects) == ["", "6.txt"]  # the second one finds nothing new; three names are remembered
    objects.put("99.txt", "new\n")
    assert [names(plan) for plan in batches(spout, plans[-1])] == [["99.txt"]]
    assert listings(objects)[2:] == ["6.txt", "7.txt"]
    objects.put("8.txt", "other\n")  # among the remembered ones
    with pytest.raises(SpoutContractError, match="8.txt was read to byte 2 .* is another file now"):
        list(batches(spout, plans[-1]))


def test_a_long_backlog_is_listed_in_parts(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spout_module, "_MOST_LISTED", 4)
    monkeypatch.setattr(read_files, "REMEMBERED", 2)
    for at in range(11):
        objects.put(f"{at:02}", f"{at}\n")
    spout = objects.spout(orderBy="name", maxFilesPerBatch=3)
    assert sum(map(names, batches(spout)), []) == [f"{at:02}" for at in range(11)]
    executor = spout.open()
    plan = executor.plan(ATTEMPT, None, 0.0)
    assert executor.read_so_far(plan) is None  # type: ignore[attr-defined]  # the whole is not known


def test_by_time_all_is_listed(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_files, "REMEMBERED", 3)
    for at in range(10):
        objects.put(f"{at}", f"{at}\n")
    executor = objects.spout(maxFilesPerBatch=4).open()
    plan = executor.plan(ATTEMPT, None, 0.0)
    read = executor.read_so_far(plan)  # type: ignore[attr-defined]
    assert (read.done, read.total) == (8, 20)
    assert sum(map(names, batches(objects.spout(maxFilesPerBatch=4))), []) == [f"{at}" for at in range(10)]
    assert set(listings(objects)) == {""}


def test_a_pattern_is_listed_from_where_its_names_begin_to_where_they_end(objects: Objects) -> None:
    for name in ("2023-12-31", "2024-01-01", "2024-01-02", "2024-02-01", "2025-01-01"):
        objects.put(name, "line\n")
    (plan,) = batches(objects.spout("2024-01-*", orderBy="name"))
    assert names(plan) == ["2024-01-01", "2024-01-02"]
    assert listings(objects)[0] == "2024-01"


def test_a_plan_and_an_emission_ask_for_nothing_but_the_listing(objects: Objects) -> None:
    for at in range(5):
        objects.put(f"{at}", f"{at}\n")
    before = objects.server.requests()
    executor = objects.spout("*").open()
    plan = executor.plan(ATTEMPT, None, 0.0)
    emission = executor.emit(ATTEMPT, plan)
    assert objects.server.requests() - before == {"list": 1}
    assert emission.arrow().num_rows == 5
    assert objects.server.requests() - before == {"list": 1, "GET": 5}


def test_a_name_that_cannot_be_asked_for_stops_the_listing(objects: Objects) -> None:
    objects.put("a//b", "line\n")
    with pytest.raises(SourceUnreadableError, match=r'cannot list .*: .* "test\d+/a//b" contained empty path segment'):
        list(batches(objects.spout("**")))
