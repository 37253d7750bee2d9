"""Values that an aggregator presents, asked over HTTP: the same as in the process, field by field."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
)
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
