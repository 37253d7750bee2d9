"""States over HTTP: keys, pages, top lists."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from urllib.parse import quote

import pytest

from tests.server.conftest import Serving
from tests.server.raw import connect
from tests.support.waiting import wait_until
from trident.errors import ServerError, StateKeyError
from trident.reads.committed_reads import ReadAbandoned
from trident.reads.state_view import StateView
from trident.server import state_pages
from trident.server.state_pages import _cursor, _read_cursor


def test_one_key(serving: Serving) -> None:
    told = serving.get("/state/counts/dog").json()
    assert (told["value"], told["asOfTxid"]) == (2, {"words": 1})
    missing = serving.get("/state/counts/unicorn")
    assert (missing.status_code, missing.json()["error"]["type"]) == (404, "StateKeyNotFoundError")
    assert serving.get("/state/cuonts/dog").status_code == 404


@pytest.mark.parametrize("word", ["", "a/b", "a\nb", "\n", "?x=1", "%2F", "a\u2028b"])
def test_a_key_is_any_text(word: str, serving: Serving) -> None:
    serving.feed(word)
    told = serving.get(f"/state/counts/{quote(word, safe='')}").json()
    assert told["value"] == 1


def test_a_state_that_is_not_there_is_a_server_error_that_lists_those_that_are(serving: Serving) -> None:
    with (
        serving.client() as client,
        pytest.raises(ServerError, match="StateNotFound: no state 'count'; the states are"),
    ):
        client.get("count", "dog")


def test_several_keys_in_one_read(serving: Serving) -> None:
    told = serving.post("/state/counts", {"keys": ["dog", "unicorn", "cat"]}).json()
    assert (told["values"], told["asOfTxid"]) == ([2, None, 1], {"words": 1})
    with serving.client() as client:
        assert client.multiGet("counts", ["dog", "unicorn", "cat"]) == [2, None, 1]
        assert client.get("counts", "unicorn", 0) == 0
        with pytest.raises(StateKeyError, match="invalid key 7"):
            client.get("counts", 7)


def test_the_states_are_described(serving: Serving) -> None:
    told = serving.get("/state").json()
    assert told["topology"] == "wc"
    assert told["states"] == [{"name": "counts", "kind": "opaque", "keys": {"word": "string"}, "value": "bigint"}]


def test_pages_hold_each_entry_once(serving: Serving) -> None:
    serving.feed(*(f"word {n}" for n in range(25)))
    with serving.client() as client:
        pages = list(client.scan("counts", pageRows=10))
    assert [len(page) for page in pages] == [10, 10, 7]
    assert len({row.word for page in pages for row in page}) == 27


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times at which reads of whole states began. Each takes a while, and says that it took 0.2 s of the CPU."""
    began: list[float] = []

    def read(view: StateView) -> state_pages.Listing:
        began.append(time.monotonic())
        time.sleep(0.1)
        return listed(view)._replace(seconds=0.2)

    listed = state_pages.listed
    monkeypatch.setattr(state_pages, "listed", read)
    return began


def test_all_pages_of_a_batch_are_of_one_read(serving: Serving, reads: list[float]) -> None:
    with ThreadPoolExecutor(8) as clients:
        pages = list(clients.map(serving.get, ["/state/counts?limit=1"] * 8))
    (after,) = {page.json()["after"] for page in pages}
    assert serving.get(f"/state/counts?limit=1&after={after}").json()["rows"] == [["dog", 2]]
    assert len(reads) == 1


def test_pages_of_a_large_state_leave_the_cpu_to_the_commits(
    serving: Serving, reads: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_pages, "_LARGE", 2)
    for number in range(3):  # each page is as of another batch, so it needs another read
        serving.feed(f"word {number}")
        assert serving.get("/state/counts?limit=1").json()["asOfTxid"] == {"words": number + 2}
    assert all(later - former >= 0.4 for former, later in pairwise(reads)) and len(reads) == 3


def test_the_read_of_a_page_ends_when_its_client_has_gone(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, ended = threading.Event(), list[BaseException]()

    def endless(view: StateView) -> state_pages.Listing:
        try:
            while True:
                view.toArrow()
                reading.set()
        except BaseException as error:
            ended.append(error)
            raise

    monkeypatch.setattr(state_pages, "listed", endless)
    with connect(serving.url) as client:
        client.sendall(b"GET /state/counts?limit=1 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert reading.wait(20)
    wait_until(lambda: [type(error) for error in ended] == [ReadAbandoned])


def test_the_greatest(serving: Serving) -> None:
    with serving.client() as client:
        assert client.top("counts", 1) == [("dog", 2)]


def test_a_range_comes_in_order_page_by_page(serving: Serving) -> None:
    serving.feed("ant", "cow", "[bee]", "Zoë")
    told = serving.get("/state/counts?low=b&high=d").json()
    assert (told["fields"], told["rows"]) == (["word", "count"], [["cat", 1], ["cow", 1]])
    assert told["asOfTxid"] == {"words": 2}
    assert serving.get("/state/counts?low=cat&high=dog&inclusive=right").json()["rows"] == [["cow", 1], ["dog", 2]]
    assert serving.get("/state/counts?prefix=c&limit=1").json()["rows"] == [["cat", 1]]
    with serving.client() as client:
        rows = client.range("counts", limit=2)
        read = [*rows]
        while rows.after is not None:
            rows = client.range("counts", limit=2, after=rows.after)
            read += rows
        assert [row.word for row in read] == sorted(["ant", "cow", "[bee]", "Zoë", "dog", "cat"])
        assert client.range("counts", "cow", "dog", inclusive="both") == [("cow", 1), ("dog", 2)]
        assert client.range("counts", prefix="Zo").txids == {"words": 2}
        assert [row.word for row in client.range("counts", prefix="[")] == ["[bee]"]
        for end, message in ((("a", "b"), "expected word string"), (7, r"invalid key 7 \(int\): expected word string")):
            with pytest.raises(StateKeyError, match=message):
                client.range("counts", end)


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=x",
        "top=1000000",
        "after=%25",
        "lmit=3",
        "prefix=a&low=b",
        "low=a&inclusive=x",
        "low=a&after=7",
        "low=a&json=1",
        "low=a&json=true",
    ],
)
def test_queries_that_are_none(serving: Serving, query: str) -> None:
    told = serving.get(f"/state/counts?{query}")
    assert (told.status_code, told.json()["error"]["type"]) == (400, "InvalidQuery")


def test_a_cursor_is_of_one_state_and_whole(serving: Serving) -> None:
    cursor = serving.get("/state/counts?limit=1").json()["after"]
    assert "after" not in serving.get("/state/counts", params={"limit": 1, "after": cursor}).json()
    _, key = _read_cursor("counts", cursor)
    for other in (cursor[:-4], f"0{cursor[1:].replace('.', '.0', 1)}", _cursor("sums", 1, key)):
        told = serving.get("/state/counts", params={"after": other})
        assert told.status_code == 400 and "is not the cursor of a page of state 'counts'" in told.text
