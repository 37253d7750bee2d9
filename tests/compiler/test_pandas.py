"""Functions over pandas objects mean on both engines, and in requests, what the same function means tuple by tuple."""

from typing import Any

import pandas as pd

from tests.compiler.stage_runner import Slots, leaving, stream, table
from trident import Count, TridentTopology
from trident.compiler.arrow.evaluation import compile_request
from trident.compiler.stages import cut

ROWS = [("dog", 1, 0.5), ("cow", None, None), (None, 3, 2.5), ("ox", -4, float("nan"))]
FIELDS = "word string, n long, x double"


def doubled(n: pd.Series) -> pd.Series:
    return n * 2


def scored(n: pd.Series, x: pd.Series) -> pd.Series:
    return n.fillna(0) + x.fillna(0)


def both(df: pd.DataFrame) -> pd.DataFrame:
    return df.assign(loud=df["word"].str.upper(), more=df["n"] + 1)


def positive(n: pd.Series) -> pd.Series:
    return n > 0


def known(df: pd.DataFrame) -> pd.DataFrame:
    return df[df["word"].notna()].sort_values("word", ascending=False)


def words(topology: TridentTopology, rows: Any = ROWS) -> Any:
    return stream(topology, FIELDS, rows, [])


def test_a_series_for_each_field(engine: Slots) -> None:
    topology = TridentTopology()
    result = words(topology).each("n", doubled, "m long").each("n, x", scored, "score double").project("m, score")
    assert sorted(leaving(engine, result), key=repr) == sorted([(2, 1.5), (None, 0.0), (6, 5.5), (-8, -4.0)], key=repr)
    assert leaving(engine, result, batch=1) == []


def test_a_data_frame_of_the_fields(engine: Slots) -> None:
    topology = TridentTopology()
    result = words(topology).each("word, n", both, "loud string, more int").project("loud, more")
    assert sorted(leaving(engine, result), key=repr) == sorted(
        [("DOG", 2), ("COW", None), (None, 4), ("OX", -3)], key=repr
    )


def test_a_filter_of_series(engine: Slots) -> None:
    result = words(TridentTopology()).filter("n", positive).project("word")
    assert sorted(leaving(engine, result), key=repr) == [("dog",), (None,)]


def test_flat_map_takes_any_number_of_rows(engine: Slots) -> None:
    result = words(TridentTopology()).flatMap(known)
    assert sorted(row[0] for row in leaving(engine, result)) == ["cow", "dog", "ox"]
    assert leaving(engine, result, batch=1) == []


def test_each_request_is_called_for_alone() -> None:
    topology = TridentTopology()
    asked = topology.newDRPCStream("share", "n long")
    asked.flatMap("n", repeated, "part double")
    (plan,) = cut(topology).requests
    answers = compile_request(plan)(table("request long, n long", (1, 2), (2, 3), (3, 1)), None)
    rows = [tuple(row.values()) for row in answers.to_pylist()]
    assert rows == [(1, 0.5), (1, 0.5), (2, 1 / 3), (2, 1 / 3), (2, 1 / 3), (3, 1.0)]


def repeated(n: pd.Series) -> pd.Series:
    assert len(n) == 1
    return pd.Series([1 / n[0]] * n[0])


def spread(n: pd.Series) -> float:
    return n.max() - n.min()


def share(df: pd.DataFrame) -> float:
    return (df["x"] > 1).mean()


def total(n: pd.Series) -> int:
    return n.sum()


def test_aggregates_of_a_batch_and_of_groups(engine: Slots) -> None:
    topology = TridentTopology()
    rows = [("a", 1, 0.5), ("b", 10, 2.0), ("a", 4, 2.0), ("b", None, None), ("c", 7, 1.5)]
    tuples = words(topology, rows)
    grouped = tuples.groupBy("word").aggregate({"spread": ("n", spread), "share": ("n, x", share), "n": Count()})
    assert sorted(leaving(engine, grouped)) == [("a", 3.0, 0.5, 2), ("b", 0.0, 0.5, 2), ("c", 0.0, 1.0, 1)]
    assert leaving(engine, grouped, batch=1) == []
    batch = tuples.aggregate("n", total, "total")
    assert leaving(engine, batch) == [(22,)]
    assert leaving(engine, batch, batch=1) == [(0,)]
    partitions = tuples.parallelismHint(1).partitionAggregate("n", spread, "spread double")
    assert leaving(engine, partitions) == [(9.0,)]
    assert leaving(engine, partitions, batch=1) == [(None,)]


def test_aggregates_of_each_request() -> None:
    topology = TridentTopology()
    asked = topology.newDRPCStream("spread", "n long").flatMap("n", countdown, "m long")
    asked.aggregate("m", spread, "spread")
    (plan,) = cut(topology).requests
    answers = compile_request(plan)(table("request long, n long", (1, 2), (2, 5), (3, 0)), None)
    assert [tuple(row.values()) for row in answers.to_pylist()] == [(1, 1.0), (2, 4.0), (3, None)]


def countdown(n: pd.Series) -> pd.Series:
    return pd.Series(range(n[0]))
