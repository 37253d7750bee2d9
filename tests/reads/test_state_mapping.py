"""A state view is a mapping, and each question that a user asks it is one read as of one txid."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from tests.reads.reading_kit import States, state_node
from trident import TridentTopology
from trident.base.errors import StateError, UserFunctionError
from trident.operations.aggregates.count import Count
from trident.operations.aggregates.sum import Sum
from trident.plan.nodes import PersistentAggregate
from trident.reads.state_description import StateDescription
from trident.reads.state_view import StateView
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local


class Counted(States):
    """Stores that count how often all of a state is read."""

    scans = 0

    def store(self, state: str) -> Any:
        store, counted = self.stores[state], self

        class Watched:
            read = store.read

            def scan(self, asOf: int | None, pageRows: int = 10_000) -> Iterator[pa.Table]:
                counted.scans += 1
                return store.scan(asOf, pageRows)

        return Watched()


def view_of(node: PersistentAggregate, *batches: dict[Any, Any]) -> tuple[Counted, StateView]:
    states = Counted({"g": [node]})
    for batch in batches:
        states.commit("g", {node.state.name: batch})
    return states, StateView(states, StateDescription.of(node, states.shapes[node.state.name]))


@pytest.fixture
def counted() -> tuple[Counted, StateView]:
    return view_of(state_node("counts"), {"dog": 2, "cat": 1}, {"dog": 2, None: 7})


WHAT = {"dog": 4, "cat": 1, None: 7}


def test_it_is_a_mapping(counted: tuple[Counted, StateView]) -> None:
    _, counts = counted
    assert isinstance(counts, Mapping)
    assert dict(counts) == {**counts} == dict(counts.items()) == WHAT
    assert set(counts) == set(counts.keys()) == set(WHAT)
    assert sorted(counts.values()) == [1, 4, 7] and 7 in counts.values() and 8 not in counts.values()
    assert len(counts) == len(counts.keys()) == len(counts.values()) == len(counts.items()) == 3
    assert len(counts.items(limit=2)) == len(list(counts.items(limit=2))) == 2
    keys = counts.keys()
    assert "dog" in keys and ("dog", 4) in counts.items() and ("dog", 3) not in counts.items()
    assert counts.keys() & {"dog", "emu"} == {"dog"}
    assert bool(counts) and not view_of(state_node("counts"))[1]
    match counts:
        case {"dog": dogs}:
            assert dogs == 4


def test_keys_that_are_arrays_are_lists_which_no_dict_takes() -> None:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("l array<int>", [[([1, 2],), ([1, 2],)]]))
    words.groupBy("l").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with start_local(topology) as running:
        running.processAllAvailable()
        counts = running.state("counts")
        assert list(counts.items()) == [([1, 2], 2)]
        with pytest.raises(TypeError, match="unhashable type: 'list'"):
            dict(counts)


def test_views_are_equal_only_to_themselves_as_their_contents_change(counted: tuple[Counted, StateView]) -> None:
    states, counts = counted
    assert counts == counts and counts != view_of(state_node("counts"))[1] and {counts: 1}[counts] == 1
    assert states.scans == 0


@pytest.mark.parametrize("ask", [dict, list, set, sorted, tuple, len, lambda view: {**view}, lambda v: list(v.keys())])
def test_each_question_is_one_read(ask: Any) -> None:
    states, counts = view_of(state_node("counts"), {"dog": 2, "cat": 1})
    ask(counts)
    assert states.scans == 1
    ask(counts)
    assert states.scans == 2, "an earlier listing answered a later question"


def test_a_dict_of_a_state_that_is_written_meanwhile_is_as_of_one_txid() -> None:
    words = [f"w{n}" for n in range(25_000)]

    class Disturbed(Sum):
        """While a reader makes its dict, batches are committed: at each value that it is shown."""

        shown = 0

        def present(self, acc: int) -> int:
            Disturbed.shown += 1
            if Disturbed.shown in (1, 9_000, 20_000):
                states.commit("g", {"counts": dict.fromkeys(words, 1)})
            return acc

    states, counts = view_of(state_node("counts", aggregator=Disturbed()), dict.fromkeys(words, 1))
    assert dict(counts) == dict.fromkeys(words, 1)
    assert states.txids["g"] == 4 and dict(counts) == dict.fromkeys(words, 4)


class Inverse(Sum):
    def present(self, acc: int) -> float:
        return 1 / acc


def test_a_present_that_raises_is_told_with_state_key_and_function() -> None:
    _, inverse = view_of(state_node("inverse", aggregator=Inverse()), {"a": 2, "b": 0})
    said = (
        r"state 'inverse', word='b': Inverse.present \(test_state_mapping.py:\d+\) raised ZeroDivisionError: "
        r"division by zero; the stored value was 0"
    )
    for read in (lambda: list(inverse.items()), lambda: inverse["b"], inverse.toArrow, inverse.values):
        with pytest.raises(UserFunctionError, match=said) as failed:
            list(read())  # type: ignore[call-overload]
        assert isinstance(failed.value.__cause__, ZeroDivisionError)
    assert inverse.multiGet(["a", "c"]) == [0.5, None]


def test_a_present_of_several_aggregates_that_raises_is_told_too() -> None:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string, n long", [[("a", 0)]]))
    several = {"c": Count(), "i": Inverse("n")}
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), several, name="both")
    with start_local(topology) as running:
        running.processAllAvailable()
        for read in (running.state("both").toArrow, lambda: running.state("both")["a"]):
            with pytest.raises(UserFunctionError, match=r"'both', word='a': Inverse.present \(test_state_map.*Zero"):
                read()


def test_what_is_asked_after_a_listing_is_read_anew() -> None:
    states, counts = view_of(state_node("counts"), {"dog": 1})
    keys = list(counts.keys())
    states.commit("g", {"counts": {"dog": 1, "cat": 1}})
    assert counts[keys[0]] == 2 and len(counts) == 2


def test_the_keys_of_a_mapping_are_its_keys_also_in_a_global_state() -> None:
    _, total = view_of(state_node("total", keys=""), {(): 5})
    assert dict(total) == {(): 5} and total[()] == 5 and () in total and len(total) == 1
    _, none = view_of(state_node("total", keys=""))
    assert dict(none) == {} and len(none) == 0 and none.get(()) is None


# --- top ----------------------------------------------------------------------------------------------------------


def test_the_greatest_values_come_first_and_equal_ones_by_key(counted: tuple[Counted, StateView]) -> None:
    states, counts = counted
    states.commit("g", {"counts": {"emu": 4, "ant": 4}})
    assert counts.top(4) == [(None, 7), ("ant", 4), ("dog", 4), ("emu", 4)]
    assert counts.top(2, by=lambda count: -count) == [("cat", 1), ("ant", 4)]
    assert counts.top(0) == [] and len(counts.top(99)) == 5
    assert view_of(state_node("counts"))[1].top(3) == []


def test_presented_values_are_ranked_as_readers_see_them() -> None:
    class Shown(Sum):
        def present(self, acc: int) -> dict[str, Any]:
            return {"rank": None if acc == 2 else float("nan") if acc == 3 else -acc}

    _, shown = view_of(state_node("shown", aggregator=Shown()), {"a": 1, "b": 2, "c": 3, "d": 4})
    assert [key for key, _ in shown.top(4, by="rank")] == ["a", "d", "b", "c"]
    with pytest.raises(StateError, match=r"state 'shown': top: '<' not supported .*give by=, a function that returns"):
        shown.top(2)
    with pytest.raises(StateError, match=r"state 'shown': top: the value .* has no field 'size'"):
        shown.top(2, by="size")


def test_a_field_ranks_values_that_have_fields() -> None:
    with letters() as state:
        [(_, letter)] = state.top(1, by="message")
        assert letter["tuple"] == '{"line":"zz"}'
        with pytest.raises(
            StateError, match=r"top: the value has no field 'mesage'; did you mean 'message'\? \(it has s"
        ):
            state.top(1, by="mesage")
        with pytest.raises(StateError, match=r"top: values of type struct<.* have no order; name the field that ranks"):
            state.top(1)


@pytest.mark.parametrize("n", [-1, 1.5, "3", True])
def test_a_number_of_entries_is_a_whole_number(counted: tuple[Counted, StateView], n: Any) -> None:
    with pytest.raises(ValueError, match=r"state 'counts': top: n=.*: expected a whole number of at least 0"):
        counted[1].top(n)


# --- pandas -------------------------------------------------------------------------------------------------------


class letters:
    """A run with two dead letters; its state of dead letters."""

    def __enter__(self) -> StateView:
        topology = TridentTopology()
        lines = topology.newStream("lines", FixedBatchSpout("line string", [["1", "x", "zz"]]))
        lines.each("line", int, "n long", onError="deadLetter").peek(lambda tuple: None)
        topology.deadLetterState(MemoryMapState.opaque())
        self.running = start_local(topology, name="letters")
        self.running.processAllAvailable(timeout=20)
        return self.running.state("deadLetters")

    def __exit__(self, *error: object) -> None:
        self.running.stop()


def test_the_fields_of_dead_letters_are_columns() -> None:
    with letters() as state:
        frame = state.toPandas()
        assert list(frame.columns) == [
            "id", "stream", "step", "function", "error", "message", "tuple", "txid", "attempt"
        ]  # fmt: skip
        assert sorted(frame["tuple"]) == ['{"line":"x"}', '{"line":"zz"}']
        assert set(frame["error"]) == {"ValueError"} and frame.attrs == {"asOfTxid": 1}
        assert list(state.toPandas(flat=False).columns) == ["id", "value"]
