"""trident_client gives the values that the client with Arrow gives, from JSON, by the types that the server names."""

import asyncio
import copy
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import trident
import trident_client
from tests.server.conftest import Serving
from trident import TridentTopology
from trident.errors import DRPCNotFoundError, ServerError, StateKeyError
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState
from trident_client.changes import ChangesReader, Event, EventReader

FIELDS = (
    "id long, text string, price decimal(20,4), day date, at timestamp, local timestamp_ntz, ratio double, "
    "share float, sent boolean, raw binary, tags array<string>, days array<date>, sizes map<string, long>, "
    "by_day map<date, decimal(4,2)>, by_id map<long, binary>, inner struct<`a b`: date, `c``d`: array<struct<x: long>>>"
)
NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
FULL = (
    *(1, 'a "quoted" text, ü\n', Decimal("12345678901234.5678"), date(2026, 2, 28), NOON, NOON.replace(tzinfo=None)),
    *(float("nan"), 0.25, True, b"\x00\xff", ["a", None], [date(1, 1, 1), None], {"ü": 2**53 + 1, "": None}),
    *({date(2026, 1, 1): Decimal("1.50")}, {-7: b"x"}, (date(2026, 1, 2), [(5,), None])),
)
SPARSE = (2, *[None] * 15)
EDGES = (
    *(2**63 - 1, "", Decimal("-0.0001"), date(9999, 12, 31), datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31)),
    *(float("-inf"), -0.0, False, b"", [], [], {}, {}, {0: None}, (None, [])),
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a table with a field of each type."""
    topology, feeder = TridentTopology(), FeederBatchSpout(FIELDS)
    topology.newStream("rows", feeder).toTable("id", MemoryMapState.opaque(), name="rows")
    folder = tmp_path_factory.mktemp("typed")
    with topology.start(engine="embedded", name="typed", checkpointLocation=folder) as running:
        feeder.feed([FULL, SPARSE, EDGES])
        running.processAllAvailable()
        with running.serve() as server:
            yield server.url


def shown(rows: Any) -> list[str]:
    """Return rows as exact texts; both kinds of Row show their fields' names."""
    return [repr(row).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc") for row in rows]


CALLS: dict[str, Any] = {
    "scan": lambda client: [row for page in client.scan("rows", 2) for row in page],
    "range": lambda client: client.range("rows", 1, 3),
    "multiGet": lambda client: client.multiGet("rows", [1, 2, 3, 2**63 - 1]),
    "top": lambda client: client.top("rows", 1, by="price"),
    "sql": lambda client: client.sql("select * from rows order by id"),
    "sql without rows": lambda client: client.sql("select id from rows where id < 0"),
}


@pytest.mark.parametrize("name", CALLS)
def test_both_clients_give_the_same_values(url: str, name: str) -> None:
    with trident.DRPCClient(url) as arrow, trident_client.DRPCClient(url) as plain:
        expected, found = CALLS[name](arrow), CALLS[name](plain)
    assert shown(found) == shown(expected)
    for attribute in ("fields", "txids", "asOfTxid", "after", "committedAt"):
        assert getattr(found, attribute, None) == getattr(expected, attribute, None), attribute


def test_a_feed_gives_the_same_changes(serving: Serving) -> None:
    with trident.DRPCClient(serving.url) as arrow, trident_client.DRPCClient(serving.url) as plain:
        feeds = arrow.changes("counts", snapshot=True), plain.changes("counts", snapshot=True)
        firsts = [next(feed) for feed in feeds]
        serving.feed("dog", "cow")
        for both in (firsts, [next(feed) for feed in feeds]):
            told = [(sorted(c.rows), c.rows.fields, [*c.removed], c.txid, c.snapshot, c.position) for c in both]
            assert told[0] == told[1]
        assert feeds[0].position == feeds[1].position


ENDS = "\u2028 \u2029 \x85 \x1c \x0b \x0c \r \r\n \n".split(" ")
"""Characters at which some readers of text end a line."""


def test_texts_that_look_like_ends_of_lines_arrive_in_a_feed(tmp_path: Path) -> None:
    """A reader that ends lines at one of them gets broken JSON, or leaves out a change that a chosen text hides."""
    topology, feeder = TridentTopology(), FeederBatchSpout("word string, n long")
    topology.newStream("rows", feeder).toTable("word", MemoryMapState.opaque(), name="rows")
    with (
        topology.start(engine="embedded", name="ends", checkpointLocation=tmp_path) as running,
        running.serve() as server,
        trident_client.DRPCClient(server.url) as client,
    ):
        hidden = [f"z{end}event: note{end}data: 1{end}y" for end in ENDS]
        feeder.feed([(text, 1) for text in hidden])
        running.processAllAvailable()
        feed = client.changes("rows", snapshot=True)
        assert sorted(next(feed).rows) == sorted((text, (1,)) for text in hidden)
        for txid, text in enumerate(hidden, 2):
            feeder.feed([(text, txid)])
            running.processAllAvailable()
            change = next(feed)
            assert (change.after, change.txid, change.rows) == (txid - 1, txid, [(text, (txid,))])

        async def followed() -> list[Any]:
            async with trident_client.AsyncDRPCClient(server.url) as client:
                async for change in client.changes("rows", after=1):
                    return change.rows
            raise AssertionError("no change")

        assert sorted(asyncio.run(followed())) == sorted((text, (txid,)) for txid, text in enumerate(hidden, 2))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_is_the_same_however_its_bytes_are_cut(end: bytes) -> None:
    data = 'data: "ü\u2028\u2029\x85 \U0001f600"'
    stream = end.join(text.encode() for text in ("id: 7", "event: change", data, "", ": still here", "", ""))
    for size in range(1, len(stream) + 1):
        reader = EventReader()
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert [event for piece in pieces for event in reader.take(piece)] == [Event("change", data[6:], "7")], size


def test_a_change_that_does_not_begin_at_the_position_is_refused() -> None:
    def part(after: int, *, first: bool = True) -> Event:
        told: dict[str, Any] = {"after": after, "txid": after + 1, "committedAt": None, "first": first, "last": True}
        told |= {"fields": ["word"], "types": ["string"], "keys": ["word"], "rows": [["dog"]], "removed": []}
        return Event("change", json.dumps(told), f"6f1c-1-0.5be2-{after + 1}")

    reader = ChangesReader(trident_client.answers.JsonAnswers(), "counts", None, False)
    assert (change := reader.take(part(3))) is not None and change.rows == [("dog",)]
    for wrong in (part(5), part(2), part(4, first=False)):
        with pytest.raises(ServerError, match="skipped them; request the changes again.*, after='6f1c-1-0.5be2-4"):
            reader.take(wrong)
        reader.sent()  # over another connection
    assert reader.take(part(4)) is not None


def test_parts_of_a_change_become_one() -> None:
    form = trident_client.answers.JsonAnswers()
    base = {"fields": ["day", "n"], "types": ["date", "bigint"], "keys": ["day"]}
    one, two, three = "2026-01-01", "2026-01-02", "2026-01-03"
    parts = [
        {**base, "rows": [[one, 1], [two, 2]], "removed": [[three]]},
        {**base, "rows": [[two, 5], [three, 3]], "removed": [[one]]},
    ]
    rows, removed = form.changes(parts, snapshot=False)
    assert sorted(rows) == [(date(2026, 1, 2), 5), (date(2026, 1, 3), 3)]
    assert (removed, removed.fields) == ([(date(2026, 1, 1),)], ("day",))
    assert form.changes(parts, snapshot=True)[1] == []


def test_each_part_of_a_change_has_types_of_its_values() -> None:
    """A user's `present` without an annotation may show values of other types in a later part."""
    base: dict[str, Any] = {"fields": ["n", "shown"], "keys": ["n"], "removed": []}
    parts = [
        {**base, "types": ["bigint", "struct<a:bigint>"], "rows": [[1, {"a": 1}]]},
        {**base, "types": ["bigint", "struct<a:bigint,b:date>"], "rows": [[2, {"a": 2, "b": "2026-01-01"}]]},
    ]
    rows, _ = trident_client.answers.JsonAnswers().changes(parts, snapshot=False)
    assert rows == [(1, (1,)), (2, (2, date(2026, 1, 1)))]


def test_errors_are_those_of_the_other_client(serving: Serving) -> None:
    with trident_client.DRPCClient(serving.url) as client:
        with pytest.raises(DRPCNotFoundError, match="no DRPC function 'nothing'"):
            client.execute("nothing")
        with pytest.raises(StateKeyError, match="invalid key 7"):
            client.get("counts", 7)
    assert trident_client.errors.StateKeyError is StateKeyError


def test_arguments_are_values_of_python(url: str) -> None:
    with trident_client.DRPCClient(url) as client:
        query = "select id from rows where latest.day = cast(? as date) and latest.price > cast(? as decimal(20,4))"
        assert client.sql(query, [date(2026, 2, 28), Decimal("1.5")]) == [(1,)]
        assert client.get("rows", 9, "nothing") == "nothing"


def test_the_client_for_asyncio_gives_the_same(serving: Serving) -> None:
    async def ask() -> None:
        async with trident_client.AsyncDRPCClient(serving.url) as client:
            assert await client.execute("count", "dog") == [("dog", 2)]
            assert [[row.word for row in page] async for page in client.scan("counts", 1)] == [["cat"], ["dog"]]
            async for change in client.changes("counts", snapshot=True):
                assert sorted(change.rows) == [("cat", 1), ("dog", 2)]
                break

    asyncio.run(ask())


def test_a_row_has_names_and_positions() -> None:
    row = trident_client.Row.of(["count", "n"], [2, timedelta(0)])
    assert (row.n, row["n"], row[-1], row.asDict()) == (timedelta(0),) * 3 + ({"count": 2, "n": timedelta(0)},)
    assert row["count"] == 2 and copy.copy(row).asDict() == copy.deepcopy(row).asDict() == row.asDict()
    with pytest.raises(AttributeError, match="the row has no field 'word'"):
        _ = row.word
    with pytest.raises(KeyError, match="it has count, n"):
        _ = row["word"]
