"""Reads of earlier batches over HTTP: by a txid or by a time, of keys, pages, ranges and queries."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from trident import Count, DRPCClient, TridentTopology
from trident.errors import TxidNotKeptError
from trident.spouts import FeederBatchSpout
from trident.state import DeltaMapState
from trident.testing.local import start_local


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    """Serve counts of which batch t has brought "dog" t times, and one more word each."""
    folder: Path = tmp_path_factory.mktemp("past")
    topology, feeder = TridentTopology(), FeederBatchSpout("word string")
    words = topology.newStream("words", feeder).groupBy("word")
    tables = DeltaMapState.opaque(folder / "tables")
    words.persistentAggregate(tables, Count(), "count", name="counts", index="count")
    with start_local(topology, name="past", checkpointLocation=folder) as running:
        for batch in range(1, 8):
            feeder.feed(["dog", f"word {batch}"], wait=True, timeout=20)
            time.sleep(0.02)
        with running.serve() as server:
            yield running, server.url


def moment(running: Any, txid: int) -> str:
    seconds = running.commitTimes("words").of(txid)
    return (datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=1)).isoformat()


@pytest.mark.parametrize("named", ["txid", "time"])
def test_keys_pages_ranges_and_queries(served: tuple[Any, str], named: str) -> None:
    running, url = served
    for txid in (3, 5):
        as_of = txid if named == "txid" else moment(running, txid)
        told = httpx.get(f"{url}/state/counts/dog", params={"asOf": as_of}).json()
        assert (told["value"], told["asOfTxid"]) == (txid, {"words": txid})
        asked = {"keys": ["dog", "word 4"], "asOf": as_of}
        assert httpx.post(f"{url}/state/counts", json=asked).json()["values"] == [txid, 1 if txid > 3 else None]
        words = ["dog", *(f"word {n}" for n in range(1, txid + 1))]
        found, after = list[str](), {}
        while True:
            page = httpx.get(f"{url}/state/counts", params={"asOf": as_of, "limit": 2} | after).json()
            assert page["asOfTxid"] == {"words": txid}
            found += [word for word, _ in page["rows"]]
            if "after" not in page:
                break
            after = {"after": page["after"]}
        assert sorted(found) == words
        ranged = httpx.get(f"{url}/state/counts", params={"asOf": as_of, "prefix": "word"}).json()
        assert [word for word, _ in ranged["rows"]] == words[1:]
        top = httpx.get(f"{url}/state/counts", params={"asOf": as_of, "top": 1}).json()
        assert top["rows"] == [["dog", txid]]
        query = {"query": "select count(*), sum(count) from counts", "asOf": as_of}
        told = httpx.post(f"{url}/sql", json=query).json()
        assert (told["rows"], told["asOfTxid"]) == ([[txid + 1, 2 * txid]], {"words": txid})


def test_pages_of_several_batches_do_not_mix(served: tuple[Any, str]) -> None:
    _, url = served
    for _ in range(2):
        for txid in (7, 2, None, 6):
            given = {} if txid is None else {"asOf": txid}
            rows = httpx.get(f"{url}/state/counts", params=given).json()["rows"]
            assert len(rows) == (txid or 7) + 1


def test_the_client(served: tuple[Any, str]) -> None:
    running, url = served
    with DRPCClient(url) as client:
        assert client.get("counts", "dog") == 7
        assert client.get("counts", "dog", asOf=3) == 3
        assert client.multiGet("counts", ["dog", "word 6"], asOf=moment(running, 5)) == [5, None]
        rows = client.sql("select count from counts where word = 'dog'", asOf=4)
        assert (rows[0][0], rows.txids) == (4, {"words": 4})
        assert client.get("counts", "dog") == 7
        with pytest.raises(TxidNotKeptError, match="txid 99 has not been committed yet"):
            client.get("counts", "dog", asOf=99)


@pytest.mark.parametrize("named", ["txid", "time", "tag"])
def test_the_clients_top_lists_ranges_and_scans(served: tuple[Any, str], named: str) -> None:
    running, url = served
    with DRPCClient(url) as client:
        if named == "tag":
            running.tag("three", asOf=3)
            (tag,) = client.tags()
            assert (tag["name"], tag["txids"], tag["states"]) == ("three", {"words": 3}, ["counts", "counts.by.count"])
        as_of = {"txid": 3, "time": datetime.fromisoformat(moment(running, 3)), "tag": "tag:three"}[named]
        assert [tuple(row) for row in client.top("counts", 1, asOf=as_of)] == [("dog", 3)]
        found = client.range("counts", prefix="word", limit=2, asOf=as_of)
        assert [row.word for row in found] == ["word 1", "word 2"]
        assert [row.word for row in client.range("counts", prefix="word", after=found.after, asOf=as_of)] == ["word 3"]
        assert [row.word for row in client.by("counts", "count", 3, asOf=as_of)] == ["dog"]
        pages = list(client.scan("counts", 3, asOf=as_of))
        assert [len(page) for page in pages] == [3, 1]
        assert sorted(tuple(row) for page in pages for row in page)[0] == ("dog", 3)
        assert all(page.txids == {"words": 3} for page in [found, *pages])
        assert client.top("counts", 1)[0][1] == 7
        if named == "tag":
            running.dropTag("three")
            assert client.tags() == []


@pytest.mark.parametrize(
    ("as_of", "status", "message"),
    [
        (99, 404, "txid 99 has not been committed yet; the state can be read as of the txids 0 to 7"),
        ("2001-01-01", 404, "is before the batches that are kept"),
        ("2999-01-01", 400, "this time is in the future"),
        ("soon", 400, "expected 'previous'"),
        ("-1", 400, "expected 'previous'"),
    ],
)
def test_a_batch_that_cannot_be_read(served: tuple[Any, str], as_of: Any, status: int, message: str) -> None:
    _, url = served
    answers = [
        httpx.get(f"{url}/state/counts", params={"asOf": as_of}),
        httpx.get(f"{url}/state/counts/dog", params={"asOf": as_of}),
        httpx.post(f"{url}/state/counts", json={"keys": ["dog"], "asOf": as_of}),
        httpx.post(f"{url}/sql", json={"query": "from counts", "asOf": as_of}),
    ]
    for answer in answers:
        assert answer.status_code == status, answer.text
        assert message in answer.json()["error"]["message"]
