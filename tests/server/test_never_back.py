"""What a client reads never goes back, by whichever call and from whichever server."""

import asyncio
import inspect
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import trident_client
from tests.server.counting import counting
from trident import AsyncDRPCClient, DRPCClient, openTopology
from trident.errors import ServerError
from trident.server.http_server import serve

CALLS: dict[str, Callable[[Any], Any]] = {
    "get": lambda client: client.get("counts", "dog"),
    "multiGet": lambda client: client.multiGet("counts", ["dog"]),
    "execute": lambda client: client.execute("count", "dog"),
    "top": lambda client: client.top("counts", 1),
    "scan": lambda client: client.scan("counts"),
    "range": lambda client: client.range("counts", "dog"),
    "by": lambda client: client.by("counts", "count", 1),
    "sql": lambda client: client.sql("select * from counts"),
    "changes": lambda client: client.changes("counts", snapshot=True),
}
READS_NO_STATE = {"functions", "states", "tags", "tag", "dropTag", "close", "aclose"}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Serve a topology at txid 5, and a copy of its checkpoint at txid 2: a server that is three batches behind."""
    folder: Path = tmp_path_factory.mktemp("behind")
    for until in (2, 5):
        topology, feeder = counting(index="count")
        with topology.start(engine="embedded", name="wc", checkpointLocation=folder / "ckpt") as running:
            while running.asOfTxid["words"] < until:
                feeder.feed([("dog",)])
                running.processAllAvailable()
        if until == 2:
            shutil.copytree(folder / "ckpt", folder / "behind")
    rest = (0, "127.0.0.1", None, (), None, False)
    with (
        pytest.MonkeyPatch.context() as patched,
        openTopology(counting(index="count")[0], name="wc", checkpointLocation=folder / "ckpt") as opened,
        openTopology(counting(index="count")[0], name="wc", checkpointLocation=folder / "behind") as behind,
        serve(opened, *rest) as first,
        serve(behind, *rest) as second,
    ):
        patched.setattr("trident.server.waiting_requests._HEADER_SECONDS", 0.05)
        yield first.url, second.url


def turn(client: Any, url: str) -> None:
    """Send the next request to another server, as a balancer does."""
    client._http.base_url = client._conversation.options["base_url"] = url


def answer_of(called: Any) -> Any:
    return next(called) if isinstance(called, Iterator) else called


def test_the_list_has_all_calls() -> None:
    for client in (DRPCClient, AsyncDRPCClient):
        calls = {name for name, _ in inspect.getmembers(client, inspect.isfunction) if not name.startswith("_")}
        assert calls - READS_NO_STATE == {*CALLS}


@pytest.mark.parametrize("seen", CALLS)
@pytest.mark.parametrize("name", CALLS)
def test_no_call_goes_back(servers: tuple[str, str], seen: str, name: str) -> None:
    with DRPCClient(servers[0], timeout=0.3) as client:
        answer_of(CALLS[seen](client))
        turn(client, servers[1])
        with pytest.raises(ServerError, match=r"Behind: .*5\. If the topology was reset, .*: create a new client"):
            answer_of(CALLS[name](client))


@pytest.mark.parametrize("name", CALLS)
def test_no_call_of_the_other_client_goes_back(servers: tuple[str, str], name: str) -> None:
    async def ask() -> None:
        async with AsyncDRPCClient(servers[0], timeout=0.3) as client:
            await client.top("counts", 1)
            turn(client, servers[1])
            called = CALLS[name](client)
            await (called if inspect.isawaitable(called) else anext(called))

    with pytest.raises(ServerError, match=r"Behind: .*5"):
        asyncio.run(ask())


@pytest.mark.parametrize("blocking", [DRPCClient, trident_client.DRPCClient], ids=["arrow", "plain"])
@pytest.mark.parametrize("name", [name for name in CALLS if name != "changes"])
def test_an_answer_of_a_server_that_does_not_know_to_wait_is_none(
    servers: tuple[str, str], name: str, blocking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(waiting: Any, request: Any, least: Any, timeout: float) -> dict[str, int]:
        return {}

    monkeypatch.setattr("trident.server.waiting_requests.Waiting.reach", at_once)
    with blocking(servers[0], timeout=0.3) as client:
        client.top("counts", 1)
        turn(client, servers[1])
        with pytest.raises(
            ServerError, match="Behind: the server is at {'words': 2}, but the request needs {'words': 5}"
        ):
            answer_of(CALLS[name](client))


def test_what_a_header_names_is_checked(servers: tuple[str, str]) -> None:
    import httpx

    for text in ("7", "[1]", '{"words": "x"}', "{" * 5000, '{"words": 1e999}', '{"words": %s}' % ("9" * 400)):
        told = httpx.get(f"{servers[0]}/state/counts", headers={"trident-min-txid": text}, timeout=30)
        assert told.status_code in (400, 409), text
