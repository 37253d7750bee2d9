"""Storm Trident's cases as tests: each case's input and results from the file, its topology written in the test.

A test says which case it is by `conforms`; `test_coverage.py` counts them. What a case expects is compared by `check`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.sql.types import StructType

from tests.compiler.stage_runner import Slots, run
from trident import Function, Stream, TridentTopology
from trident.base.spark_types import parse_schema
from trident.run.running import RunningTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

Rows = list[tuple[Any, ...]]
Test = TypeVar("Test", bound=Callable[..., None])

FILE = Path(__file__).with_name("cases.json")


@dataclass(frozen=True)
class Case:
    """One of Trident's scenarios: what goes in, what goes wrong, what comes out."""

    id: str
    area: str
    topology: str
    input: dict[str, Any]
    faults: list[str]
    expected: dict[str, Any]
    match: str
    title: str = ""
    trident_quirk: str | None = None
    """Where Trident's result is an accident: what it is."""
    ideal: Any = None
    """What is expected in its place."""

    @property
    def batches(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.input["batches"]
        return found

    def rows(self, stream: str = "s") -> list[Rows]:
        """The tuples of a stream, batch by batch; those of several partitions one after the other."""
        return [[row for part in parts for row in part] for parts in self.partitions(stream)]

    def partitions(self, stream: str = "s") -> list[list[Rows]]:
        """The tuples of a stream, batch by batch and partition by partition."""
        found = []
        for batch in self.batches:
            given = batch["partitions"][stream] if "partitions" in batch else [batch["tuples"][stream]]
            found.append([[tuple(row) for row in part] for part in given])
        return found

    def spout(self, fields: str, stream: str = "s") -> FixedBatchSpout:
        """Its batches, typed."""
        assert names(parse_schema(fields)) == self.input["fields"][stream], "other fields than the case's"
        return FixedBatchSpout(fields, self.rows(stream))

    def stream(self, topology: TridentTopology, fields: str, stream: str = "s") -> Stream:
        """A stream of its batches; where they have partitions, in these."""
        if "partitions" not in self.batches[0]:
            return topology.newStream(stream, self.spout(fields, stream))
        assert names(parse_schema(fields)) == self.input["fields"][stream], "other fields than the case's"
        return placed(topology, fields, self.partitions(stream), stream)


def names(schema: StructType) -> list[str]:
    return list(schema.names)


def placed(topology: TridentTopology, fields: str, batches: Sequence[Sequence[Rows]], name: str = "s") -> Stream:
    """A stream whose every batch lies in partitions exactly so."""
    kept = names(parse_schema(fields))
    rows = [[(*row, at) for at, part in enumerate(parts) for row in part] for parts in batches]
    found = topology.newStream(name, FixedBatchSpout(f"{fields}, lies_in int", rows))
    found = found.partition("lies_in", lambda at, count: at).parallelismHint(len(batches[0]))
    return found.project(kept)


def _read() -> dict[str, Case]:
    given = json.loads(FILE.read_text(encoding="utf-8"))
    return {case["id"]: Case(**case) for case in given["cases"]}


CASES = _read()


def conforms(case: str, *, differs: bool = False) -> Callable[[Test], Test]:
    """A test of this case, which it gets as `case`. `differs`: it shows what a row of docs/deviations.md says."""
    assert case in CASES, f"there is no case {case!r}"

    def marked(test: Test) -> Test:
        test.conforms = (case, differs)  # type: ignore[attr-defined]
        parametrized: Test = pytest.mark.parametrize("case", [pytest.param(CASES[case], id=case)])(test)
        return parametrized

    return marked


# --- what leaves a stream ------------------------------------------------------------------------------------------


def sink(stream: Stream, name: str = "out") -> None:
    """Look at what leaves a stream, in its order."""
    stream.partitionPersist(MemoryMapState.opaque(), lambda state, tuples, collector: None, valueType="long", name=name)


def sinks(topology: TridentTopology, engine: Slots, batch: int, attempt: int = 0) -> dict[str, Rows]:
    """What a batch brings to each sink, in its order."""
    found: Mapping[str, Any] = run(engine, topology, batch, attempt).results
    return {name[:-1]: [tuple(row.values()) for row in table.to_pylist()] for name, table in found.items()}


def emitted(engine: Slots, topology: TridentTopology, batches: int = 1) -> dict[str, Rows]:
    """What the batches bring to the sinks, under the names that the cases use."""
    return {
        f"{name}@{batch + 1}:0": rows
        for batch in range(batches)
        for name, rows in sinks(topology, engine, batch).items()
    }


def check(case: Case, engine: Slots, topology: TridentTopology, **leaving: Stream) -> None:
    """What these streams bring is what the case expects, by its way of comparing."""
    for name, stream in leaving.items():
        sink(stream, name)
    if "fields" in case.expected:
        assert list(leaving["out"].fields) == case.expected["fields"]
    found = emitted(engine, topology, len(case.batches))
    expected = {name: [tuple(row) for row in rows] for name, rows in case.expected["emits"].items()}
    compare(found, expected, case.match)


def compare(found: Mapping[str, Rows], expected: Mapping[str, Rows], match: str) -> None:
    assert match in ("ordered", "multiset")
    shown = found if match == "ordered" else {name: unordered(rows) for name, rows in found.items()}
    wanted = expected if match == "ordered" else {name: unordered(rows) for name, rows in expected.items()}
    assert shown == wanted


def unordered(rows: Iterable[Any]) -> list[Any]:
    """The same rows in an order of their own."""
    return sorted((tuple(row) if isinstance(row, list) else row for row in rows), key=repr)


# --- where tuples lie ----------------------------------------------------------------------------------------------


class Place(Function):
    """Appends the partition that it runs in."""

    outputType = "int"

    def prepare(self, context: Any) -> None:
        self.at = context.partitionIndex

    def execute(self, tuple: Any, collector: Any) -> None:
        collector.emit([self.at])


def lying(
    engine: Slots, topology: TridentTopology, stream: Stream, batch: int = 0, attempt: int = 0
) -> dict[int, Rows]:
    """The tuples that each partition has, in their order; a partition without tuples is not there."""
    sink(stream.each(Place(), "lies_at"), "placed")
    found: dict[int, Rows] = {}
    for *row, at in sinks(topology, engine, batch, attempt)["placed"]:
        found.setdefault(at, []).append(tuple(row))
    return dict(sorted(found.items()))


def check_places(case_expects: Mapping[str, Any], found: Mapping[int, Rows]) -> None:
    """What lies in each partition is what a case expects there."""
    wanted = {int(at): [tuple(row) for row in rows] for at, rows in case_expects.items() if rows}
    assert dict(found) == wanted


# --- whole runs ----------------------------------------------------------------------------------------------------


@contextmanager
def ran(topology: TridentTopology, checkpoint: Path | None = None, **options: Any) -> Iterator[RunningTopology]:
    """The topology at work, once it has committed every batch."""
    with start_local(topology, name="conformance", checkpointLocation=checkpoint, **options) as running:
        running.processAllAvailable(timeout=30)
        yield running


@dataclass
class Seen:
    """Collects, on the driver, what comes out of a stream in a whole run: one list a batch that brought tuples."""

    batches: list[Rows] = field(default_factory=list)

    def watch(self, stream: Stream, name: str = "seen") -> None:
        stream.partitionPersist(MemoryMapState.opaque(), self.update, valueType="long", name=name)

    def update(self, state: Any, tuples: Sequence[Any], collector: Any) -> None:
        self.batches.append([tuple(row) for row in tuples])


@contextmanager
def raises(case: Case, error: type[Exception], match: str) -> Iterator[None]:
    """The case expects an error, and it comes."""
    assert "error" in case.match or case.ideal is not None, f"{case.id} expects no error"
    with pytest.raises(error, match=match):
        yield
