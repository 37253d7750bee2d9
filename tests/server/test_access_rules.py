"""Tokens, hosts and limits of the server."""

import pytest

from tests.server.conftest import Serving
from trident.errors import ServerError, TopologyError
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


def test_other_hosts_and_short_tokens_are_refused(serving: Serving) -> None:
    with pytest.raises(TopologyError, match="other machines could read every state"):
        serving.running.serve(host="0.0.0.0")
    with pytest.raises(TopologyError, match="the token has 5 characters"):
        serving.running.serve(token="short")
    with pytest.raises(TopologyError, match="no such environment variable"):
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


def test_the_server_tells_how_it_is(serving: Serving) -> None:
    assert serving.get("/healthz").json() == {"status": "alive"}
    assert serving.get("/readyz").json() == {"status": "ready", "asOfTxid": {"words": 1}}
