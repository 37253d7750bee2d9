"""AsyncDRPCClient: the answers and errors of DRPCClient, for many tasks at once."""

import asyncio
import time

import pytest

from tests.server.conftest import Serving
from trident import AsyncDRPCClient, DRPCClient
from trident.errors import (
    DRPCNotFoundError,
    DRPCTimeoutError,
    MissingPackageError,
    ServerUnavailableError,
    StateKeyError,
)


def test_it_answers_as_the_other_client_does(serving: Serving) -> None:
    async def ask() -> None:
        async with AsyncDRPCClient(serving.url) as client:
            rows = await client.execute("count", "dog")
            assert (rows, rows.asOfTxid) == ([("dog", 2)], 1)
            assert await client.execute("count", word="cat") == [("cat", 1)]
            assert await client.multiGet("counts", ["dog", "unicorn"]) == [2, None]
            assert await client.get("counts", "unicorn", 0) == 0
            assert await client.top("counts", 1) == [("dog", 2)]
            assert [[row.word for row in page] async for page in client.scan("counts", 1)] == [["cat"], ["dog"]]
            assert (await client.functions())["count"] == "count(word string)"
            assert [each["name"] for each in await client.states()] == ["counts"]
            with pytest.raises(DRPCNotFoundError, match="no DRPC function 'nothing'"):
                await client.execute("nothing")
            with pytest.raises(StateKeyError, match="invalid key 7"):
                await client.get("counts", 7)
            assert repr(client) == f"AsyncDRPCClient({serving.url!r})"

    asyncio.run(ask())


def test_a_task_that_waits_holds_no_other_up(serving: Serving) -> None:
    async def ask() -> list[str]:
        ended: list[str] = []
        async with AsyncDRPCClient(serving.url) as client:

            async def one(function: str, word: str) -> None:
                await client.execute(function, word)
                ended.append(function)

            await asyncio.gather(one("slow", "1.5"), *(one("count", "dog") for _ in range(8)))
        return ended

    assert asyncio.run(ask()) == [*["count"] * 8, "slow"]


def test_a_deadline_is_the_servers_too(serving: Serving) -> None:
    async def ask() -> None:
        async with AsyncDRPCClient(serving.url) as client:
            with pytest.raises(DRPCTimeoutError):
                await client.execute("slow", "3", timeout=0.1)

    began = time.monotonic()
    asyncio.run(ask())
    assert time.monotonic() - began < 2.5


def test_what_it_reads_never_goes_back(serving: Serving) -> None:
    async def ask() -> None:
        async with AsyncDRPCClient(serving.url) as client:
            for count in range(3, 8):
                await asyncio.to_thread(serving.feed, "dog")
                assert (await client.execute("count", "dog"))[0]["count"] == count

    asyncio.run(ask())


@pytest.mark.parametrize("kind", [DRPCClient, AsyncDRPCClient])
def test_a_server_that_is_not_there_is_told_after_the_time(kind: type[DRPCClient] | type[AsyncDRPCClient]) -> None:
    async def ask() -> None:
        client = kind("http://127.0.0.1:1", timeout=0.3)
        asked = client.execute("count", "dog")
        await asked  # type: ignore[misc]

    began = time.monotonic()
    with pytest.raises(ServerUnavailableError, match="http://127.0.0.1:1 does not answer"):
        asyncio.run(ask())
    assert 0.05 <= time.monotonic() - began < 5


@pytest.mark.parametrize("kind", [DRPCClient, AsyncDRPCClient])
def test_without_httpx_it_says_what_to_install(
    kind: type[DRPCClient] | type[AsyncDRPCClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "httpx", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'trident-pyspark\[client\]'"):
        kind("http://127.0.0.1:1")
