"""The functions of Spark's Python workers, called here as the workers call them: with record batches."""

import gc
import pickle
from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from tests.compiler.functions import Longest, boom_at_dog, split
from tests.compiler.stage_runner import STATE, stream
from trident import Count, TridentTopology
from trident.compiler.aggregates.folds import FoldSpec
from trident.compiler.aggregates.specs import fold_spec
from trident.compiler.columns.function_errors import WorkerFailure, decoded
from trident.compiler.columns.kernels import work_of
from trident.compiler.spark.failure_signal import FailureSignal
from trident.compiler.spark.worker_aggregates import MergePartials, PartialFold
from trident.compiler.spark.worker_functions import REPORT, Chain, Composed, Drain, Reporting
from trident_spouts.spark_workers import settle

LINE = pa.schema([("line", pa.string())])
WORD = pa.schema([("word", pa.string())])


@pytest.fixture(autouse=True)
def keep_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIDENT_WORKER_GC", "1")


def batches(*lines: list[str]) -> Iterator[pa.RecordBatch]:
    return iter([pa.record_batch([each], schema=LINE) for each in lines])


def chain(function: Any, output: str = "word string") -> Chain:
    work = work_of(stream(TridentTopology(), "line string", []).each("line", function, output)._node)
    assert work is not None
    return cloudpickle.loads(cloudpickle.dumps(Chain((work,), LINE, WORD)))  # type: ignore[no-any-return, no-untyped-call]  # noqa: S301


def spec(aggregator: Any, *inputs: Any, group: str = "word") -> FoldSpec:
    words = stream(TridentTopology(), "word string", [])
    source = words.groupBy(group) if group else words
    return fold_spec(source.persistentAggregate(STATE, *inputs, aggregator, "out")._node)


def lines_of(found: Iterator[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


def test_a_chain_gives_what_its_functions_emit() -> None:
    found = list(chain(split)(batches(["a b", ""], [], [""], ["c"])))
    assert [batch.to_pydict() for batch in found] == [{"word": ["a", "b"]}, {"word": ["c"]}]
    assert list(chain(split)(iter([]))) == []


def test_large_emissions_leave_in_bounded_batches() -> None:
    found = list(chain(lambda line: iter(range_words(50_000)))(batches(["x"])))
    assert sum(batch.num_rows for batch in found) == 50_000 and max(batch.num_rows for batch in found) <= 20_000


def range_words(n: int) -> list[str]:
    return [str(at) for at in range(n)]


def test_a_partial_fold_gives_each_key_once() -> None:
    found = PartialFold(chain(split), spec(Count()))(batches(["a b a"], ["b", "a"]))
    assert sorted(lines_of(found)) == [("a", 3), ("b", 2)]
    found = PartialFold(chain(split), spec(Longest(), "word"))(batches(["a b a"], ["b", "a"]))
    assert sorted(lines_of(found)) == [("a", "a"), ("b", "b")]


def test_a_partial_fold_hands_on_what_becomes_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident.compiler.spark.worker_aggregates._KEYS", 2)
    found = lines_of(PartialFold(chain(split), spec(Longest(), "word"))(batches(["a b"], ["a"], ["b a c"], ["d"])))
    assert found == [("a", "a"), ("b", "b"), ("a", "a"), ("b", "b"), ("c", "c"), ("d", "d")]


def test_partials_meet() -> None:
    how = spec(Longest(), "word", group="")
    some = pa.record_batch([["ab", "c"]], schema=how.schema)
    assert lines_of(MergePartials(how)(iter([]))) == [("",)]
    assert lines_of(MergePartials(how)(iter([some, some]))) == [("ab",)]
    keyed = spec(Count())
    parts = [
        pa.record_batch([["a", "b"], [1, 2]], schema=keyed.schema),
        pa.record_batch([["a"], [5]], schema=keyed.schema),
    ]
    assert lines_of(MergePartials(keyed)(iter(parts))) == [("a", 6), ("b", 2)]


def test_a_drain_runs_everything_and_gives_nothing() -> None:
    seen: list[str] = []
    work = work_of(stream(TridentTopology(), "line string", []).peek(lambda t: seen.append(t.line))._node)
    assert work is not None
    assert list(Drain(Chain((work,), LINE, LINE))(batches(["a", "b"], ["c"]))) == []
    assert seen == ["a", "b", "c"]


class Rung:
    """Stands for an accumulator, as a worker unpickles it."""

    heard: ClassVar[list[tuple[int, str]]] = []

    def add(self, rings: tuple[tuple[int, str], ...]) -> None:
        self.heard.extend(rings)


def test_a_failure_leaves_as_text_or_as_a_row() -> None:
    failing = chain(boom_at_dog)
    with pytest.raises(WorkerFailure) as caught:
        list(failing(batches(["cow"], ["dog"])))
    assert "boom_at_dog" in str(decoded(str(caught.value)))
    rest = batches(["cow"], ["dog"], ["moon"])
    found = list(Reporting(failing, WORD, FailureSignal(pickle.dumps(Rung()), 7))(rest))
    assert [job for job, _ in Rung.heard] == [7]
    assert [batch.schema.names for batch in found] == [["word", REPORT]] * 2
    assert found[0].to_pydict() == {"word": ["cow"], REPORT: [None]}
    assert found[1].num_rows == 1 and found[1].column(0)[0].as_py() is None
    assert str(decoded(found[1].column(1)[0].as_py())) == str(decoded(str(caught.value)))
    assert list(rest) == [], "the rest was read, as Spark expects of a task that succeeds"


def test_functions_run_one_behind_the_other() -> None:
    again = Chain((), WORD, WORD)
    assert lines_of(Composed(chain(split), again)(batches(["a b"]))) == [("a",), ("b",)]
    reader = Chain((), LINE, LINE, before=chain(split))
    assert lines_of(Chain(chain(split).works, LINE, WORD, before=lambda rest: rest)(batches(["a b"]))) == [
        ("a",),
        ("b",),
    ]
    assert lines_of(reader(batches(["a b"]))) == [("a",), ("b",)], "columns are read by position"


def test_a_worker_is_settled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.delenv("TRIDENT_WORKER_GC")
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    settle.cache_clear()
    for _ in range(3):
        list(chain(split)(batches(["a"])))
    assert calls == ["freeze"]
