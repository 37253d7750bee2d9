"""Entries with a value in the fields of an index, over HTTP and by the clients."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest

from trident import AsyncDRPCClient, DRPCClient, TridentTopology
from trident.errors import ServerError, StateKeyError
from trident.spouts import FixedBatchSpout

ROWS = [(number, "ann" if number % 2 else "bob", 7 if number < 5 else None) for number in range(9)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    topology = TridentTopology()
    people = topology.newStream("people", FixedBatchSpout("id long, name string, floor long", [ROWS]))
    people.toTable("id", name="people", index=["name", ("name", "floor")])
    rooms = people.each("id", lambda id: [id % 3, id], "room array<long>")
    rooms.toTable("room", name="rooms", index="name")
    folder = tmp_path_factory.mktemp("people")
    with (
        topology.start(engine="embedded", name="p", checkpointLocation=folder) as running,
        running.serve() as server,
    ):
        running.processAllAvailable()
        yield server.url


def ids(answer: httpx.Response) -> list[int]:
    return [row[0] for row in answer.json()["rows"]]


def test_a_page_has_the_entries_with_the_value(url: str) -> None:
    first = httpx.get(f"{url}/state/people?index=name&value=ann&limit=3")
    assert ids(first) == sorted(ids(first)) and first.json()["asOfTxid"] == {"people": 1}
    rest = httpx.get(f"{url}/state/people", params={"index": "name", "value": "ann", "after": first.json()["after"]})
    assert (len(ids(first)), sorted(ids(first) + ids(rest))) == (3, [1, 3, 5, 7]) and "after" not in rest.json()
    assert ids(httpx.get(f"{url}/state/people?index=name,floor&value=[%22ann%22,7]")) == [1, 3]
    assert ids(httpx.get(f"{url}/state/people?index=name&value=%22bob%22&json=true")) == [0, 2, 4, 6, 8]
    ranged = httpx.get(f"{url}/state/people?limit=1").json()["after"]
    refused = httpx.get(f"{url}/state/people", params={"index": "name", "value": "ann", "after": ranged})
    assert "is not the cursor of a page of state 'people.by.name'" in refused.json()["error"]["message"]


def test_clients_ask_by_the_fields(url: str) -> None:
    with DRPCClient(url) as client:
        page = client.by("people", "name", "ann", limit=3)
        rest = client.by("people", "name", "ann", after=page.after)
        assert sorted(row.id for row in [*page, *rest]) == [1, 3, 5, 7] and page.txids == {"people": 1}
        assert [row.id for row in client.by("people", ["name", "floor"], ("bob", None))] == [6, 8]
        with pytest.raises(StateKeyError, match=r"no index by \(floor\); its indexes are by \(name\), \(name, floor\)"):
            client.by("people", "floor", 7)

    async def ask() -> list[int]:
        async with AsyncDRPCClient(url) as client:
            return [row.id for row in await client.by("people", "name", "bob")]

    assert asyncio.run(ask()) == [0, 2, 4, 6, 8]


def test_keys_without_an_order_come_in_pages_too(url: str) -> None:
    with DRPCClient(url) as client:
        found, after, pages = list[list[int]](), None, 0
        while pages == 0 or after is not None:
            page = client.by("rooms", "name", "bob", limit=2, after=after)
            found, after, pages = found + [list(row.room) for row in page], page.after, pages + 1
        assert (pages, sorted(found)) == (3, sorted([number % 3, number] for number in range(0, 9, 2)))
        assert sorted(list(row.room) for row in client.by("rooms", "name", "bob")) == sorted(found)
        with pytest.raises(StateKeyError, match="have no order, so there are no ranges of them"):
            client.range("rooms")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("index=name", "index (a field of an index) and value (the value of that field) must be given together"),
        ("value=ann", "index (a field of an index) and value (the value of that field) must be given together"),
        ("index=name&value=ann&low=1", "index is given with low; give one or the other"),
        ("index=name&value=ann&json=true", "json=true, and 'ann' is not JSON"),
        ("index=name&value=ann&after=x", "after='x' is not the cursor"),
        ("index=&value=ann", "state 'people' has no index by ()"),
        ("index=name,floor&value=ann", "expected a JSON list of (name string, floor bigint)"),
    ],
)
def test_a_wrong_question_is_refused(url: str, query: str, message: str) -> None:
    answer = httpx.get(f"{url}/state/people?{query}")
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_the_description_names_the_indexes(url: str) -> None:
    described = httpx.get(f"{url}/openapi.json").json()["paths"]["/state/people"]["get"]["parameters"]
    assert {"enum": ["name", "name,floor"]} in [each["schema"] for each in described if each["name"] == "index"]
    names = [each["name"] for each in described]
    assert len(names) == len(set(names))


def test_a_state_without_an_index_says_so(url: str) -> None:
    with DRPCClient(url) as client, pytest.raises((StateKeyError, ServerError), match="has no index by"):
        client.by("people.by.name", "keys", "x")
