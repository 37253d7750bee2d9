"""DRPC inside the driver: typed requests, one txid, errors to whom they belong, one evaluation for many."""

import datetime
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

from tests.drpc.request_kit import (
    arguments,
    ask,
    each,
    mapped,
    planned,
    split,
    summed,
    words,
)
from tests.reads.reading_kit import States, state_node
from tests.reads.test_committed_reads import writing
from trident import Count, FilterNull, MapGet, Sum, TridentTopology
from trident.base.errors import (
    DRPCArgumentError,
    DRPCNotFoundError,
    DRPCTimeoutError,
    FencedError,
    SnapshotMovedError,
    StateRecoveringError,
    UserFunctionError,
)
from trident.compiler.arrow.evaluation import compile_request
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.engine import REQUEST
from trident.compiler.program import RequestPlan
from trident.compiler.stages import cut
from trident.drpc.local import LocalDRPC, _apart
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident_state.state_shape import StateKind

COUNTS = state_node("counts")


@pytest.fixture
def states() -> States:
    states = States({"sentences": [COUNTS]})
    states.commit("sentences", {"counts": {"cat": 4, "dog": 4, "the": 10}})
    return states


@pytest.fixture
def drpc(states: States) -> LocalDRPC:
    return LocalDRPC([words(COUNTS)], states)


def test_a_request_is_answered_from_the_committed_state(drpc: LocalDRPC, states: States) -> None:
    answer = drpc.execute("words", "cat dog the unicorn")
    assert answer == [Row(sum=18)]
    assert isinstance(answer, list) and answer[0].sum == 18
    assert answer.fields == ("sum",)
    assert answer.asOfTxid == 1
    assert answer.toPandas().to_dict("list") == {"sum": [18]}
    assert answer.toPandas().attrs == {"asOfTxid": 1}
    assert answer.toArrow().to_pydict() == {"sum": [18]}
    states.apply("counts", 2, {"cat": 100})  # a batch under way
    assert drpc.execute("words", "cat") == [Row(sum=4)]
    states.txids["sentences"] = 2
    answer = drpc.execute("words", args="cat")
    assert (answer, answer.asOfTxid) == ([Row(sum=104)], 2)


def test_words_that_nobody_counted_sum_up_to_nothing(drpc: LocalDRPC) -> None:
    assert drpc.execute("words", "unicorn") == [Row(sum=0)]
    assert drpc.execute("words", "") == [Row(sum=0)]


def test_no_row_still_has_fields(states: States) -> None:
    plan = planned("rows", each(arguments("rows"), "args", split, "word string", many=True))
    answer = LocalDRPC([plan], states).execute("rows", "")
    assert answer == []
    assert answer.fields == ("args", "word")
    assert answer.asOfTxid is None
    assert "<th>word</th>" in answer._repr_html_()


def test_an_unknown_function_lists_those_there_are(drpc: LocalDRPC) -> None:
    with pytest.raises(DRPCNotFoundError) as caught:
        drpc.execute("word", "x")
    assert str(caught.value) == "no DRPC function 'word'; did you mean 'words'?; the functions are (words)"
    assert isinstance(caught.value, LookupError)


def test_a_topology_without_functions_says_so(states: States) -> None:
    with pytest.raises(DRPCNotFoundError, match="no DRPC function 'words'; the topology has none"):
        LocalDRPC([], states).execute("words", "x")


def lookup(states: States) -> LocalDRPC:
    visits = states.nodes["visits"]
    return LocalDRPC(
        [planned("lookup", ask(arguments("lookup", "user long, day date"), visits, "user day", "n"))], states
    )


def test_typed_arguments_by_position_and_by_name() -> None:
    states = States({"g": [state_node("visits", "user long, day date")]})
    day = datetime.date(2024, 2, 29)
    states.commit("g", {"visits": {(1, day): 3}})
    drpc = lookup(states)
    wanted = [Row(user=1, day=day, n=3)]
    assert drpc.execute("lookup", 1, day) == wanted
    assert drpc.execute("lookup", user=1, day=day) == wanted
    assert drpc.execute("lookup", 1, day=day, timeout=5) == wanted
    assert drpc.execute("lookup", 1, None) == [Row(user=1, day=None, n=None)]
    assert repr(drpc) == "LocalDRPC(lookup(user bigint, day date))"


@pytest.mark.parametrize(
    ("args", "named", "what"),
    [
        ((), {}, "argument 'user' is missing"),
        ((1,), {}, "argument 'day' is missing"),
        ((1, None, 3), {}, "the call has 3 arguments"),
        ((1,), {"Day": None}, "there is no argument 'Day'; did you mean 'day'?"),
        ((1,), {"user": 2, "day": None}, "argument 'user' is given twice"),
        (("1", None), {}, "argument 'user' is '1' (str)"),
        ((True, None), {}, "argument 'user' is True (bool): a bool is not accepted as a number; write int(...)"),
        ((1.5, None), {}, "argument 'user' is 1.5 (float)"),
        ((1, "2024-02-29"), {}, "argument 'day' is '2024-02-29' (str)"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(args: tuple[Any, ...], named: dict[str, Any], what: str) -> None:
    drpc = lookup(States({"g": [state_node("visits", "user long, day date")]}))
    with pytest.raises(DRPCArgumentError) as caught:
        drpc.execute("lookup", *args, **named)
    assert str(caught.value) == f"DRPC 'lookup': {what}; the function is declared as lookup(user bigint, day date)"
    assert isinstance(caught.value, TypeError)


class Slow:
    """A split that stands still until it is let go, and counts how often rows came to it together."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Event()

    def __call__(self, text: str) -> Iterator[str]:
        self.begun.set()
        assert self.go.wait(10)
        if text == "bad":
            raise ZeroDivisionError("bad word")
        yield from text.split()


def queued(drpc: LocalDRPC, function: str, count: int) -> None:
    until = time.monotonic() + 5
    while len(drpc._functions[function]._combining._queue) < count:
        assert time.monotonic() < until
        time.sleep(0.001)


def test_requests_that_meet_are_answered_together_and_a_failing_one_fails_alone(states: States) -> None:
    slow = Slow()
    drpc = LocalDRPC([words(COUNTS, splitting=slow)], states)
    combining = drpc._functions["words"]._combining
    combining._patience = 60
    batches: list[int] = []
    answer = combining._answer
    combining._answer = lambda requests, audience: batches.append(len(requests)) or answer(requests, audience)  # type: ignore[func-returns-value]
    texts = ["cat", "bad", "dog the", "unicorn", "the the"]
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(drpc.execute, "words", "the")
        assert slow.begun.wait(5)
        others = {text: pool.submit(drpc.execute, "words", text) for text in texts}
        queued(drpc, "words", 5)
        slow.go.set()
        assert first.result(5) == [Row(sum=10)]
        assert {text: others[text].result(5)[0].sum for text in texts if text != "bad"} == {
            "cat": 4,
            "dog the": 14,
            "unicorn": 0,
            "the the": 20,
        }
        with pytest.raises(UserFunctionError, match="ZeroDivisionError: bad word"):
            others["bad"].result(5)
    assert batches == [1, 5]


def test_an_error_of_the_run_reaches_everybody(drpc: LocalDRPC, states: States) -> None:
    states.stores["counts"] = states.made("counts")
    with pytest.raises(StateRecoveringError, match="has to wait"):
        drpc.execute("words", "cat")
    states.stopped = FencedError("taken over by epoch 2")
    with pytest.raises(FencedError, match="taken over by epoch 2"):
        drpc.execute("words", "cat")


def test_a_timeout_frees_the_caller_and_the_function_goes_on(states: States) -> None:
    slow = Slow()
    drpc = LocalDRPC([words(COUNTS, splitting=slow)], states)
    began = time.monotonic()
    with pytest.raises(DRPCTimeoutError) as caught:
        drpc.execute("words", "cat", timeout=0.5)  # on a busy machine, too, the function has begun by then
    told = str(caught.value)
    assert told.startswith("DRPC 'words': no answer within 0.5 s: Slow (test_local.py:")
    assert "now at test_local.py:" in told
    (hanging,) = drpc.hanging
    assert hanging["call"].startswith("DRPC 'words': Slow (test") and hanging["at"].startswith("test_local.py:")
    assert isinstance(caught.value, TimeoutError)
    assert time.monotonic() - began < 5
    slow.go.set()
    assert drpc.execute("words", "cat") == [Row(sum=4)]
    until = time.monotonic() + 5
    while drpc.hanging:
        assert time.monotonic() < until
        time.sleep(0.001)


def test_several_reads_of_one_request_are_as_of_one_txid_while_batches_are_committed() -> None:
    """ins and outs cancel out at every txid; the second read comes after the first, in the same request."""
    ins, outs = state_node("ins"), state_node("outs")
    states = States({"g": [ins, outs]})
    step = iter(range(1, 10**9))

    def batch() -> None:
        amount = next(step)
        states.commit("g", {"ins": {"cat": amount}, "outs": {"cat": -amount}})

    def slowly(word: str) -> str:
        time.sleep(0.002)  # batches are committed between the two reads
        return word

    first = ask(arguments("balance", "word string"), ins, "word", "came")
    second = ask(each(first, "word", slowly, "again string"), outs, "again", "went")
    drpc = LocalDRPC([planned("balance", second)], states)
    batch()
    txids = []
    until = time.monotonic() + 60
    with writing(batch):
        while (len(set(txids)) <= 20 or states.holds == 0) and time.monotonic() < until:
            answer = drpc.execute("balance", "cat")
            assert answer[0].came + answer[0].went == 0
            txids.append(answer.asOfTxid)
    assert txids == sorted(txids)
    assert len(set(txids)) > 20, "few batches were committed in a minute: this test shows nothing"
    assert states.holds > 0, "no read was ever in the way of a commit: this test shows nothing"


def test_states_of_two_groups_have_a_txid_each() -> None:
    left, right = state_node("left"), state_node("right")
    states = States({"g": [left], "h": [right]})
    for _ in range(3):
        states.commit("g", {"left": {"cat": 1}})
    states.commit("h", {"right": {"cat": 5}})
    leaf = ask(ask(arguments("both", "word string"), left, "word", "l"), right, "word", "r")
    answer = LocalDRPC([planned("both", leaf)], states).execute("both", "cat")
    assert answer == [Row(word="cat", l=3, r=5)]
    assert answer.asOfTxid == {"g": 3, "h": 1}


def test_a_non_transactional_state_has_no_txid_to_tell() -> None:
    plain = state_node("plain", kind=StateKind.NON_TRANSACTIONAL)
    states = States({"g": [plain]})
    states.commit("g", {"plain": {"cat": 1}})
    answer = LocalDRPC([planned("plain", ask(arguments("plain", "word string"), plain, "word", "n"))], states).execute(
        "plain", "cat"
    )
    assert (answer, answer.asOfTxid) == ([Row(word="cat", n=1)], None)


def test_a_function_over_no_state_is_a_plain_function(states: States) -> None:
    plan = planned("double", mapped(arguments("double", "n long"), "n", lambda n: 2 * n, "twice long"))
    assert LocalDRPC([plan], states).execute("double", 21) == [Row(twice=42)]


def test_a_crowd_gets_each_its_own_answer(states: States, drpc: LocalDRPC) -> None:
    texts = ["cat", "dog the", "the the the", "unicorn", "cat dog the"]
    sums = [4, 14, 30, 0, 18]

    def work(me: int) -> None:
        for n in range(100):
            at = (me + n) % 5
            assert drpc.execute("words", texts[at], timeout=10 if n % 10 == 0 else None) == [Row(sum=sums[at])]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_rows_of_grouped_answers_go_to_their_request(states: States) -> None:
    each_word = each(arguments("each"), "args", split, "word string", many=True)
    plan = planned("each", summed(ask(each_word, COUNTS, "word", "count"), "count", "sum", ("word",)))
    answer = compile_request(plan)
    args = Column.made(["cat dog", "", "dog"], pa.string())
    asked = Columns({REQUEST.name: Column(REQUEST.type, None, [0, 1, 2]), "args": args}, 3)
    found = answer(asked, lambda node, keys: states.stores["counts"].read(keys, 1).values)
    parts = [sorted(zip(*part.lists(part.names), strict=True)) for part in _apart(found, 3)]
    assert parts == [[("cat", 4), ("dog", 4)], [], [("dog", 4)]]


def threads_of_reads(states: States, monkeypatch: pytest.MonkeyPatch, moved: bool = False) -> list[int]:
    """The threads that read the counts. With `moved`, this thread finds that the state has moved on."""
    threads, here = list[int](), threading.get_ident()
    store: Any = states.stores["counts"]
    read_few = store.read_few

    def noted(keys: Any, asOf: int | None) -> Any:
        threads.append(threading.get_ident())
        if moved and threads[-1] == here:
            raise SnapshotMovedError("moved on")
        return read_few(keys, asOf)

    monkeypatch.setattr(store, "read_few", noted)
    return threads


def gets() -> RequestPlan:
    """A function without user code, written as users write it: only so the sites of its steps are the library's."""
    topology = TridentTopology()
    words = topology.newStream("sentences", FixedBatchSpout("word string", []))
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    asked = topology.newDRPCStream("get").stateQuery(counts, "args", MapGet(), "n").each("n", FilterNull())
    asked.groupBy("args").aggregate("n", Sum(), "n")
    return cut(topology).requests[0]


def test_a_query_that_waits_for_nothing_is_answered_by_its_caller(
    states: States, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = threading.get_ident()
    threads = threads_of_reads(states, monkeypatch)
    drpc = LocalDRPC([gets(), words(COUNTS)], states, timeout=10)
    assert drpc.execute("get", "cat") == [Row(args="cat", n=4)]
    assert drpc.execute("get", "unicorn", timeout=5) == []
    assert threads == [here, here]
    assert drpc.execute("words", "cat") == [Row(sum=4)]
    assert threads[-1] != here, "a function of the user's may hang, and its caller must be able to leave"


def test_a_query_in_whose_way_commits_are_waits_in_another_thread(
    states: States, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = threads_of_reads(states, monkeypatch, moved=True)
    drpc = LocalDRPC([gets()], states, timeout=10)
    assert drpc.execute("get", "cat") == [Row(args="cat", n=4)]
    assert threads[0] == threading.get_ident() != threads[-1]


def test_a_query_of_a_state_elsewhere_may_wait(states: States, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = threads_of_reads(states, monkeypatch)
    monkeypatch.setattr(states.stores["counts"], "isPrompt", False, raising=False)
    drpc = LocalDRPC([gets()], states, timeout=10)
    assert drpc.execute("get", "cat") == [Row(args="cat", n=4)]
    assert threads[0] != threading.get_ident()
