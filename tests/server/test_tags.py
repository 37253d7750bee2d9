"""Tags over HTTP: made, listed, read and dropped, with the rights of a token, and never made twice in silence."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from trident import AsyncDRPCClient, Count, DRPCClient, TridentTopology, openTopology
from trident.errors import (
    ServerError,
    ServerUnavailableError,
    StateError,
    TagExistsError,
    TagNotFoundError,
    TxidNotKeptError,
)
from trident.server.access_rules import Rights
from trident.server.http_server import serve
from trident.spouts import FeederBatchSpout
from trident.state import DeltaMapState, MemoryMapState
from trident.testing.local import start_local

TOKEN, MINE, SHOP = "the-token-of-the-server", "a-token-that-tags-mine", "a-token-that-only-reads"
TOKENS = {MINE: Rights(states=["mine"], tags=True), SHOP: Rights(states=["mine", "theirs"])}


@pytest.fixture
def feeder() -> FeederBatchSpout:
    return FeederBatchSpout("word string")


@pytest.fixture
def topology(feeder: FeederBatchSpout, tmp_path: Path) -> TridentTopology:
    topology, kept = TridentTopology(), DeltaMapState.opaque(str(tmp_path / "states"))
    words = topology.newStream("words", feeder).groupBy("word")
    for name in ("mine", "theirs"):
        words.persistentAggregate(kept, Count(), "n", name=name)
    return topology


@pytest.fixture
def url(topology: TridentTopology, feeder: FeederBatchSpout, tmp_path: Path) -> Iterator[str]:
    """Serve two states at txid 3, with three tokens."""
    with (
        start_local(topology, name="t", checkpointLocation=tmp_path / "log") as running,
        running.serve(token=TOKEN, tokens=TOKENS) as server,
    ):
        for _ in range(3):
            feeder.feed(["dog"], wait=True, timeout=20)
        yield server.url


def ask(url: str, method: str, path: str, token: str = TOKEN, **more: Any) -> httpx.Response:
    return httpx.request(method, f"{url}{path}", headers={"authorization": f"Bearer {token}"}, timeout=30, **more)


def test_a_client_makes_reads_and_drops_tags(url: str) -> None:
    with DRPCClient(url, token=TOKEN) as client:
        made = client.tag("early", asOf=1)
        assert (made["txids"], made["states"], made["missing"]) == ({"words": 1}, ["mine", "theirs"], [])
        last = client.tag("last", states=["mine"])
        assert (last["txids"], last["states"]) == ({"words": 3}, ["mine"])
        assert client.tags() == [made, last]
        assert [client.get("mine", "dog", asOf=f"tag:{name}") for name in ("early", "last")] == [1, 3]
        assert client.sql("select n from theirs", asOf="tag:early")[0].n == 1
        began = time.monotonic()
        with pytest.raises(TagExistsError, match="the tag 'early' exists already, as of txid 1 of words"):
            client.tag("early")
        assert time.monotonic() - began < 10, "a tag that exists is no reason to ask again"
        with pytest.raises(TxidNotKeptError, match="txid 9 has not been committed yet"):
            client.tag("late", asOf=9)
        client.dropTag("early")
        assert client.tags() == [last]
        with pytest.raises(TagNotFoundError, match="no tag 'early'; the tags are last"):
            client.dropTag("early")

    async def again() -> list[str]:
        async with AsyncDRPCClient(url, token=TOKEN) as client:
            await client.tag("a-b", asOf=2)
            await client.dropTag("last")
            return [tag["name"] for tag in await client.tags()]

    assert asyncio.run(again()) == ["a-b"]


def test_a_token_tags_only_states_that_it_may_read_and_only_with_the_right(url: str) -> None:
    for body in ({"name": "x"}, {"name": "x", "states": ["mine"]}):
        assert ask(url, "POST", "/tags", SHOP, json=body).status_code == 403
    assert ask(url, "GET", "/tags", SHOP).status_code == 403
    refused = ask(url, "POST", "/tags", MINE, json={"name": "all"})
    assert (refused.status_code, "name these states in states" in refused.text) == (403, True)
    for states in (["theirs"], ["mine", "theirs"], ["nothing"]):
        assert ask(url, "POST", "/tags", MINE, json={"name": "x", "states": states}).status_code == 403
    assert ask(url, "GET", "/tags").json() == {"tags": []}

    assert ask(url, "POST", "/tags", json={"name": "whole"}).json()["tag"]["states"] == ["mine", "theirs"]
    assert ask(url, "POST", "/tags", MINE, json={"name": "own", "states": ["mine"]}).status_code == 200
    assert [tag["name"] for tag in ask(url, "GET", "/tags", MINE).json()["tags"]] == ["own"]
    taken = ask(url, "POST", "/tags", MINE, json={"name": "whole", "states": ["mine"]})
    assert (taken.status_code, "exists already, for other states" in taken.text) == (409, True)
    hidden = ask(url, "DELETE", "/tags/whole", MINE)
    assert (hidden.status_code, hidden.json()["error"]["message"]) == (404, "no tag 'whole'; the tags are own")
    assert ask(url, "DELETE", "/tags/own", SHOP).status_code == 403
    assert ask(url, "DELETE", "/tags/own", MINE).json() == {"dropped": "own"}
    assert [tag["name"] for tag in ask(url, "GET", "/tags").json()["tags"]] == ["whole"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"name": "x y"}, 400, "x y"),
        ({"name": "x", "asOf": "soon"}, 400, "soon"),
        ({"name": "x", "asOf": "tag:none"}, 404, "no tag 'none'"),
        ({"name": "x", "states": ["cuonts"]}, 404, "no state 'cuonts'"),
        ({"name": "x", "state": "mine"}, 400, "the body is not valid"),
        ({}, 400, "the body is not valid"),
    ],
)
def test_a_wrong_request_is_refused(url: str, body: object, status: int, message: str) -> None:
    answer = ask(url, "POST", "/tags", json=body)
    assert (answer.status_code, message in answer.json()["error"]["message"]) == (status, True), answer.text
    assert ask(url, "GET", "/tags").json() == {"tags": []}


def test_states_that_keep_no_tags_say_so(tmp_path: Path) -> None:
    topology = TridentTopology()
    words = topology.newStream("words", FeederBatchSpout("word string")).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    with start_local(topology, name="t", checkpointLocation=tmp_path) as running, running.serve() as server:
        answer = httpx.post(f"{server.url}/tags", json={"name": "x"})
        assert answer.status_code == 400 and "counts" in answer.json()["error"]["message"]
        with DRPCClient(server.url) as client, pytest.raises(StateError, match="only a DeltaMapState"):
            client.tag("x")


def test_a_server_without_the_driver_tags_too(
    url: str, topology: TridentTopology, feeder: FeederBatchSpout, tmp_path: Path
) -> None:
    with (
        openTopology(topology, name="t", checkpointLocation=tmp_path / "log") as opened,
        serve(opened, 0, "127.0.0.1", None, (), None, False) as other,
        DRPCClient(url, token=TOKEN) as first,
        DRPCClient(other.url) as second,
    ):
        assert second.tag("beside")["txids"] == {"words": 3}
        assert first.get("mine", "dog", asOf="tag:beside") == 3
        feeder.feed(["dog"], wait=True, timeout=20)
        second._http.base_url = second._conversation.options["base_url"] = url
        second._http.headers["authorization"] = f"Bearer {TOKEN}"
        assert second.tag("later")["txids"] == {"words": 4}


@contextmanager
def breaking() -> Iterator[tuple[str, list[bytes]]]:
    """Serve connections that end after the request was received, and list these requests."""
    received, listening = list[bytes](), socket.create_server(("127.0.0.1", 0))

    def work() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                received.append(connection.recv(1 << 16))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", received
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


@pytest.mark.parametrize("call", ["tag", "dropTag"])
def test_a_change_without_an_answer_is_not_sent_again(call: str) -> None:
    with breaking() as (url, received), DRPCClient(url, timeout=3) as client:
        with pytest.raises(ServerUnavailableError, match=r"tag 'x' may have been (made|dropped): see tags\(\)"):
            getattr(client, call)("x")
        assert len(received) == 1
    with DRPCClient(url, timeout=0.2) as client:  # nobody listens: nothing was sent, so it is tried again
        with pytest.raises(ServerUnavailableError) as error:
            getattr(client, call)("x")
        assert "may have been" not in str(error.value)


def test_a_tag_waits_for_the_batches_that_its_client_has_seen(url: str) -> None:
    with DRPCClient(url, token=TOKEN, timeout=0.3) as client:
        client._conversation._session.note({"words": 9})
        with pytest.raises(ServerError, match="Behind"):
            client.tag("x")
    assert ask(url, "GET", "/tags").json() == {"tags": []}
