"""Opaque replays that hold other tuples than the failed attempt: the case that Trident gets wrong, and late results."""

import threading
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from trident import Count, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.base.spark_types import arrow_schema, parse_schema
from trident.compiler.arrow.engine import ArrowSlot
from trident.run.running import RunningTopology
from trident.state import MemoryMapState
from trident.testing.local import start_local
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Metadata, SpoutKind

WORDS = [f"w{n}" for n in range(12)]


@dataclass(frozen=True)
class Shrinking:
    """Opaque: the first attempt at a batch takes four words, later ones one."""

    kind: SpoutKind = SpoutKind.OPAQUE

    @property
    def schema(self) -> StructType:
        return parse_schema("word string")

    def open(self) -> "ShrinkingExecutor":
        return ShrinkingExecutor()


class ShrinkingExecutor:
    plans_ahead = True

    def __init__(self) -> None:
        self.planned: set[int] = set()

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        start = previous["end"] if isinstance(previous, dict) else 0
        take = 1 if attempt.txid in self.planned else 4
        self.planned.add(attempt.txid)
        return None if start >= len(WORDS) else {"start": start, "end": min(len(WORDS), start + take)}

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> ArrowEmission:
        assert isinstance(metadata, dict)
        words = [[f"{attempt}/{word}" for word in WORDS[metadata["start"] : metadata["end"]]]]
        return ArrowEmission(pa.table(words, schema=arrow_schema(parse_schema("word string"))))

    def success(self, txid: int, metadata: Metadata) -> None: ...

    def fail(self, attempt: TransactionAttempt) -> None: ...

    def close(self) -> None: ...


def test_a_discarded_attempt_that_ends_late_is_not_what_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ArrowSlot, "cancel", lambda slot: None)  # work that cannot be stopped ends late
    late, ended = threading.Event(), threading.Event()
    second_ran = threading.Event()

    def word(tagged: str) -> str:
        attempt, _, word = tagged.partition("/")
        if attempt == "1:0":
            second_ran.wait(10)
            raise RuntimeError("the first attempt at batch 1 fails, while batch 2 runs")
        if attempt == "2:0":
            second_ran.set()
            late.wait(10)
            if word == WORDS[7]:
                ended.set()
        return word

    topology = TridentTopology()
    stream = topology.newStream("words", Shrinking()).map("word", word, "word string")
    stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with start_local(topology, name="late", maxSpoutPending=3) as running:
        with running._runs["words"].turns.gate.between():  # the commit of batch 2 waits
            _until_frozen(running, 2)
            late.set()
            assert ended.wait(10)
            threading.Event().wait(0.2)  # for the late attempt to hand its result in
        running.processAllAvailable(timeout=10)
        assert dict(running.state("counts").items()) == dict.fromkeys(WORDS, 1)


def test_a_key_that_only_the_failed_attempt_touched_is_counted_once_when_its_tuple_comes_back() -> None:
    """The hole in Trident's opaque rule: attempt 1:0 holds w0..w3, attempt 1:1 only w0; the others come back later."""
    seen: list[str] = []

    def word(tagged: str) -> str:
        attempt, _, word = tagged.partition("/")
        seen.append(tagged)
        if tagged == "1:0/w3":
            raise RuntimeError("the first attempt fails at its last tuple")
        return word

    topology = TridentTopology()
    stream = topology.newStream("words", Shrinking()).map("word", word, "word string")
    stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with start_local(topology, name="hole", maxSpoutPending=1) as running:
        running.processAllAvailable(timeout=10)
        assert [t for t in seen if t.startswith("1:")] == ["1:0/w0", "1:0/w1", "1:0/w2", "1:0/w3", "1:1/w0"]
        assert dict(running.state("counts").items()) == dict.fromkeys(WORDS, 1)


def _until_frozen(running: RunningTopology, txid: int) -> None:
    run = running._runs["words"]
    for _ in range(1000):
        if run.coordinator.frozen >= txid:
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"batch {txid} did not freeze: {running.status}")
