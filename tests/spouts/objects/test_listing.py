"""A listing of objects stays cheap: it begins behind what was read long ago, and ends where enough is unread."""

import http.server
import re
import threading
from collections.abc import Iterator
from urllib.parse import unquote

import pytest

from tests.spouts.objects.conftest import Objects
from trident.errors import SourceUnreadableError, SpoutContractError
from trident.spouts import FileSpout, TransactionAttempt, Watch
from trident_spouts.executor import Metadata
from trident_spouts.files import executor as executor_module

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


def test_a_listing_begins_behind_what_was_read_long_ago(objects: Objects) -> None:
    for at in range(10):
        objects.put(f"{at}.txt", f"{at}\n")
    spout = objects.spout("*.txt", orderBy="name", maxFilesPerBatch=2, watch=Watch(rememberedFiles=3))
    plans = list(batches(spout))
    assert [names(plan) for plan in plans] == [[f"{at}.txt", f"{at + 1}.txt"] for at in range(0, 10, 2)]
    assert listings(objects) == ["", "6.txt"]  # the second one finds nothing new; three names are remembered
    objects.put("99.txt", "new\n")
    assert [names(plan) for plan in batches(spout, plans[-1])] == [["99.txt"]]
    assert listings(objects)[2:] == ["", "7.txt"]  # a run looks once at what was read long ago
    objects.put("8.txt", "other\n")  # among the remembered ones
    with pytest.raises(SpoutContractError, match="8.txt was read to byte 2 .* is now another file,"):
        list(batches(spout, plans[-1]))


def test_a_long_backlog_is_listed_in_parts(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_module, "MOST_LISTED", 4)
    for at in range(11):
        objects.put(f"{at:02}", f"{at}\n")
    spout = objects.spout(orderBy="name", maxFilesPerBatch=3, watch=Watch(rememberedFiles=2))
    assert sum(map(names, batches(spout)), []) == [f"{at:02}" for at in range(11)]
    executor = spout.open()
    plan = executor.plan(ATTEMPT, None, 0.0)
    assert executor.read_so_far(plan) is None  # type: ignore[attr-defined]  # the whole is not known


def test_by_time_all_is_listed(objects: Objects) -> None:
    for at in range(10):
        objects.put(f"{at}", f"{at}\n")
    executor = objects.spout(maxFilesPerBatch=4, watch=Watch(rememberedFiles=3)).open()
    plan = executor.plan(ATTEMPT, None, 0.0)
    read = executor.read_so_far(plan)  # type: ignore[attr-defined]
    assert (read.done, read.total) == (8, 20)
    assert sum(map(names, batches(objects.spout(maxFilesPerBatch=4, watch=Watch(rememberedFiles=3)))), []) == [
        f"{at}" for at in range(10)
    ]
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


def test_pages_of_a_thousand_are_followed_also_from_behind_a_name(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_module, "MOST_LISTED", 600)
    for at in range(2_100):
        objects.put(f"{at:04}", "" if at % 10 else "line\n")
    spout, previous = objects.spout(orderBy="name", maxFilesPerBatch=70, watch=Watch(rememberedFiles=10)), None
    executor, read = spout.open(), list[str]()
    while (previous := executor.plan(ATTEMPT, previous, 0.0)) is not None:
        read += names(previous)
    assert read == [f"{at:04}" for at in range(0, 2_100, 10)]
    assert any(name and int(name) < 1_000 for name in listings(objects))  # more than 1,000 objects come behind it


class OddNames(http.server.BaseHTTPRequestHandler):
    """A store that lists a name with an empty part, which S3 may have."""

    def do_GET(self) -> None:
        about = "<LastModified>2024-01-01T00:00:00Z</LastModified><ETag>e</ETag><Size>1</Size>"
        page = f"<ListBucketResult><Contents><Key>a//b</Key>{about}</Contents></ListBucketResult>"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


def test_a_name_that_cannot_be_asked_for_stops_the_listing(objects: Objects) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), OddNames) as server:
        threading.Thread(target=server.serve_forever).start()
        storage = {**objects.server.storage, "endpoint": f"http://127.0.0.1:{server.server_port}"}
        with pytest.raises(SourceUnreadableError, match=r'cannot list .*: .* "a//b" contained empty path segment'):
            list(batches(FileSpout("s3://books/**", storage=storage)))
        server.shutdown()
