"""The answers that the page is made of, without a browser: files, topology, status, events, dead letters."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.counting import counting
from tests.server.shop import Shop
from tests.support.waiting import wait_until
from trident import openTopology
from trident.errors import StateError, TridentError
from trident.run.running import RunningTopology
from trident.server.event_ring import EventRing
from trident.server.http_server import serve
from trident.server.stop_advice import fault_of

TOKEN = "0123456789abcdef"


class Asked:
    """A running shop with its server."""

    def __init__(self, shop: Shop, running: RunningTopology, folder: Path) -> None:
        self.shop, self.running, self.folder = shop, running, folder
        self.server = running.serve()

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(self.server.url + path, timeout=8, **options)

    def post(self, path: str, content: Any) -> httpx.Response:
        return httpx.post(self.server.url + path, json=content, timeout=8)


@pytest.fixture
def asked(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Asked]:
    shop = Shop(tmp_path, visited=getattr(request, "param", True))
    folder = tmp_path / "checkpoint"
    running = shop.topology().start(engine="embedded", name="shop", checkpointLocation=folder, maxAttempts=2)
    try:
        yield Asked(shop, running, folder)
    finally:
        running.stop()


def pieces(answer: httpx.Response) -> Iterator[tuple[str, str, Any]]:
    """Yield the events of a stream, each as its kind, id and content."""
    kind = id = ""
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "id":
            id = value
        elif name == "data":
            yield kind, id, json.loads(value)
            kind = id = ""


def heard(asked: Asked, enough: int, **options: Any) -> list[tuple[str, str, Any]]:
    """Return what /events says, until there are so many progress events."""
    told = []
    with httpx.stream("GET", asked.server.url + "/events", timeout=8, **options) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for piece in pieces(answer):
            told.append(piece)
            if sum(kind == "progress" for kind, _, _ in told) >= enough and any(k == "status" for k, _, _ in told):
                return told
    raise AssertionError(told)


# --- files ------------------------------------------------------------------------------------------------------------


def test_the_page_has_no_script_or_style_of_its_own_and_nothing_from_elsewhere(asked: Asked) -> None:
    told = asked.get("/")
    policy = told.headers["content-security-policy"]
    assert "script-src 'self'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert re.findall(r"<script(?![^>]*src=)", told.text) == [] and "<style" not in told.text
    assert re.findall(r"\son\w+=|style=|https?://", told.text) == []
    seen, waiting = set(), re.findall(r'(?:href|src)="(/page/[^"]+)"', told.text)
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        file = asked.get(path)
        assert file.status_code == 200, path
        imported = re.findall(r'from "(\.{1,2}/[^"]+)"', file.text) if path.endswith(".js") else []
        waiting += [httpx.URL(f"http://x{path}").join(each).path for each in imported]
    assert {"/page/page.css", "/page/main.js", "/page/views/letters.js", "/page/dom.js"} <= seen
    again = asked.get("/page/main.js", headers={"if-none-match": asked.get("/page/main.js").headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["../app.py", "%2e%2e/app.py", "views", "nothing.js", "/etc/passwd"])
def test_only_files_of_the_page_are_answered(asked: Asked, path: str) -> None:
    assert asked.get(f"/page/{path}").status_code == 404


def test_the_files_need_no_token_and_what_they_show_does(asked: Asked) -> None:
    with asked.running.serve(token=TOKEN) as server:
        asked.server = server
        assert asked.get("/").status_code == 200
        for path in ("/topology", "/status", "/events", "/dead-letters"):
            assert asked.get(path).status_code == 401, path
            if path != "/events":
                assert asked.get(path, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert httpx.get(server.url + "/status", headers={"host": "evil.example"}).status_code == 421


# --- topology and status ----------------------------------------------------------------------------------------------


def test_the_topology_tells_its_picture_its_promises_and_its_functions(asked: Asked) -> None:
    told = asked.get("/topology").json()
    assert (told["name"], told["engine"], told["replayable"]) == ("shop", "embedded", ["orders"])
    boxes = {box["title"]: box for box in told["picture"]["boxes"]}
    assert boxes["sold"]["kind"] == "state" and boxes["sold"]["width"] > 0
    assert {arrow["path"][0] for arrow in told["picture"]["arrows"]} == {"M"}
    states = {state["name"]: state for state in told["states"]}
    assert sorted(states) == ["deadLetters", "hours", "sold", "visited"]
    assert states["sold"]["exactlyOnce"] and states["sold"]["promise"] == "exactly-once"
    assert not states["visited"]["exactlyOnce"] and states["visited"]["promise"].startswith("nothing")
    assert [name for name, state in states.items() if state["deadLetters"]] == ["deadLetters"]
    (enough,) = [each for each in told["functions"] if each["name"] == "enough"]
    assert enough["arguments"] == [{"name": "items", "type": "string"}, {"name": "least", "type": "bigint"}]


def test_the_status_tells_txids_and_watermarks(asked: Asked) -> None:
    asked.shop.fill(asked.running)
    told = asked.get("/status").json()
    assert (told["condition"], told["engine"], told["fault"]) == ("running", "embedded", None)
    groups = {group["name"]: group for group in told["groups"]}
    assert (groups["orders"]["committed"], groups["visits"]["committed"]) == (2, 1)
    (window,) = groups["orders"]["windows"]
    assert window["state"] == "hours" and window["watermark"].startswith("2026-03-01T12:50")


@pytest.mark.parametrize("asked", [False], indirect=True)
def test_a_run_that_failed_goes_on_to_show_why_until_it_is_stopped(asked: Asked) -> None:
    asked.shop.order(asked.running, "pear,7,55")
    with suppress(TridentError):
        asked.shop.order(asked.running, "fire,1,1")
    wait_until(lambda: not asked.running.isActive)
    told = asked.get("/status").json()
    fault = told["fault"]
    assert (told["condition"], fault["type"]) == ("failed", "BatchFailedError")
    assert fault["meaning"] == "A function of your code failed on a tuple, every time."
    assert "the till is on fire" in fault["message"] + "".join(fault["causes"])
    assert any("onError" in way for way in fault["wayOut"])
    assert {group["name"]: group["committed"] for group in told["groups"]} == {"orders": 1}
    asked.running.stop()
    with pytest.raises(httpx.ConnectError):
        asked.get("/status")


def test_every_error_that_stops_a_run_has_a_way_out() -> None:
    from trident.base import errors

    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.TridentError):
            error = kind("text", 1) if kind is errors.StateBehindError else kind("text")
            fault = fault_of(error)
            assert fault.meaning and fault.kept and fault.wayOut, kind


def test_a_run_without_a_checkpoint_promises_nothing_beyond_its_process() -> None:
    topology, feeder = counting()
    with pytest.warns(RuntimeWarning, match="has no checkpointLocation"):
        running = topology.start(engine="embedded", name="fleeting")
    with running, running.serve() as server:
        feeder.feed([("dog",)])
        running.processAllAvailable(30)
        told = httpx.get(f"{server.url}/topology").json()
        assert [state["survives"] for state in told["states"]] == ["process"]
        status = httpx.get(f"{server.url}/status").json()
        assert status["lasting"] is False and status["groups"][0]["committedAt"].endswith("Z")
    fault = fault_of(StateError("text"), lasting=False)
    assert "no checkpointLocation" in fault.kept and "same name and checkpoint" not in "".join(fault.wayOut)


def test_a_batch_that_failed_is_told_by_its_cause() -> None:
    from trident.base.errors import BatchFailedError, DataLossError

    error = BatchFailedError("batch 7 failed 5 times")
    error.__cause__ = DataLossError("offsets 3 to 9 are gone")
    fault = fault_of(error)
    assert fault.meaning == "A source lost tuples before the topology read them."
    assert fault.causes == ["DataLossError: offsets 3 to 9 are gone"]


# --- events -----------------------------------------------------------------------------------------------------------


def test_events_begin_with_what_is_kept_and_go_on_behind_the_last_one(asked: Asked) -> None:
    asked.shop.fill(asked.running)
    told = heard(asked, 4)
    assert told[0][0] == "hello"
    progress = [(id, content) for kind, id, content in told if kind == "progress"]
    committed = [(event["group"], event["txid"]) for _, event in progress if event["event"] == "committed"]
    assert sorted(committed) == [("orders", 1), ("orders", 2), ("visits", 1)]
    asked.shop.order(asked.running, "apple,1,10")
    (only,) = [p for p in heard(asked, 1, headers={"last-event-id": progress[-1][0]}) if p[0] == "progress"]
    assert (only[2]["group"], only[2]["txid"]) == ("orders", 3)
    assert len([p for p in heard(asked, 5, headers={"last-event-id": "another-run-4"}) if p[0] == "progress"]) == 5


def test_a_reader_that_falls_behind_is_told_how_much_it_missed(asked: Asked) -> None:
    ring = EventRing(asked.running.runId, capacity=3)
    asked.running.watched.events = ring
    for n in range(10):
        ring.add({"event": "committed", "txid": n})
    told = heard(asked, 3)
    assert [content for kind, _, content in told if kind == "missed"] == [{"events": 7}]
    assert [content["txid"] for kind, _, content in told if kind == "progress"] == [7, 8, 9]


def test_a_reader_that_waits_does_not_hold_up_the_end_of_the_server(asked: Asked) -> None:
    with httpx.stream("GET", asked.server.url + "/events", timeout=8) as answer:
        events = pieces(answer)
        assert next(events)[0] == "hello"
        began = time.monotonic()
        asked.server.stop()
        assert time.monotonic() - began < 2
        assert [kind for kind, _, _ in events] in ([], ["status"])  # and the stream has ended in good order


def test_too_many_readers_are_refused(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident.server.event_stream._READERS", 1)
    with (
        asked.running.serve() as server,
        httpx.stream("GET", server.url + "/events", timeout=8) as answer,
    ):
        events = pieces(answer)  # kept: the stream closes with it
        assert next(events)[0] == "hello"
        told = httpx.get(server.url + "/events")
        assert (told.status_code, told.json()["error"]["type"]) == (503, "TooManyReaders")


# --- dead letters -----------------------------------------------------------------------------------------------------


def test_dead_letters_are_listed_and_put_back(asked: Asked) -> None:
    asked.shop.fill(asked.running)
    asked.shop.order(asked.running, "fig,few,1", "kiwi,some,2")
    told = asked.get("/dead-letters?limit=2").json()
    assert (told["canReplay"], told["replayable"]) == (True, ["orders"])
    (kept,) = told["states"]
    assert (kept["state"], kept["count"]) == ("deadLetters", 3)
    assert [json.loads(letter["tuple"])["line"] for letter in kept["letters"]] == ["kiwi,some,2", "fig,few,1"]
    asked.shop.lenient = True
    assert asked.post("/dead-letters/replay", {"stream": "orders", "ids": [kept["letters"][0]["id"]]}).json() == {
        "replayed": 1
    }
    asked.running.processAllAvailable(30)
    assert asked.get("/state/sold/kiwi").json()["value"] == 0
    assert asked.post("/dead-letters/replay", {"stream": "orders"}).json() == {"replayed": 2}
    asked.running.processAllAvailable(30)
    assert asked.get("/dead-letters").json()["states"][0]["letters"] == []


@pytest.mark.parametrize(
    ("content", "status", "kind", "message"),
    [
        (
            {"stream": "visits"},
            409,
            "TopologyError",
            "no dead letters are replayed into 'visits'; they can be replayed into",
        ),
        ({"stream": "orders", "state": "sold"}, 404, "StateNotFound", "'sold' is not a state of dead letters"),
        ({"straem": "orders"}, 400, "InvalidBody", "unknown field `straem`"),
    ],
)
def test_a_replay_that_cannot_be_is_told(asked: Asked, content: Any, status: int, kind: str, message: str) -> None:
    told = asked.post("/dead-letters/replay", content)
    assert (told.status_code, told.json()["error"]["type"]) == (status, kind)
    assert message in told.json()["error"]["message"]


# --- without a driver -------------------------------------------------------------------------------------------------


def test_without_a_driver_there_are_txids_and_states_and_nothing_is_put_back(asked: Asked) -> None:
    asked.shop.fill(asked.running)
    topology = Shop(asked.shop.folder).topology()
    with (
        openTopology(topology, name="shop", checkpointLocation=asked.folder) as opened,
        serve(opened, 0, "127.0.0.1", None, (), None, False) as server,
    ):
        asked.server = server
        told = asked.get("/status").json()
        assert (told["condition"], told["engine"]) == ("following", None)
        assert {group["name"]: group["committed"] for group in told["groups"]} == {"orders": 2, "visits": 1}
        letters = asked.get("/dead-letters").json()
        assert (letters["canReplay"], letters["states"][0]["count"]) == (False, 1)
        refused = asked.post("/dead-letters/replay", {"stream": "orders"})
        assert refused.status_code == 409 and "open the page of running.serve()" in refused.text
        assert [kind for kind, _, _ in heard(asked, 0)] == ["hello", "status"]
