"""A state as a Python user reads it: a mapping of typed keys, a table, a picture."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

from tests.reads.reading_kit import States, state_node
from trident.base.errors import (
    StateKeyError,
    StateKeyNotFoundError,
    StateRecoveringError,
    StateValueError,
    TridentError,
)
from trident.base.value_conversion import to_python
from trident.operations.aggregates.sum import Sum
from trident.plan.nodes import PersistentAggregate
from trident.reads.state_description import StateDescription
from trident.reads.state_view import StateView
from trident_state.state_shape import StateKind


def view_of(node: PersistentAggregate, *batches: dict[Any, Any], isolation: str = "committed") -> StateView:
    states = States({"g": [node]})
    for batch in batches:
        states.commit("g", {node.state.name: batch})
    return StateView(states, StateDescription.of(node, states.shapes[node.state.name]), isolation)


@pytest.fixture
def counts() -> StateView:
    return view_of(state_node("counts"), {"dog": 2, "cat": 1}, {"dog": 2, None: 7})


def test_by_key(counts: StateView) -> None:
    assert counts["dog"] == 4
    assert counts[None] == 7
    assert counts.get("unicorn") is None
    assert counts.get("unicorn", 0) == 0
    assert "cat" in counts
    assert "unicorn" not in counts
    assert counts.multiGet(["unicorn", "cat", "cat"]) == [None, 1, 1]
    assert counts.multiGet(word for word in ("dog",)) == [4]
    assert counts.multiGet([]) == []


def test_a_missing_key_is_a_key_error_with_a_message(counts: StateView) -> None:
    with pytest.raises(KeyError) as caught:
        counts["unicorn"]
    assert isinstance(caught.value, StateKeyNotFoundError)
    assert str(caught.value) == "state 'counts' has no value for the key 'unicorn', as of txid 2"


def test_all_of_it(counts: StateView) -> None:
    assert dict(counts.items()) == {"dog": 4, "cat": 1, None: 7}
    assert set(counts) == {"dog", "cat", None}
    assert len(list(counts.items(limit=2))) == 2
    assert list(counts.items(limit=0)) == []
    with pytest.raises(ValueError, match="limit=-1: expected a number of rows, or None for all"):
        list(counts.items(-1))


def test_as_tables_that_know_their_txid(counts: StateView) -> None:
    frame = counts.toPandas()
    assert list(frame.columns) == ["word", "count"]
    assert dict(zip(frame["word"], frame["count"], strict=True)) == {"dog": 4, "cat": 1, None: 7}
    assert frame.attrs["asOfTxid"] == 2
    table = counts.toArrow(limit=1)
    assert table.num_rows == 1
    assert table.schema.metadata == {b"asOfTxid": b"2"}
    assert counts.asOfTxid == 2


def test_an_empty_state_has_a_typed_empty_table() -> None:
    view = view_of(state_node("counts"))
    assert view.toArrow().schema.names == ["word", "count"]
    assert list(view.items()) == []
    assert view.asOfTxid == 0


def test_several_key_fields_make_a_tuple() -> None:
    day = datetime.date(2024, 2, 29)
    view = view_of(state_node("visits", "user long, day date"), {(1, day): 3})
    assert view[1, day] == 3
    assert view.multiGet([(1, day), [2, day]]) == [3, None]
    assert list(view.items()) == [((1, day), 3)]


def test_a_global_state_has_one_value() -> None:
    view = view_of(state_node("total", keys=""), {(): 5}, {(): 6})
    assert view.value == 11
    assert list(view.items()) == [((), 11)]
    assert view_of(state_node("total", keys="")).value is None
    with pytest.raises(StateKeyError, match="state 'total' is one global value without a key: read view.value"):
        view["dog"]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda v: v[1], "state 'counts': invalid key 1 (int): expected word string"),
        (lambda v: v["a", "b"], "state 'counts': invalid key ('a', 'b') (tuple): expected word string"),
        (lambda v: b"dog" in v, "state 'counts': invalid key b'dog' (bytes): expected word string"),
        (lambda v: v.multiGet(["dog", 1.5]), "state 'counts': invalid key 1.5 (float): expected word string"),
        (lambda v: v.multiGet("dog"), "state 'counts': multiGet takes a list of keys, not the str 'dog'"),
        (lambda v: v.value, "state 'counts' is keyed by word string: read view[key], not view.value"),
    ],
)
def test_what_is_no_key_is_refused(counts: StateView, ask: Callable[[StateView], Any], message: str) -> None:
    with pytest.raises(StateKeyError) as caught:
        ask(counts)
    assert str(caught.value) == message
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, TridentError)


@pytest.mark.parametrize("key", ["1", 1.0, True, (1,)])
def test_an_int_key_is_an_int(key: Any) -> None:
    view = view_of(state_node("ids", "id long"), {1: 5})
    with pytest.raises(StateKeyError, match=r"invalid key .*: expected id bigint"):
        view[key]


def test_a_tuple_of_the_wrong_length_is_refused() -> None:
    view = view_of(state_node("visits", "user long, day date"))
    with pytest.raises(
        StateKeyError, match=r"invalid key 1 \(int\): expected a tuple of 2 values \(user bigint, day date\)"
    ):
        view[1]


def test_values_are_presented_as_the_aggregator_says() -> None:
    class Average(Sum):
        def present(self, acc: int) -> str:
            return f"{acc / 10:.1f}"

    view = view_of(state_node("average", aggregator=Average()), {"dog": 25})
    assert view["dog"] == "2.5"
    assert view.get("cat") is None
    assert dict(view.items()) == {"dog": "2.5"}
    assert view.toArrow().to_pydict() == {"word": ["dog"], "count": ["2.5"]}


PRESENTED = {
    "maps": ([{"a": 1}, {"b": None}, {}], pa.map_(pa.string(), pa.int64())),
    "maps without text": (
        [{1: {datetime.date(2026, 1, 1): [0.5]}}, {2: {}}],
        pa.map_(pa.int64(), pa.map_(pa.date32(), pa.list_(pa.float64()))),
    ),
    "empty maps": ([{}, {}], pa.map_(pa.string(), pa.null())),
    "nulls": ([{7: "x"}, None], pa.map_(pa.int64(), pa.string())),
    "structs": (
        [Row(a=1, m={"x": 1}), Row(a=None, m={})],
        pa.struct({"a": pa.int64(), "m": pa.map_(pa.string(), pa.int64())}),
    ),
    "tuples": ([(1, 2), ()], pa.list_(pa.int64())),
}


@pytest.mark.parametrize("case", PRESENTED)
def test_a_dict_that_present_returns_is_a_map_and_a_row_is_a_struct(case: str) -> None:
    values, kind = PRESENTED[case]

    class Shown(Sum):
        def present(self, acc: int) -> Any:
            return values[acc]

    view = view_of(state_node("shown", aggregator=Shown()), {str(at): at for at in range(len(values))})
    column = view.toArrow().sort_by("word").column("count")
    assert column.type == kind
    assert to_python(column) == [list(value) if case == "tuples" else value for value in values]
    assert view.asColumn(view.multiGet(["0", "1"])).type == kind


def test_a_declared_type_of_present_is_that_of_the_column_unless_a_value_is_none_of_it() -> None:
    class Shown(Sum):
        def present(self, acc: int) -> dict[str, float]:
            return {1: {}, 2: {"a": 1}, 3: [7]}[acc]  # type: ignore[return-value]

    for stored, kind in (
        (1, pa.map_(pa.string(), pa.float64())),
        (2, pa.map_(pa.string(), pa.float64())),
        (3, pa.list_(pa.int64())),
    ):
        assert view_of(state_node("shown", aggregator=Shown()), {"dog": stored}).toArrow().column("count").type == kind


def test_presented_values_that_no_column_can_hold_are_refused_as_a_table() -> None:
    """Arrow would take the datetime for a date."""

    class Day(Sum):
        def present(self, acc: int) -> Any:
            return {
                1: datetime.date(2024, 2, 29),
                2: datetime.datetime(2024, 2, 29),
                3: object,
                4: Decimal("1e-99999999"),
                5: {"n": 1, "name": "ox"},
                6: {None: 1},
                7: {2**53 + 1: 1, 0.5: 2},
                8: Row(n=1),
            }[acc]

    for stored, what in (
        ({"ox": 1, "dog": 2}, "datetime"),
        ({"ox": 3}, "type"),
        ({"ox": 4}, "precision"),
        ({"ox": 5}, "str.*a Row may have fields of several"),
        ({"ox": 6}, "a key of a map cannot be null"),
        ({"ox": 7}, "double"),
        ({"ox": 5, "dog": 8}, "are mixed"),
    ):
        view = view_of(state_node("days", aggregator=Day()), stored)
        with pytest.raises(StateValueError, match=f"state 'days': no column can hold .*{what}"):
            view.toArrow()
    assert view["ox"] == {"n": 1, "name": "ox"}


def test_a_key_with_a_value_that_is_presented_as_none_is_in_the_view() -> None:
    """As the mean of nulls alone: something is stored, so the loop lists the key, and each way of asking finds it."""

    class Positive(Sum):
        def present(self, acc: int) -> int | None:
            return acc if acc > 0 else None

    view = view_of(state_node("positive", aggregator=Positive()), {"dog": 2, "cat": -1})
    assert dict(view) == {"dog": 2, "cat": None}
    for key in view:
        assert key in view
        assert view[key] == view.get(key, 7) == {"dog": 2, "cat": None}[key]
    assert view.get("unicorn", 7) == 7
    with pytest.raises(StateKeyNotFoundError):
        view["unicorn"]


def test_a_batch_under_way_is_seen_only_where_it_is_asked_for() -> None:
    node = state_node("counts")
    states = States({"g": [node]})
    states.commit("g", {"counts": {"dog": 1}})
    states.apply("counts", 2, {"dog": 1, "cat": 1})
    committed = StateView(states, StateDescription.of(node, states.shapes["counts"]))
    latest = StateView(states, StateDescription.of(node, states.shapes["counts"]), isolation="latest")
    assert (committed["dog"], dict(committed.items()), committed.asOfTxid) == (1, {"dog": 1}, 1)
    assert (latest["dog"], dict(latest.items()), latest.asOfTxid) == (2, {"dog": 2, "cat": 1}, None)
    assert "asOfTxid" not in latest.toPandas().attrs
    with pytest.raises(ValueError, match="isolation='dirty': expected 'committed' or 'latest'"):
        StateView(states, StateDescription.of(node, states.shapes["counts"]), isolation="dirty")


def test_a_non_transactional_state_has_the_latest_values_only() -> None:
    view = view_of(state_node("plain", kind=StateKind.NON_TRANSACTIONAL), {"dog": 1})
    assert (view.isolation, view.asOfTxid, view["dog"]) == ("latest", None, 1)


def test_a_loop_over_the_items_sees_one_txid_and_holds_nothing_back() -> None:
    node = state_node("counts")
    states = States({"g": [node]})
    words = [f"w{n}" for n in range(12_000)]
    states.commit("g", {"counts": dict.fromkeys(words, 1)})
    seen = set()
    for at, (_, value) in enumerate(StateView(states, StateDescription.of(node, states.shapes["counts"])).items()):
        if at % 4000 == 0:
            for _ in range(3):
                states.commit("g", {"counts": dict.fromkeys(words, 1)})
        seen.add(value)
    assert seen == {1}
    assert states.txids["g"] == 10


def test_it_looks_like_what_it_is(counts: StateView) -> None:
    assert repr(counts) == "StateView('counts', opaque, word string -> count bigint, as of txid 2)"
    shown = counts._repr_html_()
    assert "<b>counts</b> opaque, word string -&gt; count bigint, as of txid 2" in shown
    assert "<tr><td>dog</td><td>4</td></tr>" in shown
    assert "the first" not in shown
    many = view_of(state_node("counts"), {f"<w{n}>": n for n in range(20)})
    assert many._repr_html_().count("<tr>") == 11
    assert "&lt;w" in many._repr_html_() and "<w" not in many._repr_html_()
    assert "the first 10 rows" in many._repr_html_()


def test_a_state_that_cannot_be_read_says_so_in_its_picture() -> None:
    node = state_node("counts")
    states = States({"g": [node]})
    states.commit("g", {"counts": {"dog": 1}})
    states.stores["counts"] = states.made("counts")
    view = StateView(states, StateDescription.of(node, states.shapes["counts"]))
    with pytest.raises(StateRecoveringError):
        view["dog"]
    assert "<i>" in view._repr_html_() and "has to wait" in view._repr_html_()


class Presenting(Sum):
    def present(self, total: int) -> int:
        return -total


def test_a_key_is_got_promptly_only_if_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def view(name: str) -> StateView:
        return StateView(states, StateDescription.of(states.nodes[name], states.shapes[name]))

    states = States({"g": [state_node("counts"), state_node("shown", aggregator=Presenting())]})
    states.commit("g", {"counts": {"dog": 3}})
    counts = view("counts")
    assert (counts.getPromptly("dog"), counts.getPromptly("cat")) == ((3, 1), (None, 1))
    assert view("shown").getPromptly("dog") is None, "present() is the user's"
    with pytest.raises(StateKeyError, match="expected word string"):
        counts.getPromptly(7)
    states.txids["g"] = 0
    states.apply("counts", 2, {"dog": 1})
    assert counts.getPromptly("dog") is None, "as of txid 0 it can be read only while commits are held back"
    states.txids["g"] = 2
    assert counts.getPromptly("dog") == (4, 2)
    monkeypatch.setattr(states.stores["counts"], "isPrompt", False)
    assert counts.getPromptly("dog") is None
