"""Functions over pandas objects in a run that crashes, and in queries of it: every tuple counts once."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from trident import Count, DeadLetter, MapGet, TridentTopology
from trident.base.errors import UserFunctionError
from trident.state import MemoryMapState
from trident.testing import CRASH, TestSource, run_through


def parsed(line: pd.Series) -> pd.Series:
    return line.astype("int64")


def last_digit(n: pd.Series) -> pd.Series:
    return n % 10


def digits(n: pd.Series) -> pd.Series:
    return pd.Series([int(each) for each in str(n.iloc[0])])


def spread(count: pd.Series) -> float:
    return float(count.max() - count.min())


def counting(batches: list[Any]) -> TridentTopology:
    topology = TridentTopology()
    numbers = topology.newStream("lines", TestSource("line string", batches)).each(
        "line", parsed, "n long", onError=DeadLetter(attempts=0)
    )
    counts = (
        numbers.each("n", last_digit, "digit long")
        .groupBy("digit")
        .persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    )
    topology.deadLetterState(MemoryMapState.opaque())
    asked = topology.newDRPCStream("spread", "n long").flatMap("n", digits, "digit long")
    asked.stateQuery(counts, "digit", MapGet(), "count").aggregate("count", spread, "spread")
    return topology


def test_counts_and_dead_letters_are_exact_over_crashes(tmp_path: Path) -> None:
    batches = [["1", "bad", "21", "2"], CRASH, ["3", "", "13", "x"], CRASH, ["11"]]
    with run_through(counting(batches), checkpointLocation=str(tmp_path)) as running:
        assert dict(running.state("counts").items()) == {1: 3, 2: 1, 3: 2}
        letters = running.state("deadLetters").toPandas()
        assert sorted(letters["tuple"]) == ['{"line":""}', '{"line":"bad"}', '{"line":"x"}']
        assert set(letters["function"].str.partition(" ")[0]) == {"parsed"}


def test_a_query_is_answered_by_calls_of_its_own(tmp_path: Path) -> None:
    with run_through(counting([["1", "21", "2", "3", "13", "11"]]), checkpointLocation=str(tmp_path)) as running:
        answers = [running.drpc.execute("spread", n=n)[0].spread for n in (12, 13, 2)]
        assert answers == [2.0, 1.0, 0.0]
        with pytest.raises(
            UserFunctionError, match=r"digits \(test_pandas.py:\d+\) raised ValueError: .*; the tuple was \(n=-1\)"
        ):
            running.drpc.execute("spread", n=-1)
