"""Tokens, hosts and limits of the server."""

import json
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.server.conftest import Serving
from trident.errors import ServerError, TopologyError
from trident.server.access_rules import Rights
from trident.server.limits import Limits

TOKEN = "0123456789abcdef"


def test_a_token_is_asked_for(serving: Serving) -> None:
    with serving.running.serve(token=TOKEN) as server:
        serving.url = server.url
        for wrong in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}):
            assert serving.get("/state/counts/dog", headers=wrong).status_code == 401
        assert serving.get("/healthz").status_code == 200
        with serving.client(token=TOKEN) as client:
            assert client.get("counts", "dog") == 2
        with serving.client() as client, pytest.raises(ServerError, match="give the server's token"):
            client.get("counts", "dog")


def test_a_token_is_read_where_it_is_said_to_be(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVED", TOKEN)
    with serving.running.serve(token="env:SERVED") as server:
        serving.url = server.url
        with serving.client(token="env:SERVED") as client:
            assert client.get("counts", "dog") == 2


def test_a_token_may_be_for_some_functions_and_states_only(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP", "a-token-of-the-shop")
    rights = {"env:SHOP": Rights(functions=["count"], states=["counts"]), "a-token-that-may-nothing": Rights()}
    with serving.running.serve(token=TOKEN, tokens=rights) as server:
        serving.url = server.url
        shop = {"authorization": "Bearer a-token-of-the-shop"}
        assert serving.post("/drpc/count", {"args": ["dog"]}, headers=shop).json()["rows"] == [["dog", 2]]
        for path in ("/state/counts/dog", "/state/counts?top=1"):
            assert serving.get(path, headers=shop).status_code == 200
        told = serving.post("/drpc/total", {"args": ["dog"]}, headers=shop)
        assert (told.status_code, told.json()["error"]["type"]) == (403, "Forbidden")
        assert told.json()["error"]["message"] == "this token allows only: POST /drpc/count, /state/counts"
        for path in (
            "/state",
            "/tags",
            "/drpc",
            "/topology",
            "/status",
            "/dead-letters",
            "/metrics",
            "/openapi.json",
            "/events",
        ):
            assert serving.get(path, headers=shop).status_code == 403, path
        assert serving.post("/dead-letters/replay", {}, headers=shop).status_code == 403
        nothing = {"authorization": "Bearer a-token-that-may-nothing"}
        assert serving.get("/state/counts/dog", headers=nothing).status_code == 403
        assert serving.get("/state/counts/dog").status_code == 401
        assert serving.get("/state", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    with serving.running.serve(tokens={"a-token-of-the-shop": Rights(states=["counts"])}) as server:
        serving.url = server.url
        assert serving.get("/state/counts/dog").status_code == 401, "also where there is no token for everything"
    with pytest.raises(TopologyError, match="expected a collection of names, such as"):
        Rights(functions="count")


def test_other_hosts_and_short_tokens_are_refused(serving: Serving) -> None:
    with pytest.raises(TopologyError, match="other machines could read every state"):
        serving.running.serve(host="0.0.0.0")
    with pytest.raises(TopologyError, match="the token has 5 characters"):
        serving.running.serve(token="short")
    with pytest.raises(TopologyError, match="the environment variable NO_SUCH_VARIABLE is not set"):
        serving.running.serve(token="env:NO_SUCH_VARIABLE")


def test_another_host_name_is_not_answered(serving: Serving) -> None:
    """A page of the web that has a name of its own lead to this machine gets nothing."""
    told = serving.get("/state/counts/dog", headers={"host": "evil.example"})
    assert (told.status_code, told.json()["error"]["type"]) == (421, "HostNotAllowed")
    with serving.running.serve(allowedHosts=["counts.example"]) as server:
        serving.url = server.url
        assert serving.get("/state/counts/dog", headers={"host": "counts.example"}).status_code == 200


def test_limits(serving: Serving) -> None:
    with serving.running.serve(limits=Limits(bodyBytes=200, keys=3)) as server:
        serving.url = server.url
        assert serving.post("/state/counts", {"keys": ["a"] * 4}).json()["error"]["type"] == "TooManyKeys"
        told = serving.post("/drpc/count", {"args": ["a" * 300]})
        assert (told.status_code, told.json()["error"]["type"]) == (413, "BodyTooLarge")
        told = serving.post("/drpc/count", headers={"content-type": "text/plain"})
        assert told.status_code == 415


def test_a_client_that_asks_too_often_is_told_how_long_to_wait(serving: Serving) -> None:
    with serving.running.serve(limits=Limits(requestsPerSec=2)) as server:
        serving.url = server.url
        with ThreadPoolExecutor(20) as clients:  # all at once: a slow machine answers one after the other in time
            told = list(clients.map(serving.get, ["/state/counts/dog"] * 20))
        assert [each.status_code for each in told].count(429) >= 1
        late = next(each for each in told if each.status_code == 429)
        assert late.json()["error"]["type"] == "TooManyRequests" and late.headers["retry-after"] == "1"
        assert "2 requests per second are allowed; try again in 0." in late.json()["error"]["message"]
        assert serving.get("/healthz").status_code == 200
        with serving.client() as client:  # it waits, and asks again
            assert [client.get("counts", "dog") for _ in range(3)] == [2, 2, 2]


@pytest.mark.parametrize("sent", [b"x-long: " + b"a" * 200_000, b"".join(b"x-%d: 1\r\n" % n for n in range(20_000))])
def test_a_head_that_is_too_large_is_refused(serving: Serving, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", int(serving.url.rpartition(":")[2])), 10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n")
        told = b""
        try:
            for at in range(0, len(sent), 10_000):
                connection.sendall(sent[at : at + 10_000])
                time.sleep(0.01)
            told = connection.recv(1000)
        except ConnectionError:  # it closed while we were still sending
            connection.close()
    assert told == b"" or told.startswith(b"HTTP/1.1 400")
    assert serving.get("/healthz").status_code == 200
    body = json.dumps({"keys": ["dog"] * 5_000})  # a body may be larger than a head
    assert len(serving.post("/state/counts", json.loads(body)).json()["values"]) == 5_000


def test_who_asked_for_what_is_logged_without_keys_and_tokens(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "trident.audit")
    with serving.running.serve(token=TOKEN) as server:
        serving.url = server.url
        headers = {"authorization": f"Bearer {TOKEN}"}
        serving.get("/state/counts/dog", headers=headers)
        serving.post("/drpc/count", {"args": ["dog"]}, headers=headers)
        serving.get("/state/counts?limit=1&after=ZG9n")
    lines = [record.getMessage() for record in caplog.records if record.name == "trident.audit"]
    assert [re.sub(r"in [\d.]+ ms", "in - ms", line) for line in lines] == [
        "127.0.0.1 GET /state/counts/...: 200 in - ms",
        "127.0.0.1 POST /drpc/count: 200 in - ms",
        "127.0.0.1 GET /state/counts: 401 in - ms",
    ]
    assert not any("dog" in line or TOKEN in line or "ZG9n" in line for line in lines)


def test_the_server_tells_how_it_is(serving: Serving) -> None:
    assert serving.get("/healthz").json() == {"status": "alive"}
    assert serving.get("/readyz").json() == {"status": "ready", "asOfTxid": {"words": 1}}
