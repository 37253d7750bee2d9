"""The result of a query, its errors, its parameters, and the states that are read by key."""

import datetime
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row

from trident import Count, TridentTopology
from trident.base.errors import SqlError, StateError
from trident.reads.committed_reads import Snapshot
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local


def test_a_result_is_rows_and_tables(shop: RunningTopology) -> None:
    result = shop.sql("select person, n, [n, null] as l, {'m': n} as s from counts where n > 0 order by person")
    first = Row(person="ann", n=40, l=[40, None], s=Row(m=40))
    assert result.first() == result[0] == result.collect()[0] == first
    assert (len(result), result.columns, result.fields) == (5, ["person", "n", "l", "s"], ("person", "n", "l", "s"))
    assert [row.person for row in result[1:3]] == ["bob", "cleo"]
    assert result.toArrow().schema.field("n").type == pa.int64()
    frame = result.toPandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame.attrs == {"asOfTxid": 5}
    assert frame["n"].tolist() == [40] * 5
    assert repr(result) == "SqlResult(5 rows of person, n, l, s, as of txid 5 of orders)"
    assert "<td>ann</td>" in result._repr_html_()


def test_a_result_without_rows(shop: RunningTopology) -> None:
    result = shop.sql("select person, n from counts where n < 0")
    assert (list(result), result.first(), len(result), result.columns) == ([], None, 0, ["person", "n"])
    assert result.toArrow().schema.types == [pa.string(), pa.int64()]
    assert list(result.toPandas().columns) == ["person", "n"]


def test_columns_of_one_name(shop: RunningTopology) -> None:
    result = shop.sql("select a.n, b.n, 1 as n_2 from counts a join counts b using (person) limit 1")
    assert result.columns == ["n", "n", "n_2"]
    assert result[0] == (40, 40, 1)
    assert list(result.toPandas().columns) == ["n", "n_3", "n_2"]


def test_show(shop: RunningTopology, capsys: pytest.CaptureFixture[str]) -> None:
    shop.sql("select person, n from counts order by person").show(1)
    assert capsys.readouterr().out.split() == ["person", "n", "ann", "40"]


@pytest.mark.parametrize(
    ("query", "args", "rows"),
    [
        ("select ? + 1, ?", [1, "a"], [(2, "a")]),
        ("select $x, $y", {"x": Decimal("1.50"), "y": None}, [(Decimal("1.50"), None)]),
        ("select $1, $2, $1", [datetime.date(2026, 1, 1), True], [(datetime.date(2026, 1, 1), True) * 2][:0] or None),
        ("select n from counts where person = ?", ["ann"], [(40,)]),
        ("select person from counts where person in (?, ?) order by 1", ["ann", "nobody"], [("ann",)]),
        ("select list_sum(?)", [[1, 2]], [(3,)]),
        ("select n from counts where person = $who", {"who": "x' or 'a' = 'a"}, []),
    ],
)
def test_parameters(shop: RunningTopology, query: str, args: Any, rows: Any) -> None:
    found = shop.sql(query, args).collect()
    assert found == (rows if rows is not None else [(datetime.date(2026, 1, 1), True, datetime.date(2026, 1, 1))])


@pytest.mark.parametrize(
    ("query", "args", "message"),
    [
        ("select ?", None, "1"),
        ("select $x", {"y": 1}, "x"),
        ("select 1", "abc", r"args='abc' \(str\): expected a list of values for \?, or a dict of values for \$name"),
        ("select ?", [object()], "the argument 1 is .*, which no column can hold"),
    ],
)
def test_wrong_parameters(shop: RunningTopology, query: str, args: Any, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        shop.sql(query, args)


def test_an_unknown_state(shop: RunningTopology) -> None:
    with pytest.raises(StateError) as caught:
        shop.sql("select * from cuonts")
    assert str(caught.value) == (
        "no state 'cuonts'; did you mean 'counts'?; the states are counts, latest.seen, orders, spent, total, visits"
    )


def test_a_name_with_a_dot(shop: RunningTopology) -> None:
    with pytest.raises(SqlError, match=r'write "latest\.seen" in double quotes if that is its name'):
        shop.sql("select * from latest.seen")


@pytest.mark.parametrize(
    ("query", "message", "position"),
    [
        ("selec 1", 'syntax error at or near "selec"', 0),
        ("select 'é', from from counts", 'syntax error at or near "from"', 17),
        ("select 1\nfrom counts\nwhere nix = 1", 'column "nix" not found', 27),
        ("select no_such(1)", "no_such does not exist", 7),
        ("select person + 1 from counts", "Could not convert|No function matches", None),
    ],
)
def test_wrong_queries(shop: RunningTopology, query: str, message: str, position: int | None) -> None:
    with pytest.raises(SqlError, match=message) as caught:
        shop.sql(query).collect()
    if position is not None:
        assert caught.value.position == position
        assert "\nLINE " in str(caught.value)
        assert str(caught.value).endswith("^") or "^" in str(caught.value)


@pytest.mark.parametrize("query", [None, 7, "select 1" + " " * 60_000])
def test_a_query_that_is_no_text(shop: RunningTopology, query: Any) -> None:
    with pytest.raises(SqlError, match="expected SQL of at most 50000 characters"):
        shop.sql(query)


def test_deep_queries(shop: RunningTopology) -> None:
    for deep in (
        "(" * 10_000 + "1" + ")" * 10_000,
        "1" + "+1" * 10_000,
        "not " * 5_000 + "true",
        "[" * 9_000 + "]" * 9_000,
    ):
        with pytest.raises(SqlError):
            shop.sql("select " + deep)
    assert shop.sql("select 1 as one").first() == (1,)


def test_names_ignore_case(shop: RunningTopology) -> None:
    assert shop.sql("select PERSON from COUNTS where Person = 'ann'").collect() == [("ann",)]


def test_states_that_differ_only_in_case() -> None:
    topology, feeder = TridentTopology(), FeederBatchSpout("id long")
    stream = topology.newStream("ids", feeder).groupBy("id")
    for name in ("counts", "Counts", "other"):
        stream.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name=name)
    with start_local(topology, name="case") as running:
        feeder.feed([(1,)])
        running.processAllAvailable()
        assert running.sql("select n from Counts").collect() == [(1,)]
        with pytest.raises(SqlError, match="the states Counts, counts, which SQL cannot distinguish"):
            running.sql("select * from counts, Counts")
        with pytest.raises(StateError, match="no state 'COUNTS'"):
            running.sql("select * from COUNTS")


# --- by key ---------------------------------------------------------------------------------------------------------

BY_KEY = (
    ("select * from counts where person = 'ann'", "counts"),
    ("select * from counts c where c.person in ('ann', 'bob', 'nobody') and n > 0 order by person", "counts"),
    ("select upper(person) as person from counts where person = 'ann'", "counts"),
    ("select id, latest.city from orders where id = 7", "orders"),
    ("select id from orders where 7 = id and latest.city is not null", "orders"),
    ("select count(*) from orders where id in (1, 2, 3, 99999999999)", "orders"),
    ("select person, sold, money from spent where person = 'ann'", "spent"),
    (
        "select c.n, s.sold from counts c join spent s on c.person = s.person where c.person = 'ann'"
        " and s.person = 'ann'",
        "counts",
    ),
    ("select (select n from counts where person = 'ann') as n, count(*) from orders", "counts"),
    ("with one as (select * from counts where person = 'bob') select * from one", "counts"),
)

BY_SCAN = (
    "select * from counts where person = 'ann' or n = 40 order by person",
    "select * from counts where not person = 'ann' order by person",
    "select * from counts where person <> 'ann' order by person",
    "select * from counts where person || '' = 'ann'",
    "select * from counts where n = 40 order by person",
    "select * from counts where person = 'ann' union all select * from counts order by person",
    "select * from visits where person = 'ann' order by day",
    "select * from counts left join (select 'ann' as person, 1 as x) t using (person) where x = 1",
    "select count(*) from counts c left join counts d on d.person = 'ann' where c.person = 'bob'",
    "select * from counts as c(person2, person) where person = 40 order by person2",
    "select * from orders where id = '7'",
    "select id from orders where id = 7.0",
)


@pytest.mark.parametrize(("query", "state"), BY_KEY)
def test_a_state_is_read_by_key(shop: RunningTopology, monkeypatch: pytest.MonkeyPatch, query: str, state: str) -> None:
    expected = shop.sql(without_keys(query)).collect()
    scanned = list[str]()
    original = Snapshot.scan
    monkeypatch.setattr(Snapshot, "scan", lambda self, name: scanned.append(name) or original(self, name))
    assert shop.sql(query).collect() == expected
    assert state not in scanned


@pytest.mark.parametrize("query", BY_SCAN)
def test_a_state_is_scanned(shop: RunningTopology, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    scanned = list[str]()
    original = Snapshot.scan
    monkeypatch.setattr(Snapshot, "scan", lambda self, name: scanned.append(name) or original(self, name))
    shop.sql(query)
    assert scanned


def without_keys(query: str) -> str:
    """Return a query with the same result that has no constant to read by."""
    return (
        query.replace("'ann'", "lower('ANN')")
        .replace("'bob'", "lower('BOB')")
        .replace(" 7", " 7 + 0")
        .replace("(1, 2", "(1 + 0, 2")
    )


def test_a_forked_child_starts_a_process_of_its_own(shop: RunningTopology) -> None:
    shop.sql("select 1")
    parents = [process.pid for process in shop.queries._processes._idle]  # noqa: SLF001
    child = os.fork()
    if child == 0:
        with shop.queries._processes.taken() as process:  # noqa: SLF001
            os._exit(0 if process.pid not in parents else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert shop.sql("select 1 as one").first() == (1,)


def test_the_process_ends_with_the_run(tmp_path: Path) -> None:
    topology, feeder = TridentTopology(), FeederBatchSpout("id long")
    topology.newStream("ids", feeder).groupBy("id").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="c")
    with start_local(topology, name="ends") as running:
        running.sql("select 1")
        (process,) = running.queries._processes._idle  # noqa: SLF001
        pid = process.pid
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
