"""The carrier of each piece of work, and the reasons for which "auto" leaves it to the driver.

docs/guide/scale.md lists these reasons as `explain` prints them.
"""

import re
import secrets
import threading
from pathlib import Path
from typing import Any

import pytest

from trident import (
    Count,
    DeadLetter,
    MapGet,
    SessionWindow,
    StatefulOperation,
    Sum,
    TransactionOperation,
    TridentTopology,
    TumblingEventTimeWindow,
)
from trident.compiler.carrier_choice import CarrierPlan
from trident.compiler.stages import cut
from trident.operations.windows import TumblingCountWindow
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState

SCALE = Path(__file__).parents[2] / "docs" / "guide" / "scale.md"
HELD = {"keyFields": "word", "valueType": "long", "name": "s"}


def shared(writers: str = "auto") -> Any:
    return RedisMapState.opaque("redis://127.0.0.1:1", writers=writers)


def stream(topology: TridentTopology) -> Any:
    return topology.newStream("words", FixedBatchSpout("word string, n long, time timestamp", [[("a", 1, None)]]))


def words(topology: TridentTopology) -> Any:
    return stream(topology).groupBy("word")


def counts(topology: TridentTopology, state: Any = None) -> Any:
    return words(topology).persistentAggregate(state or shared(), Count(), "count", name="s")


def total(tuple: Any, state: Any) -> int:
    state.put(tuple.word, tuple.n)
    return int(tuple.n)


def put(state: Any, tuples: Any, collector: Any) -> None: ...


def taken(table: Any, txid: int, attempt: int) -> None: ...


class Joined:
    outputType = "string"

    def init(self) -> str:
        return ""

    def reduce(self, curr: str, tuple: Any) -> str:
        return curr


class Checkpointed(TransactionOperation):
    def initState(self, checkpoint: Any) -> None: ...
    def rollback(self, checkpoint: Any) -> None: ...
    def execute(self, tuple: Any, collector: Any) -> None: ...
    def finishBatch(self, txid: int) -> Any: ...


class Preparing(StatefulOperation):
    outputType = "long"

    def initState(self, state: Any) -> None: ...
    def execute(self, tuple: Any, collector: Any) -> None: ...
    def preCommit(self, txid: int) -> None:
        print(txid)


class Locked:
    """An updater and a query function that cannot be sent anywhere."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def count(self, state: Any) -> int:
        return 0

    def batchRetrieve(self, state: Any, args: Any) -> Any:
        return state.multiGet([each.word for each in args])

    def execute(self, each: Any, result: Any, collector: Any) -> None:
        collector.emit([result])


class Coin:
    """A query function that gives 0 or 1 by chance."""

    def batchRetrieve(self, state: Any, args: Any) -> Any:
        return [secrets.randbelow(2) for _ in args]

    def execute(self, each: Any, result: Any, collector: Any) -> None:
        collector.emit([result])


# --- topologies whose state "s" is the executors' too ---------------------------------------------------------------


def counted(topology: TridentTopology) -> None:
    counts(topology)


def totalled(topology: TridentTopology) -> None:
    stream(topology).persistentAggregate(shared(), "n", Sum(), "sum", name="s")


def window(topology: TridentTopology) -> None:
    words(topology).window(TumblingCountWindow(3), shared(), Count(), "count", name="s")


def stateful(topology: TridentTopology) -> None:
    stream(topology).statefulEach(total, "now long", stateFactory=shared(), **HELD)


@pytest.mark.parametrize("make", [counted, totalled, window, stateful])
def test_a_state_that_executors_can_work_on_is_anyones(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (group,) = cut(topology_of(make)).groups
    choice = CarrierPlan(group).by_state["s"]
    assert choice.writers == "auto" and choice.why_driver is None
    assert "written by: the executors if" in explained(make, capsys)


def test_a_state_in_memory_is_the_drivers_without_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    def in_memory(topology: TridentTopology) -> None:
        counts(topology, MemoryMapState.opaque())

    (group,) = cut(topology_of(in_memory)).groups
    choice = CarrierPlan(group).by_state["s"]
    assert choice.writers == "driver" and choice.why_driver is None
    assert "written by:" not in explained(in_memory, capsys)


# --- topologies whose state "s" is always the driver's --------------------------------------------------------------


def read_later(topology: TridentTopology) -> None:
    counts(topology).newValuesStream().foreachArrow(taken, name="out")


def without_txid(topology: TridentTopology) -> None:
    counts(topology, RedisMapState.nonTransactional("redis://127.0.0.1:1", writers="auto"))


def with_password(topology: TridentTopology) -> None:
    counts(topology, RedisMapState.opaque("redis://:secret@127.0.0.1:1", writers="auto"))


def by_event_time(topology: TridentTopology) -> None:
    window = TumblingEventTimeWindow("1 minute", "time", "1 second")
    words(topology).window(window, shared(), Count(), "count", name="s")


def without_keys(topology: TridentTopology) -> None:
    stream(topology).persistentAggregate(shared(), "n", Joined(), "seen", name="s")


def in_transactions(topology: TridentTopology) -> None:
    stream(topology).statefulEach(Checkpointed(), stateFactory=shared(), name="s")


def prepared(topology: TridentTopology) -> None:
    stream(topology).statefulEach(Preparing(), "now long", stateFactory=shared(), **HELD)


def forgotten(topology: TridentTopology) -> None:
    stream(topology).dropDuplicates("word", shared(), timestampField="time", within="1 minute", name="s")


def newest_letters(topology: TridentTopology) -> None:
    bad = stream(topology).each("word", int, "number long", onError=DeadLetter())
    bad.persistentAggregate(MemoryMapState.opaque(), "number", Sum(), "sum", name="sum")
    topology.deadLetterState(shared(), name="s")


def without_the_key(topology: TridentTopology) -> None:
    stream(topology).partitionPersist(shared(), "n", put, **HELD)


def late(topology: TridentTopology) -> None:
    sessions = words(topology).window(SessionWindow("1 minute", "time", "1 second"), shared(), Count(), "n", name="s")
    sessions.late().foreachArrow(taken, name="late")


def behind_an_aggregate(topology: TridentTopology) -> None:
    before = words(topology).persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="before")
    before.newValuesStream().statefulEach(total, "now long", stateFactory=shared(), **HELD)


def in_parts(topology: TridentTopology) -> None:
    stream(topology).partitionPersist(shared(), put, **HELD)


def locked(topology: TridentTopology) -> None:
    locks = Locked()
    stream(topology).statefulEach(lambda tuple, state: locks.count(state), "now long", stateFactory=shared(), **HELD)


def asked_for_an_output(topology: TridentTopology) -> None:
    held = counts(topology, shared("executors"))
    topology.newStream("asking", FixedBatchSpout("word string", [["a"]])).stateQuery(
        held, "word", MapGet(), "n"
    ).foreachArrow(taken, name="out")


def asked_for_the_driver(topology: TridentTopology) -> None:
    held = counts(topology, shared("executors"))
    asking = topology.newStream("asking", FixedBatchSpout("word string", [["a"]]))
    asking.stateQuery(held, "word", MapGet(), "n").toTable("word", MemoryMapState.opaque(), name="latest")


def asked_by_what_cannot_be_sent(topology: TridentTopology) -> None:
    asking = topology.newStream("asking", FixedBatchSpout("word string", [["a"]]))
    asked = asking.stateQuery(counts(topology), "word", Locked(), "n long")
    asked.groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="asked")


def answered(topology: TridentTopology, function: Any = None) -> Any:
    asking = topology.newStream("asking", FixedBatchSpout("word string, time timestamp", [[("a", None)]]))
    return asking.stateQuery(counts(topology, shared("executors")), "word", function or Coin(), "n long")


def tabled(asked: Any) -> None:
    asked.toTable("word", shared("executors"), valueFields="n", name="latest")


def counted_by_answer(asked: Any) -> None:
    asked.groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="asked")


def in_sessions(asked: Any) -> None:
    window = SessionWindow("1 minute", "time", "1 second")
    asked.groupBy("word").window(window, shared("executors"), Count(), "count", name="visits")


def read_twice(topology: TridentTopology, function: Any = None) -> None:
    asked = answered(topology, function)
    tabled(asked)
    counted_by_answer(asked)


def read_once(topology: TridentTopology) -> None:
    counted_by_answer(answered(topology))


def tabled_once(topology: TridentTopology) -> None:
    tabled(answered(topology))


def tabled_twice(topology: TridentTopology) -> None:
    asked = answered(topology)
    tabled(asked)
    in_sessions(asked)


def searched_first(topology: TridentTopology) -> None:
    in_sessions(answered(topology))


def read_twice_but_built_in(topology: TridentTopology) -> None:
    read_twice(topology, MapGet())


WRITTEN = [
    *(read_later, without_txid, with_password, by_event_time, without_keys, in_transactions, prepared, forgotten),
    *(newest_letters, without_the_key, late, behind_an_aggregate, in_parts, locked),
]
ASKED = [
    *(asked_for_an_output, asked_for_the_driver, asked_by_what_cannot_be_sent),
    *(read_twice, tabled_twice, searched_first),
]


def topology_of(make: Any) -> TridentTopology:
    topology = TridentTopology()
    make(topology)
    return topology


def explained(make: Any, capsys: pytest.CaptureFixture[str]) -> str:
    topology_of(make).explain()
    return capsys.readouterr().out


def reason(make: Any) -> str:
    """Return why the driver works on state "s", or why it asks it."""
    plans = [CarrierPlan(group) for group in cut(topology_of(make)).groups]
    if make in ASKED:
        (choice,) = [choice for plan in plans for choice in plan.by_query.values()]
    else:
        (choice,) = [plan.by_state["s"] for plan in plans if "s" in plan.by_state]
        assert choice.writers == "driver"
    assert choice.why_driver is not None
    return choice.why_driver


@pytest.mark.parametrize("make", [*WRITTEN, *ASKED])
def test_a_reason_is_printed(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shown, why = explained(make, capsys), reason(make)
    assert (f"the driver asks: {why}" if make in ASKED else f"written by: the driver ({why})") in shown


@pytest.mark.parametrize("make", [read_once, tabled_once, read_twice_but_built_in])
def test_executors_ask_if_one_piece_of_work_reads_the_answers_or_they_are_always_the_same(make: Any) -> None:
    plans = [CarrierPlan(group) for group in cut(topology_of(make)).groups]
    (choice,) = [choice for plan in plans for choice in plan.by_query.values()]
    assert choice.by_executors


def test_the_guide_lists_all_reasons() -> None:
    page = SCALE.read_text(encoding="utf-8")
    section = re.search(r"## Work that the driver always does\n(.*?)\n## ", page, re.DOTALL)
    assert section is not None
    listed = {re.sub(r"\s+", " ", text) for text in re.findall(r"`([^`]*)`(?:;|\.)$", section[1], re.MULTILINE)}
    computed = re.compile(r"the driver computes its values( \(\S*\))?: ")
    reasons = {computed.sub("", reason(make)) for make in [*WRITTEN, *ASKED]}
    assert listed == {re.sub(r"test_carriers\.py:\d+", "app.py:9", text) for text in reasons}
