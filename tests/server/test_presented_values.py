"""Values that an aggregator presents, asked over HTTP: the same as in the process, field by field."""

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import trident_client
from trident import (
    Average,
    CollectList,
    CollectSet,
    Count,
    DRPCClient,
    First,
    Last,
    Latest,
    Max,
    MaxBy,
    Median,
    Min,
    MinBy,
    StdDev,
    Sum,
    TopK,
    TridentTopology,
    openState,
)
from trident.access.export import json_lines
from trident.base.value_conversion import to_python
from trident.errors import DRPCArgumentError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

ROWS = [(7, "x", Decimal("1.10"), 1.5), (7, None, None, 2.5), (8, "z", Decimal("2.00"), None)]
SEVERAL: dict[str, Any] = {
    "n": Count(),
    "mean": Average("d"),
    "spread": StdDev("d"),
    "middle": Median("price"),
    "first": First("word"),
    "last": Last("price"),
    "sold": Sum("price"),
    "least": Min("price"),
    "most": Max("word"),
    "by": MaxBy("word", "d"),
    "under": MinBy("price", "d"),
    "words": CollectList("word"),
    "prices": CollectSet("price"),
    "best": ("price, word", TopK(2)),
    "latest": ("word, d", Latest("d")),
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    checkpoint: Path = tmp_path_factory.mktemp("checkpoint")
    topology = TridentTopology()
    rows = topology.newStream("rows", FixedBatchSpout("k long, word string, price decimal(10,2), d double", [ROWS]))
    rows.groupBy("k").persistentAggregate(MemoryMapState.opaque(), SEVERAL, name="several")
    rows.groupBy("k").persistentAggregate(MemoryMapState.opaque(), "price, word", TopK(2), "best", name="best")
    rows.persistentAggregate(MemoryMapState.opaque(), {"n": Count(), "last": Last("word")}, name="all")
    paired = rows.each("k", lambda k: (k, "a"), "pair struct<x: long, y: string>").groupBy("pair")
    paired.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="pairs")
    topology.newDRPCStream("next", "n long").each("n", lambda n: n + 1, "m long")
    with (
        topology.start(engine="embedded", name="shop", checkpointLocation=checkpoint) as running,
        running.serve() as server,
    ):
        running.processAllAvailable()
        with DRPCClient(server.url) as client:
            yield running, client


@pytest.mark.parametrize("state", ["several", "best"])
def test_a_client_gets_the_values_of_the_process(asked: Any, state: str) -> None:
    running, client = asked
    local = running.state(state)
    assert repr(client.multiGet(state, [7, 9, 8])) == repr(local.multiGet([7, 9, 8]))
    assert repr(client.get(state, 7)) == repr(local[7])
    scanned = [row for page in client.scan(state) for row in page]
    assert [row["k"] for row in scanned] == list(local)


MAPS = "k long, at long, v map<string,long>, days map<date,array<long>>, deep struct<m: map<long,map<string,double>>>"
DAY = date(2026, 1, 1)
KEPT = [
    (1, 1, {"a": 1, "b": None}, {DAY: [1]}, ({1: {"x": 0.5}, 2: {}},)),
    (2, 1, {"b": 2}, {}, (None,)),
    (3, 1, {}, {DAY: None}, ({},)),
    (4, 1, None, None, None),
]


@pytest.mark.parametrize("field", ["v", "days", "deep"])
def test_maps_that_aggregators_keep_are_maps_for_every_reader(tmp_path: Path, field: str) -> None:
    """Without the type that is declared, a map is a struct of all keys of all rows, and a key needs to be text."""
    several = {
        "last": Last(field),
        "first": First(field, where=lambda row: row.at == 1),
        "most": MaxBy(field, "at"),
        "least": MinBy([field, "k"], "at"),
        "all": CollectList(field),
        "new": (f"{field}, at", Latest("at")),
    }
    kept = [row[{"v": 2, "days": 3, "deep": 4}[field]] for row in KEPT]
    topology = TridentTopology()
    rows = topology.newStream("rows", FixedBatchSpout(MAPS, [KEPT])).groupBy("k")
    rows.persistentAggregate(MemoryMapState.opaque(), field, Last(), "last", name="one")
    rows.persistentAggregate(MemoryMapState.opaque(), several, name="several")
    with topology.start(engine="embedded", name="maps", checkpointLocation=tmp_path) as running:
        running.processAllAvailable()
        with running.serve() as server, DRPCClient(server.url) as arrow, trident_client.DRPCClient(server.url) as plain:
            for name in ("one", "several"):
                state = running.state(name)
                values = {key: state.get(key) for key in (1, 2, 3, 4)}
                assert values == dict(state.items())
                assert [row.last if name == "several" else row for row in values.values()] == kept
                spread = [(key, *value) if name == "several" else (key, value) for key, value in values.items()]
                assert tuples_of(state.toArrow()) == spread
                assert tuples_of(running.sql(f"from {name} order by k").toArrow()) == spread
                for client in (arrow, plain):
                    assert client.multiGet(name, [1, 2, 3, 4]) == [*values.values()]
                    assert [client.get(name, key) for key in values] == [*values.values()]
                    assert [*map(tuple, client.range(name))] == spread
                    assert by_key(map(tuple, next(client.changes(name, snapshot=True)).rows)) == spread
                with openState("maps", name, tmp_path) as opened:
                    assert tuples_of(opened.toArrow()) == spread
                    exported = json_lines(opened.toArrow())
                    assert exported == json_lines(state.toArrow().rename_columns(opened.toArrow().column_names))
    assert '{"a": 1, "b": null}' in exported[0] or field != "v"


def tuples_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return by_key(zip(*map(to_python, table.columns), strict=True))


def by_key(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=itemgetter(0))


def test_a_field_keeps_its_kind_of_number(asked: Any) -> None:
    _, client = asked
    value = client.get("several", 7)
    assert (value["n"], type(value["n"]), value["mean"]) == (2, int, 2.0)
    assert client.multiGet("all", [()])[0]["n"] == 3


def test_a_table_shows_tuples_as_structs(asked: Any) -> None:
    running, _ = asked
    best = running.state("best").toArrow().column("best").to_pylist()
    assert best[1] == [{"price": Decimal("2.00"), "word": "z"}]


def test_keys_and_arguments_of_numpy_are_those_of_python(asked: Any) -> None:
    running, client = asked
    assert client.get("several", np.int64(8)) == running.state("several")[8]
    assert client.execute("next", np.int32(3))[0].m == running.drpc.execute("next", np.int32(3))[0].m == 4
    with pytest.raises(DRPCArgumentError, match="True"):
        client.execute("next", np.bool_(True))


def test_a_key_that_is_a_struct_is_a_tuple_a_row_or_a_dict(asked: Any) -> None:
    running, client = asked
    (row,) = [row for page in client.scan("pairs") for row in page if row["pair"]["x"] == 7]
    for key in ((7, "a"), row["pair"], {"x": 7, "y": "a"}):
        assert client.get("pairs", key) == running.state("pairs").get(key) == 2
