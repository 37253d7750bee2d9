"""SQL over HTTP: its answers, the rights of tokens, the limits of the server, clients that leave."""

import threading
import time
from datetime import date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any

import httpx
import pytest

import trident_client
from tests.server.conftest import Serving
from trident import Count, DRPCClient, TridentTopology
from trident.base.errors import ServerError, SqlError, SqlLimitError, SqlNotAllowedError, StateNotFoundError
from trident.server.access_rules import Rights
from trident.server.limits import Limits
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

TOKEN, SHOP, ASKER = "0123456789abcdef", "the-token-of-the-shop", "the-token-of-asker"

LONG = "select count(*) from range(1000000) a, range(1000000) b where hash(a.range) < hash(b.range)"


def test_json(serving: Serving) -> None:
    answer = serving.post(
        "/sql", {"query": "select word, count from counts where count > $n order by 1", "args": {"n": 0}}
    )
    assert answer.status_code == 200
    told = answer.json()
    assert (told["fields"], told["rows"]) == (["word", "count"], [["cat", 1], ["dog", 2]])
    assert told["asOfTxid"] == {"words": 1}
    assert told["committedAt"]["words"].endswith("Z")
    assert told["stalenessMs"] >= 0


def test_json_of_all_types(serving: Serving) -> None:
    values = {
        "1.50::decimal(5,2)": "1.50",
        "'nan'::double": "NaN",
        "date '2026-01-01'": "2026-01-01",
        "timestamptz '2026-01-01 10:00:00+00'": "2026-01-01T10:00:00+00:00",
        "'a'::blob": "YQ==",
        "[1, null]": [1, None],
        "{'a': 1}": {"a": 1},
        "map {'a': 1}": {"a": 1},
        "true": True,
        "null": None,
        "time '10:00'": "10:00:00",
        "'x'::enum('x')": "x",
        "sum(count) from counts": 3,
    }
    for text, value in values.items():
        assert serving.post("/sql", {"query": f"select {text}"}).json()["rows"] == [[value]], text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1::utinyint", 1),
        ("1::uhugeint", 1),
        ("18446744073709551615::ubigint", Decimal(18446744073709551615)),
        ("histogram(count)", {1: 1, 2: 1}),
        ("[18446744073709551615::ubigint]", [Decimal(18446744073709551615)]),
        ("[{'a': 1::uinteger}]::struct(a uinteger)[1]", [(1,)]),
        ("time '12:00:00.000001'", time_of_day(12, 0, 0, 1)),
        ("timestamp_ns '2026-01-01 12:00:00.000001'", datetime(2026, 1, 1, 12, 0, 0, 1)),
        ("hash(1) = hash(1)", True),
    ],
)
def test_clients_get_the_values_of_the_process(serving: Serving, text: str, value: Any) -> None:
    query = f"select {text} as v" + (" from counts" if "count" in text else "")
    with serving.client() as arrow, trident_client.DRPCClient(serving.url) as plain:
        for rows in (serving.running.sql(query).collect(), arrow.sql(query), plain.sql(query)):
            assert (rows[0][0], type(rows[0][0])) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("interval 1 day", "column 'v' has the type INTERVAL, .*: cast it to varchar, or ask for its seconds, epoch"),
        ("[{'a': interval 1 day}]", r"has the type STRUCT\(a INTERVAL\)\[\]"),
        ("union_value(k := 1)", r"has the type UNION\(k INTEGER\), .* or ask for a member, union_extract"),
        ("'101'::bit", "has the type BIT, .*: cast it to varchar"),
        ("map {1: '101'::bit}", r"has the type MAP\(INTEGER, BIT\)"),
        ("timetz '12:00:00+02'", "has the type TIME WITH TIME ZONE"),
        (
            "timestamp_ns '2026-01-01 00:00:00.000000001'",
            "has the type TIMESTAMP_NS, with a value finer than a mi",
        ),
        ("'infinity'::timestamp", "has the type timestamp_ntz, and infinity or a time far away in row 0; in UTC it is"),
        ("[date '4000-01-01 (BC)']", "has the type array<date>, and -3999-01-01 in row 0; .*: cast it to varchar"),
    ],
)
def test_types_and_times_that_results_do_not_have(serving: Serving, text: str, message: str) -> None:
    """JSON and Python have no such values: a client got an error of the server, or another value."""
    query = f"select {text} as v"
    with serving.client() as arrow, trident_client.DRPCClient(serving.url) as plain:
        for ask in (serving.running.sql, arrow.sql, plain.sql):
            with pytest.raises(SqlError, match=message):
                ask(query)
        assert serving.post("/sql", {"query": query}).status_code == 400
        assert plain.sql(f"select ({text})::varchar as v")[0].v
        assert plain.sql("select 1 as v") == [(1,)]


def test_the_client(serving: Serving) -> None:
    with serving.client() as client:
        rows = client.sql("select word, count from counts order by word")
        assert rows == [("cat", 1), ("dog", 2)]
        assert (rows.fields, rows.txids, rows.asOfTxid) == (("word", "count"), {"words": 1}, 1)
        assert client.sql("select ?::date as d, ?::decimal(5,2) as m", [date(2026, 1, 1), Decimal("1.5")])[0] == (
            date(2026, 1, 1),
            Decimal("1.50"),
        )
        serving.feed("dog")
        assert client.get("counts", "dog") == 3
        assert client.sql("select count from counts where word = 'dog'")[0].asDict() == {"count": 3}


@pytest.mark.parametrize(
    ("query", "error", "status"),
    [
        ("selec", SqlError, 400),
        ("select nix from counts", SqlError, 400),
        ("select * from read_text('/etc/passwd')", SqlNotAllowedError, 400),
        ("select * from cuonts", StateNotFoundError, 404),
        ("from range(10001)", SqlLimitError, 413),
    ],
)
def test_errors(serving: Serving, query: str, error: type[Exception], status: int) -> None:
    answer = serving.post("/sql", {"query": query})
    assert answer.status_code == status
    assert answer.json()["error"]["type"] == error.__name__
    with serving.client() as client, pytest.raises(error):
        client.sql(query)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": 7},
        {"query": "select 1", "other": 1},
        {"query": "select 1", "timeout": 0},
        {"query": "select 1", "timeout": 1e9},
        {"query": "select 1", "maxRows": 10_001},
        {"query": "select 1", "maxRows": -1},
        {"query": "select 1", "args": "x"},
    ],
)
def test_wrong_bodies(serving: Serving, body: object) -> None:
    answer = serving.post("/sql", body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "InvalidBody")


def test_rights_by_state() -> None:
    """A token reads the states that it names, however a query writes others; its answers do not say which exist."""
    topology, feeder = TridentTopology(), FeederBatchSpout("word string")
    words = topology.newStream("words", feeder).groupBy("word")
    for name in ("mine", "theirs"):
        words.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name=name)
    tokens = {SHOP: Rights(states=["mine"]), ASKER: Rights(functions=[])}
    with start_local(topology, name="rights") as running, running.serve(token=TOKEN, tokens=tokens) as server:
        feeder.feed([("dog",)])
        running.processAllAvailable()

        def ask(query: str, token: str | None) -> httpx.Response:
            headers = {} if token is None else {"authorization": f"Bearer {token}"}
            return httpx.post(f"{server.url}/sql", json={"query": query}, headers=headers, timeout=30)

        both = "select * from mine join theirs using (word)"
        assert ask(both, TOKEN).json()["rows"] == [["dog", 1, 1]]
        assert ask("select * from mine", SHOP).json()["rows"] == [["dog", 1]]
        assert ask("with theirs as (select * from mine) select * from theirs", SHOP).json()["rows"] == [["dog", 1]]
        assert ask("select 1", SHOP).json()["rows"] == [[1]]
        refused = (
            both,
            "select * from theirs",
            'select * from "THEIRS"',
            "select (select max(n) from theirs) from mine",
            "with t as (select * from theirs) select * from mine",
            "with recursive t as (select word, n from theirs union all select * from t) select * from mine",
            "select * from mine where word in (select word from theirs)",
            "describe theirs",
            "summarize theirs",
            "pivot theirs on word in ('dog') using sum(n)",
            "from mine semi join theirs using (word)",
            "with theirs as (select * from theirs) select * from theirs",
            "select * from no_such_state",
        )
        for query in refused:
            answer = ask(query, SHOP)
            assert answer.status_code == 403, query
            assert answer.json()["error"]["message"] == "this token allows only: /state/mine"
        others = (
            "show tables",
            "select * from duckdb_tables",
            "select * from query_table('theirs')",
            "from temp.main.theirs",
        )
        for query in others:
            assert ask(query, SHOP).status_code in (400, 403), query
        assert ask("select 1", ASKER).status_code == 403
        assert ask("select 1", None).status_code == 401


def test_limits_of_the_server(serving: Serving) -> None:
    limits = Limits(rows=5, timeoutSecs=5.0, sqlBytes=128 << 20)
    with serving.running.serve(limits=limits) as server:

        def ask(query: str, **more: object) -> tuple[int, str]:
            answer = httpx.post(f"{server.url}/sql", json={"query": query, **more}, timeout=30)
            return answer.status_code, answer.json().get("error", {}).get("type", "")

        assert ask("from range(5)") == (200, "")
        assert ask("from range(6)") == (413, "SqlLimitError")
        assert ask("from range(3)", maxRows=2) == (413, "SqlLimitError")
        assert ask("select len(range(100000000))") == (413, "SqlLimitError")
        began = time.monotonic()
        assert ask(LONG) == (504, "SqlTimeoutError")
        assert ask(LONG, timeout=0.5) == (504, "SqlTimeoutError")
        assert time.monotonic() - began < 15


def test_a_query_whose_client_left_ends(serving: Serving) -> None:
    with serving.running.serve(limits=Limits(timeoutSecs=60)) as server:
        for _ in range(3):  # more than the turns of the server
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(f"{server.url}/sql", json={"query": LONG}, timeout=0.5)
        answer = httpx.post(f"{server.url}/sql", json={"query": "select 1"}, timeout=20)
        assert answer.json()["rows"] == [[1]]


def test_other_answers_come_while_queries_work(serving: Serving) -> None:
    def ask() -> None:
        with DRPCClient(serving.url) as client, pytest.raises((SqlError, ServerError)):
            client.sql(LONG, timeout=3)

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for each in asking:
        each.start()
    time.sleep(0.5)
    with serving.client() as client:
        began = time.monotonic()
        assert client.get("counts", "dog") == 2
        assert time.monotonic() - began < 2
    for each in asking:
        each.join()
