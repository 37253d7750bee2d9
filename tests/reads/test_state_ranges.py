"""Ranges of a state's keys as a Python user reads them: pairs in order, page by page, as of one txid."""

import datetime
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reads.reading_kit import States, state_node
from tests.reads.test_state_view import view_of
from trident.base.errors import StateKeyError
from trident.operations.aggregates.sum import Sum
from trident.reads.state_description import StateDescription
from trident.reads.state_range import StateRange
from trident.reads.state_view import StateView
from trident_state.relational import SqliteMapState
from trident_state.state_shape import StateKind

DAY = datetime.date(2024, 2, 29)


@pytest.fixture
def counts() -> StateView:
    return view_of(state_node("counts"), {"dog": 2, "cat": 1, "cow": 3}, {"dog": 2, None: 7, "ant": 5})


@pytest.fixture
def visits() -> StateView:
    keys = {
        ("Rome", DAY, "a"): 1,
        ("Rome", DAY, "ab"): 2,
        ("Rome", None, "a"): 3,
        ("Oslo", DAY, "b"): 4,
        ("Ro", DAY, "c"): 5,
    }
    return view_of(state_node("visits", "city string, day date, page string"), keys)


def keys_of(pairs: StateRange) -> list[Any]:
    return [key for key, _ in pairs]


def pages_of(read: Callable[[str | None], StateRange]) -> Iterator[StateRange]:
    page = read(None)
    yield page
    while page.after is not None:
        page = read(page.after)
        yield page


def test_a_range_is_sorted_and_ends_before_its_high_end(counts: StateView) -> None:
    assert counts.range() == [(None, 7), ("ant", 5), ("cat", 1), ("cow", 3), ("dog", 4)]
    assert counts.range("cat", "dog") == [("cat", 1), ("cow", 3)]
    assert counts.range("cb") == [("cow", 3), ("dog", 4)]
    assert counts.range(high="b") == [(None, 7), ("ant", 5)]
    assert counts.range("dog", "cat") == []


@pytest.mark.parametrize(
    ("inclusive", "keys"),
    [("left", ["cat", "cow"]), ("right", ["cow", "dog"]), ("both", ["cat", "cow", "dog"]), ("neither", ["cow"])],
)
def test_either_end_may_belong_to_a_range(counts: StateView, inclusive: Any, keys: list[str]) -> None:
    assert keys_of(counts.range("cat", "dog", inclusive=inclusive)) == keys


def test_a_prefix(counts: StateView) -> None:
    assert counts.prefix("c") == [("cat", 1), ("cow", 3)]
    assert counts.prefix("cow") == [("cow", 3)]
    assert keys_of(counts.prefix("")) == ["ant", "cat", "cow", "dog"], "null begins with no text"


def test_the_first_fields_of_a_key_are_a_range(visits: StateView) -> None:
    rome = [("Rome", None, "a"), ("Rome", DAY, "a"), ("Rome", DAY, "ab")]
    assert keys_of(visits.prefix(("Rome",))) == rome
    assert keys_of(visits.prefix("Ro")) == [("Ro", DAY, "c"), *rome]
    assert keys_of(visits.prefix(("Rome", DAY))) == rome[1:]
    assert keys_of(visits.prefix(("Rome", DAY, "ab"))) == rome[2:]
    assert keys_of(visits.range(("Rome", datetime.date(2024, 1, 1)), ("Rome", datetime.date(2025, 1, 1)))) == rome[1:]
    assert keys_of(visits.range(("Ro",), ("Rome",))) == [("Ro", DAY, "c")]
    assert keys_of(visits.range(("Ro",), ("Rome",), inclusive="right")) == rome
    assert keys_of(visits.range(("Rome", None), ("Rome", None), inclusive="both")) == rome[:1]
    assert keys_of(visits.range(None, ("Oslo",), inclusive="both")) == [("Oslo", DAY, "b")]


def test_pages_are_one_read_in_parts(counts: StateView) -> None:
    pages = list(pages_of(lambda after: counts.range(limit=2, after=after)))
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [pair for page in pages for pair in page] == counts.range()
    assert counts.range("a", "c", limit=1).after is None, "there is no further key"
    assert {page.asOfTxid for page in pages} == {2}


def test_a_range_as_tables(counts: StateView) -> None:
    page = counts.range("c", limit=2)
    assert page.toArrow().to_pydict() == {"word": ["cat", "cow"], "count": [1, 3]}
    assert page.toArrow().schema.metadata == {b"asOfTxid": b"2"}
    assert page.toPandas()["count"].tolist() == [1, 3]
    assert counts.range("x").toArrow().schema.names == ["word", "count"]


def test_values_are_as_the_aggregator_presents_them() -> None:
    class Halves(Sum):
        def present(self, acc: int) -> float:
            return acc / 2

    view = view_of(state_node("halves", aggregator=Halves()), {"b": 3, "a": 2})
    assert view.range() == [("a", 1.0), ("b", 1.5)]
    assert view.range("b").toArrow()["count"].to_pylist() == [1.5]


def test_a_range_of_the_batch_before_and_of_the_latest_values() -> None:
    states = States({"g": [state_node("counts")]})
    states.commit("g", {"counts": {"b": 1}})
    states.commit("g", {"counts": {"a": 1, "b": 1}})
    described = StateDescription.of(states.nodes["counts"], states.shapes["counts"])
    before = StateView(states, described, asOf="previous").range()
    assert (before, before.asOfTxid) == ([("b", 1)], 1)
    latest = StateView(states, described, "latest").range()
    assert (latest, latest.asOfTxid) == ([("a", 1), ("b", 2)], None)


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda v: v.range(1), StateKeyError, "state 'counts': invalid key 1 (int): expected word string"),
        (lambda v: v.prefix(1), StateKeyError, "state 'counts': prefix(1): expected the beginning of a text"),
        (lambda v: v.prefix(b"c"), StateKeyError, "prefix(b'c'): expected the beginning of a text or binary field"),
        (lambda v: v.prefix(()), StateKeyError, "state 'counts': invalid beginning of a key () (tuple): expected 1"),
        (
            lambda v: v.range(("a", "b")),
            StateKeyError,
            "invalid beginning of a key ('a', 'b') (tuple): expected 1 to 1 values",
        ),
        (lambda v: v.range(limit=0), ValueError, "state 'counts': limit=0: expected a whole number of at least 1"),
        (lambda v: v.range(after="7"), ValueError, "after='7' is not the cursor of a page of state 'counts'"),
        (lambda v: v.range(inclusive="l"), ValueError, "inclusive='l': expected 'left', 'right', 'both', 'neither'"),
    ],
)
def test_a_range_that_is_none_is_refused(
    counts: StateView, ask: Callable[[StateView], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        ask(counts)
    assert message in str(caught.value)


def test_an_end_of_several_fields_is_a_tuple(visits: StateView) -> None:
    with pytest.raises(StateKeyError, match=r"invalid end of a range 'Rome' \(str\): expected a tuple of values of"):
        visits.range("Rome")
    with pytest.raises(StateKeyError, match=r"prefix\(\('Rome', .*, 7\)\): expected the beginning of a text"):
        visits.prefix(("Rome", DAY, 7))
    with pytest.raises(StateKeyError, match=r"invalid key 7 \(int\): expected city string"):
        visits.prefix((7,))


def test_a_cursor_of_another_state_is_refused(counts: StateView, visits: StateView) -> None:
    with pytest.raises(ValueError, match="is not the cursor of a page of state 'counts'"):
        counts.range(after=visits.range(limit=1).after)


@pytest.mark.parametrize("keys", ["tags array<string>", "id long, at struct<x: int>"])
def test_keys_without_an_order_are_refused_with_a_way_out(keys: str) -> None:
    view = view_of(state_node("odd", keys))
    for read in (view.range, lambda: view.prefix("a")):
        with pytest.raises(StateKeyError, match=r"have no order, so .* Read all entries instead, by items\(\)"):
            read()


def test_a_state_of_one_value_has_no_ranges() -> None:
    view = view_of(state_node("total", keys=""), {(): 5})
    with pytest.raises(StateKeyError, match=r"has no ranges: read view\.value"):
        view.range()


def test_no_index_is_made_before_the_first_range() -> None:
    states = States({"g": [state_node("counts")]})
    view = StateView(states, StateDescription.of(states.nodes["counts"], states.shapes["counts"]))
    states.commit("g", {"counts": {"a": 1}})
    assert (view["a"], dict(view), view.top(1)) == (1, {"a": 1}, [("a", 1)])
    entries = states.stores["counts"]._entries  # type: ignore[attr-defined]
    assert entries._order is None
    assert view.range() == [("a", 1)]
    assert entries._order is not None


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("keys", ["word string", "n long"])
def test_a_long_range_is_read_in_parts_and_not_cut(
    store: str, keys: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Some parts end right before the next key, and some keys have no value any more."""
    monkeypatch.setattr("trident.reads.committed_reads.FREE_ROWS", 10)
    for place in ("memory.store._FEWEST_ROWS", "backing.store._FEWEST_KEYS"):
        monkeypatch.setattr(f"trident_state.{place}", 1)
    for place in ("memory.store._RANGE_ROWS", "backing.store._RANGE_KEYS"):
        monkeypatch.setattr(f"trident_state.{place}", 3)
    known: list[Any] = [first + "\0" * zeros for first in ("", "a", "b", "ba") for zeros in range(9)]
    known = known if keys == "word string" else [number * 10**6 for number in range(-18, 18)]
    factory = None if store == "memory" else SqliteMapState(StateKind.OPAQUE, str(tmp_path / "states.db"))
    states = States({"g": [state_node("counts", keys)]}, factory)
    view = StateView(states, StateDescription.of(states.nodes["counts"], states.shapes["counts"]))
    for part in (known[::2], known[1::2]):
        states.commit("g", {"counts": dict.fromkeys(part, 1)})
    assert keys_of(view.range()) == sorted(known)
    assert keys_of(view.range(known[3], limit=20)) == sorted(known)[3:23]
    pages = pages_of(lambda after: view.range(limit=7, after=after))
    assert [key for page in pages for key in keys_of(page)] == sorted(known)
    states.stores["counts"].close()


WORDS = st.text("ab\0é", max_size=3)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(["word string", "n long", "x double", "d decimal(10,2)", "word string, n int"]))
def test_ranges_and_pages_equal_a_sorted_dict(data: st.DataObject, keys: str) -> None:
    of_type: dict[str, st.SearchStrategy[Any]] = {
        "word string": WORDS,
        "n long": st.integers(-300, 300),
        "x double": st.floats(allow_nan=False).map(lambda number: number + 0.0),
        "d decimal(10,2)": st.integers(-500, 500).map(lambda number: Decimal(number).scaleb(-2)),
        "word string, n int": st.tuples(WORDS, st.integers(-3, 3)),
    }
    strategy = of_type[keys]
    batches = data.draw(st.lists(st.dictionaries(strategy, st.integers(1, 9), max_size=12), max_size=4))
    states = States({"g": [state_node("counts", keys)]})
    view = StateView(states, StateDescription.of(states.nodes["counts"], states.shapes["counts"]))
    stored: dict[Any, int] = {}
    for batch in batches:
        states.commit("g", {"counts": batch})
        for key, count in batch.items():
            stored[key] = stored.get(key, 0) + count
        low, high = data.draw(strategy), data.draw(strategy)
        inside = sorted((key, count) for key, count in stored.items() if low <= key < high)
        assert view.range(low, high) == inside
        pages = pages_of(lambda after, low=low, high=high: view.range(low, high, limit=2, after=after))
        assert [pair for page in pages for pair in page] == inside


# --- beside commits --------------------------------------------------------------------------------------------------


@contextmanager
def writing(commit: Callable[[], object]) -> Iterator[None]:
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            commit()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("limit", [None, 50])
def test_a_range_beside_commits_is_as_of_one_txid(store: str, limit: int | None, tmp_path: Path) -> None:
    """Each batch adds 1 to every key and brings some keys, so the greatest value is the number of the batch."""
    kind = StateKind.OPAQUE
    factory = None if store == "memory" else SqliteMapState(kind, str(tmp_path / "states.db"))
    states = States({"g": [state_node("counts", "n long")]}, factory)
    view = StateView(states, StateDescription.of(states.nodes["counts"], states.shapes["counts"]))
    born = random.Random(5)  # noqa: S311
    first: dict[int, int] = {}

    def commit() -> None:
        txid = states.txids["g"] + 1
        for _ in range(5):
            first.setdefault(born.randrange(10**6), txid)
        states.commit("g", {"counts": dict.fromkeys(list(first), 1)})

    commit()
    seen, until = set[int](), time.monotonic() + 20
    with writing(commit):
        while len(seen) < 8 and time.monotonic() < until:
            found = view.range(100_000, 900_000, limit=limit)
            txid = found.asOfTxid
            assert txid is not None
            seen.add(txid)
            known = sorted((key, at) for key, at in list(first.items()) if 100_000 <= key < 900_000 and at <= txid)
            assert found == [(key, txid - at + 1) for key, at in known][:limit]
    assert len(seen) == 8, "too few batches were committed meanwhile: this test shows nothing"
    states.stores["counts"].close()
