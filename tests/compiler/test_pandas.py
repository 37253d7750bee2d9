"""Functions over pandas objects mean on both engines, and in requests, what the same function means tuple by tuple."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.stage_runner import STATE, OnArrow, Slots, answered, leaving, run, stream, table
from tests.compiler.test_failed_tuples import letters
from trident import Count, DeadLetter, TridentTopology
from trident.base.errors import FailedException, UserFunctionError
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
    assert len(df), "a slice is never empty"
    return df[df["word"].notna()].sort_values("word", ascending=False)


def words(topology: TridentTopology, rows: Any = ROWS) -> Any:
    return stream(topology, FIELDS, rows, [])


@pytest.mark.connect
def test_a_series_for_each_field(engine: Slots) -> None:
    topology = TridentTopology()
    result = words(topology).each("n", doubled, "m long").each("n, x", scored, "score double").project("m, score")
    assert sorted(leaving(engine, result), key=repr) == sorted([(2, 1.5), (None, 0.0), (6, 5.5), (-8, -4.0)], key=repr)
    assert leaving(engine, result, batch=1) == []


@pytest.mark.connect
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
    answers = answered(compile_request(plan), table("request long, n long", (1, 2), (2, 3), (3, 1)), None)
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


@pytest.mark.connect
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
    answers = answered(compile_request(plan), table("request long, n long", (1, 2), (2, 5), (3, 0)), None)
    assert [tuple(row.values()) for row in answers.to_pylist()] == [(1, 1.0), (2, 4.0), (3, None)]


def countdown(n: pd.Series) -> pd.Series:
    return pd.Series(range(n[0]))


# --- the same function by tuple and by column ----------------------------------------------------------------------


def next_by_tuple(n: int | None) -> int | None:
    return None if n is None else n // 3 + 1


def next_by_column(n: pd.Series) -> pd.Series:
    return n // 3 + 1


def loud_by_tuple(word: str | None, n: int | None) -> str | None:
    return None if word is None or n is None else word.upper() + "!" * (n % 3)


def loud_by_column(word: pd.Series, n: pd.Series) -> pd.Series:
    return word.str.upper() + n.map(lambda each: "!" * int(each % 3), na_action="ignore").astype(object)


def big_by_tuple(n: int | None) -> bool:
    return n is not None and n > 4


def big_by_column(n: pd.Series) -> pd.Series:
    return (n > 4).fillna(False)


def letters_by_tuple(word: str | None) -> list[str]:
    return list(word or "")


def letters_by_column(word: pd.Series) -> pd.Series:
    return word.fillna("").map(list).explode().dropna()


BY_TUPLE: dict[str, Callable[..., Any]] = {
    "next": next_by_tuple,
    "loud": loud_by_tuple,
    "big": big_by_tuple,
    "letters": letters_by_tuple,
}
BY_COLUMN: dict[str, Callable[..., Any]] = {
    "next": next_by_column,
    "loud": loud_by_column,
    "big": big_by_column,
    "letters": letters_by_column,
}


def flow(rows: Any, functions: dict[str, Callable[..., Any]], count: int) -> Any:
    tuples = stream(TridentTopology(), "word string, n long", rows, []).shuffle().parallelismHint(count)
    found = tuples.each("n", functions["next"], "m long").filter("m", functions["big"])
    found = found.map("word, m", functions["loud"], "word string")
    return found.flatMap("word", functions["letters"], "letter string")


_ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.text("aBc", max_size=3)),
        st.one_of(st.none(), st.integers(-(2**62), 2**62), st.integers(0, 40)),
    ),
    max_size=30,
)


@given(rows=_ROWS, count=st.integers(1, 3))
@settings(deadline=None, derandomize=True, max_examples=150)
def test_any_batch_means_what_it_means_tuple_by_tuple(rows: Any, count: int) -> None:
    by_tuple, by_column = (leaving(OnArrow(), flow(rows, how, count)) for how in (BY_TUPLE, BY_COLUMN))
    assert sorted(by_column) == sorted(by_tuple)


def test_both_engines_mean_what_it_means_tuple_by_tuple(engine: Slots) -> None:
    rows = [("aB", 2**61 + 1), (None, 20), ("c", None), ("", 31), ("Bc", 40), ("a", 3)] * 7
    found = sorted(leaving(engine, flow(rows, BY_COLUMN, 2)))
    assert found == sorted(leaving(engine, flow(rows, BY_TUPLE, 2))) and ("B",) in found


# --- tuples on which a function fails ------------------------------------------------------------------------------


def parsed(line: pd.Series) -> pd.Series:
    return line.astype("int64")


def small(n: pd.Series) -> pd.Series:
    return n * 10**6


def checked(line: pd.Series) -> pd.Series:
    if line.str.startswith("stop").any():
        raise FailedException("the service is away")
    return line.astype("int64")


LINES = [str(n) if n % 7 else f"bad {n}" for n in range(1, 41)]
GOOD = [(n,) for n in range(1, 41) if n % 7]


def test_a_failing_slice_is_halved_down_to_the_tuples_that_fail(engine: Slots) -> None:
    topology = TridentTopology()
    numbers = stream(topology, "line string", LINES).each("line", parsed, "n long", onError=DeadLetter(attempts=0))
    numbers.groupBy("n").persistentAggregate(STATE, Count(), "count", name="counts")
    topology.deadLetterState(STATE)
    result = run(engine, topology)
    counts = result.results["counts"]
    assert isinstance(counts, pa.Table)
    assert sorted(counts["n"].to_pylist()) == [n for (n,) in GOOD]
    dead = letters(result)
    assert [(step, error, tuple_["line"]) for step, error, _, tuple_ in dead] == [
        ("s/1", "ValueError", f"bad {n}") for n in (14, 21, 28, 35, 7)
    ]


def test_a_value_that_does_not_fit_is_its_tuples_fault(engine: Slots) -> None:
    numbers = stream(TridentTopology(), "n long", [(1,), (5000,), (3,), (None,)])
    found = leaving(engine, numbers.map("n", small, "m int", onError="skip"))
    assert sorted(found, key=repr) == [(1000000,), (3000000,), (None,)]


def test_flat_map_filter_and_data_frames_skip_too() -> None:
    def shouted(df: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"n": df["line"].astype("int64").repeat(2)})

    def even(line: pd.Series) -> pd.Series:
        return line.astype("int64") % 2 == 0

    lines = stream(TridentTopology(), "line string", LINES).parallelismHint(3)
    assert sorted(leaving(OnArrow(), lines.flatMap("line", shouted, "n long", onError="skip"))) == sorted(GOOD * 2)
    kept = leaving(OnArrow(), lines.filter("line", even, onError="skip"))
    assert sorted(int(line) for (line,) in kept) == [n for (n,) in GOOD if n % 2 == 0]


def test_a_row_of_flat_map_that_does_not_fit_is_some_tuples_fault() -> None:
    numbers = stream(TridentTopology(), "n long", [(1,), (5000,), (3,)])
    assert leaving(OnArrow(), numbers.flatMap("n", small, "m int", onError="skip")) == [(1000000,), (3000000,)]


def test_a_failed_exception_fails_the_batch_whatever_the_policy() -> None:
    lines = stream(TridentTopology(), "line string", ["1", "stop", "bad"])
    with pytest.raises(FailedException, match="the service is away"):
        leaving(OnArrow(), lines.each("line", checked, "n long", onError="skip"))


def shorter(n: pd.Series) -> pd.Series:
    return n[n > 1]


def as_text(n: pd.Series) -> pd.Series:
    return n.astype(str)


def one_value(n: pd.Series) -> pd.Series:
    return n.sum()  # type: ignore[no-any-return]


def other_names(df: pd.DataFrame) -> pd.DataFrame:
    return df.rename(columns={"n": "m"})


def untold(n: pd.Series) -> pd.Series:
    return pd.Series([True, None, True], dtype="boolean")


def ending(n: pd.Series) -> pd.Series:
    raise SystemExit(3)


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "length": (
        lambda s: s.each("n", shorter, "y long"),
        r"shorter \(test_pandas.py:\d+\) returned 2 rows for 3 tuples: return one for each tuple; flatMap takes any",
    ),
    "dtype": (
        lambda s: s.each("n", as_text, "y int"),
        r"as_text \(.*\) returned 1 \(str\)|'1' \(str\) for field 'y', declared int",
    ),
    "a value": (
        lambda s: s.each("n", one_value, "y long"),
        r"one_value \(.*\) returned .*6.* \(int64\); expected a Series",
    ),
    "names": (
        lambda s: s.map("n", other_names, "y long"),
        r"returned a DataFrame without a column 'y'; its columns are \(m\)",
    ),
    "null of a filter": (
        lambda s: s.filter("n", untold),
        r"returned null for a filter, which returns True or False; the tuple was \(n=2\) \(write \.fillna",
    ),
    "numbers of a filter": (
        lambda s: s.filter("n", small),
        "returned a Series of int64 for a filter, which returns True or False",
    ),
    "raised": (
        lambda s: s.each("n", ending, "y long"),
        r"ending \(.*\) raised SystemExit: 3; the first of 3 tuples was \(n=1\)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_names_the_step_the_function_and_what_came(case: str) -> None:
    verb, words = WRONG[case]
    numbers = stream(TridentTopology(), "n long", [(1,), (2,), (3,)])
    with pytest.raises(UserFunctionError, match=words) as failed:
        leaving(OnArrow(), verb(numbers))
    assert str(failed.value).startswith("s/1:")


def test_a_contract_that_is_broken_is_no_tuples_fault() -> None:
    numbers = stream(TridentTopology(), "n long", [(1,), (2,), (3,)])
    with pytest.raises(UserFunctionError, match="returned 2 rows for 3 tuples"):
        leaving(OnArrow(), numbers.each("n", shorter, "y long", onError="skip"))


@pytest.mark.connect
@pytest.mark.spark
def test_errors_come_from_sparks_workers_with_all_they_say(on_spark: Slots) -> None:
    numbers = stream(TridentTopology(), "n long", [(1,), (2,), (3,)])
    with pytest.raises(
        UserFunctionError, match=r"s/2:each\(shorter\): shorter \(test_pandas.py:\d+\) returned 2 rows for 3"
    ):
        leaving(on_spark, numbers.parallelismHint(1).each("n", shorter, "y long"))


def first(n: pd.Series) -> int:
    return n.iloc[0]  # type: ignore[no-any-return]


def test_an_aggregate_of_no_tuples_says_so() -> None:
    numbers = stream(TridentTopology(), "n long", [])
    with pytest.raises(
        UserFunctionError, match="raised IndexError: .*; it was called without a tuple, for an empty batch"
    ):
        leaving(OnArrow(), numbers.aggregate("n", first, "y"))


def test_an_aggregates_value_is_checked() -> None:
    def fraction(n: pd.Series) -> int:
        return n.mean()  # type: ignore[return-value]

    numbers = stream(TridentTopology(), "n long", [(1,), (2,)])
    with pytest.raises(
        UserFunctionError,
        match=r"fraction \(.*\) returned .*1\.5.* \(float.*\) for field 'y', which is declared as bigint",
    ):
        leaving(OnArrow(), numbers.aggregate("n", fraction, "y"))


# --- set-up, groups and chains -------------------------------------------------------------------------------------


class Model:
    """A callable with a prepare: called once for each partition with tuples."""

    outputType = "long"

    def prepare(self, context: Any) -> None:
        self.bias = 100 * context.partitionIndex

    def __call__(self, n: pd.Series) -> pd.Series:
        return n + self.bias


def test_an_object_may_be_prepared_for_its_partition(engine: Slots) -> None:
    placed = (
        stream(TridentTopology(), "n long", [(1,), (2,), (3,)]).partition("n", lambda n, of: n % of).parallelismHint(2)
    )
    assert sorted(leaving(engine, placed.map("n", Model(), "m"))) == [(2,), (101,), (103,)]


class Buffered:
    """A function that writes each result into one buffer, as code that spares allocations does."""

    def __init__(self) -> None:
        self.buffer = np.zeros(10)

    def __call__(self, x: pd.Series) -> pd.Series:
        return pd.Series(np.multiply(x, 2, out=self.buffer[: len(x)]), copy=False)


def test_a_result_is_what_it_was_when_the_function_returned_it() -> None:
    placed = stream(TridentTopology(), "x double", [(1.0,), (2.0,), (3.0,), (4.0,)])
    placed = placed.partition("x", lambda x, of: int(x) % of).parallelismHint(2)
    assert sorted(leaving(OnArrow(), placed.map("x", Buffered(), "y double"))) == [(2.0,), (4.0,), (6.0,), (8.0,)]
