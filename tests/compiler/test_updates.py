"""Reducers and updaters over one batch and the state that the batch before left."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.compiler.stage_runner import STATE, stream
from tests.compiler.stage_runner import table as tuples
from tests.support.topologies import node
from trident import Sum, TridentTopology
from trident.base.errors import (
    FailedException,
    StateClosedError,
    StateKeyError,
    StateUnavailableError,
    StateValueError,
    UserFunctionError,
)
from trident.compiler.states.updates import Updated, reducer_update, updater_update
from trident.state import (
    CombinerValueUpdater,
    MapState,
    ReducerValueUpdater,
    RemovableMapState,
    Snapshottable,
    State,
    TupleCollection,
)


class Before:
    """A state as the batch before left it: one row for each key, with the value last. It counts its reads."""

    def __init__(self, fields: str, *rows: tuple[Any, ...], broken: Exception | None = None) -> None:
        self.table = tuples(fields, *rows)
        self.broken = broken
        self.asked: list[list[Any]] = []

    def read(self, keys: pa.Table) -> pa.Array:
        if self.broken is not None:
            raise self.broken
        wanted = [tuple(row.values()) for row in keys.to_pylist()] if keys.num_columns else [()] * keys.num_rows
        self.asked.append(wanted)
        held = {row[:-1]: row[-1] for row in (tuple(row.values()) for row in self.table.to_pylist())}
        return pa.array([held.get(key) for key in wanted], self.table.schema.types[-1])

    def scan(self) -> Iterator[pa.Table]:
        yield self.table


NOTHING = Before("word string, value long")


def persisting(function: Any, fields: str = "word string, n long", **declared: Any) -> Any:
    """Return the node of a partitionPersist with this updater."""
    options = {"keyFields": "word", "valueType": "long", "name": "held"} | declared
    return node(stream(TridentTopology(), fields, []).partitionPersist(STATE, function, **options))


def updated(function: Any, before: Before, *rows: tuple[Any, ...], **declared: Any) -> Updated:
    return updater_update(persisting(function, **declared))(tuples("word string, n long", *rows), before, 7)


def puts(found: Updated) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in found.puts.to_pylist()]


# --- reducers -----------------------------------------------------------------------------------------------------


class Joined:
    """The conformance case's reducer: begins with "<" and appends."""

    def init(self) -> str:
        return "<"

    def reduce(self, curr: str, tuple: Any) -> str:
        return curr + tuple.c


def reducing(reducer: Any, group: str | None = "k", fields: str = "k string, c string", output: str = "acc") -> Any:
    source = stream(TridentTopology(), fields, [])
    grouped = source if group is None else source.groupBy(group)
    return node(grouped.persistentAggregate(STATE, "c", reducer, output, name="acc"))


def test_a_reducer_folds_tuples_in_their_order_onto_what_is_stored_and_begins_with_init_where_nothing_is() -> None:
    run = reducer_update(reducing(Joined()))
    before = Before("k string, acc string", ("x", "<ac"))
    found = run(tuples("k string, c string", ("x", "d"), ("y", "b"), ("x", "e")), before, 2)
    assert puts(found) == [("x", "<acde"), ("y", "<b")]
    assert before.asked == [[("x",), ("y",)]], "one question for all keys"


def test_init_is_asked_once_for_each_key_that_is_new_and_not_where_reduce_gave_none() -> None:
    seen: list[Any] = []

    class Noting:
        def init(self) -> str:
            seen.append("init")
            return ""

        def reduce(self, curr: Any, tuple: Any) -> str | None:
            seen.append(curr)
            return None if tuple.c == "gone" else "there"

    run = reducer_update(reducing(Noting(), output="acc string"))
    found = run(tuples("k string, c string", ("x", "a"), ("x", "gone"), ("x", "b"), ("x", "gone")), NOTHING_ACC, 2)
    assert seen == ["init", "", "there", None, "there"]
    assert puts(found) == [("x", None)], "None is a removal"


NOTHING_ACC = Before("k string, acc string")


def test_a_reducer_without_group_fields_writes_one_value_and_nothing_of_an_empty_batch() -> None:
    run = reducer_update(reducing(Joined(), None))
    assert puts(run(tuples("k string, c string", ("x", "a"), ("y", "b")), Before("acc string", ("<z",)), 2)) == [
        ("<zab",)
    ]
    empty = run(tuples("k string, c string"), Before("acc string", ("<z",)), 3)
    assert empty.puts.num_rows == 0


def test_keys_of_a_reducer_meet_where_spark_groups_them() -> None:
    run = reducer_update(reducing(Joined(), "k", "k double, c string"))
    rows = [(0.0, "a"), (-0.0, "b"), (math.nan, "c"), (-math.nan, "d"), (None, "e"), (None, "f")]
    found = run(tuples("k double, c string", *rows), Before("k double, acc string"), 1)
    assert [value for _, value in puts(found)] == ["<ab", "<cd", "<ef"]


def test_a_reducer_that_raises_names_its_step_its_place_and_the_tuple() -> None:
    class Broken:
        def init(self) -> int:
            return 0

        def reduce(self, curr: int, tuple: Any) -> int:
            return curr + int(tuple.c)

    run = reducer_update(reducing(Broken()))
    expected = (
        r"s/1:persistentAggregate\(Broken\): Broken \(test_updates.py:\d+\) raised ValueError: .*"
        r"the tuple was \(c='dog'\)"
    )
    with pytest.raises(UserFunctionError, match=expected):
        run(tuples("k string, c string", ("x", "1"), ("x", "dog")), Before("k string, acc long"), 1)


def test_a_reducer_that_gives_another_type_is_refused() -> None:
    class Wrong:
        def init(self) -> int:
            return 0

        def reduce(self, curr: int, tuple: Any) -> Any:
            return "one"

    expected = r"Wrong \(test_updates.py:\d+\) returned 'one' \(str\), but the state has values of type bigint"
    with pytest.raises(UserFunctionError, match=expected):
        reducer_update(reducing(Wrong()))(tuples("k string, c string", ("x", "1")), Before("k string, acc long"), 1)


# --- updaters: what they see and what becomes of it -----------------------------------------------------------------


def test_an_updater_reads_its_own_writes_over_what_is_stored_and_asks_for_no_key_twice() -> None:
    def update(state: RemovableMapState, rows: Sequence[Any], collector: Any) -> None:
        assert state.multiGet(["a", "b", "c"]) == [1, None, 3]
        state.multiPut(["b"], [2])
        state.multiRemove(["c"])
        assert state.multiGet(["a", "b", "c", "b"]) == [1, 2, None, 2]

    before = Before("word string, value long", ("a", 1), ("c", 3), ("d", 4))
    assert puts(updated(update, before, ("x", 1))) == [("b", 2), ("c", None)], "only what was written"
    assert before.asked == [[("a",), ("b",), ("c",)]]


def test_updates_of_one_key_in_one_call_follow_each_other() -> None:
    def update(state: MapState, rows: Sequence[Any], collector: Any) -> None:
        given = state.multiUpdate([r.word for r in rows], [CombinerValueUpdater(Sum(), r.n) for r in rows])
        assert given == [11, 2, 16]
        state.multiUpdate(["b"], [lambda stored: stored * 10])

    before = Before("word string, value long", ("a", 10))
    assert puts(updated(update, before, ("a", 1), ("b", 2), ("a", 5))) == [("a", 16), ("b", 20)]


def test_a_reducer_can_be_an_updater_of_one_value() -> None:
    class Total:
        def init(self) -> int:
            return 100

        def reduce(self, curr: int, tuple: Any) -> int:
            return curr + tuple.n  # type: ignore[no-any-return]

    def update(state: Snapshottable, rows: Sequence[Any], collector: Any) -> None:
        assert state.get() is None
        assert state.update(ReducerValueUpdater(Total(), rows)) == 106
        state.set(state.get() + 1)

    found = updated(update, Before("value long"), ("a", 1), ("b", 5), keyFields=None)
    assert puts(found) == [(107,)]


def test_a_put_after_a_removal_of_the_same_batch_stays() -> None:
    """Trident forgets it: the key is on its list of removals."""

    def update(state: RemovableMapState, rows: Sequence[Any], collector: Any) -> None:
        state.multiRemove(["a"])
        state.multiPut(["a"], [5])

    assert puts(updated(update, Before("word string, value long", ("a", 1)), ("x", 1))) == [("a", 5)]


def test_an_updater_lists_the_state_as_it_is_now() -> None:
    def update(state: TupleCollection, rows: Sequence[Any], collector: Any) -> None:
        assert isinstance(state, RemovableMapState)
        state.multiPut(["new", "a"], [9, 10])
        state.multiRemove(["b"])
        for entry in sorted(state.getTuples()):
            collector.emit(list(entry))

    before = Before("word string, value long", ("a", 1), ("b", 2), ("c", 3))
    found = updated(update, before, ("x", 1), outputFields="key string, held long")
    assert found.emitted is not None
    assert found.emitted.to_pylist() == [
        {"key": "a", "held": 10},
        {"key": "c", "held": 3},
        {"key": "new", "held": 9},
    ]


def test_what_is_emitted_keeps_its_order_and_types() -> None:
    class Differences:
        keyFields = "word"
        valueType = "long"
        outputType = "string, long"

        def updateState(self, state: MapState, rows: Sequence[Any], collector: Any) -> None:
            for row, old in zip(rows, state.multiGet([r.word for r in rows]), strict=True):
                collector.emit([row.word, row.n - (old or 0)])

    topology = TridentTopology()
    state = stream(topology, "word string, n long", []).partitionPersist(STATE, Differences(), "word, by", name="held")
    assert str(state) == "TridentState('held': word string, value bigint; opaque)"
    found = updater_update(node(state))(
        tuples("word string, n long", ("b", 5), ("a", 7)), Before("word string, value long", ("a", 4)), 1
    )
    assert found.emitted is not None and found.emitted.to_pylist() == [{"word": "b", "by": 5}, {"word": "a", "by": 3}]
    assert found.puts.num_rows == 0


def test_an_updater_is_not_called_for_an_empty_batch() -> None:
    def update(state: Any, rows: Sequence[Any], collector: Any) -> None:
        raise AssertionError("called for nothing")

    found = updated(update, NOTHING, outputFields="x long")
    assert (found.puts.num_rows, found.emitted is not None and found.emitted.num_rows) == (0, 0)


def test_values_are_the_updaters_own_only_until_they_are_put_or_got() -> None:
    def update(state: MapState, rows: Sequence[Any], collector: Any) -> None:
        mine = [1, 2]
        state.multiPut(["a"], [mine])
        mine.append(3)
        state.multiGet(["a"])[0].append(4)
        given = state.multiUpdate(["b"], [lambda stored: [5]])
        given[0].append(6)

    found = updated(update, Before("word string, value array<long>"), ("x", 1), valueType="array<long>")
    assert puts(found) == [("a", [1, 2]), ("b", [5])]


def test_state_objects_are_what_the_protocols_say() -> None:
    seen: list[Any] = []

    def update(state: Any, rows: Sequence[Any], collector: Any) -> None:
        seen.append(state)

    updated(update, NOTHING, ("x", 1))
    updated(update, Before("value long"), ("x", 1), keyFields=None)
    keyed, single = seen
    for protocol in (State, MapState, RemovableMapState, TupleCollection):
        assert isinstance(keyed, protocol)
    assert isinstance(single, State) and isinstance(single, Snapshottable)


def test_compound_keys_of_nested_types() -> None:
    def update(state: MapState, rows: Sequence[Any], collector: Any) -> None:
        state.multiPut([([1, 2], None), ([1, 2], "x")], [1, 2])
        assert state.multiGet([([1, 2], None), [[1, 2], "x"], ([], "x")]) == [1, 2, None]

    before = Before("numbers array<long>, word string, value long")
    before.read = lambda keys: pa.nulls(keys.num_rows, pa.int64())  # type: ignore[method-assign]
    found = updated(update, before, ("x", 1), keyFields="numbers array<long>, word")
    assert puts(found) == [([1, 2], None, 1), ([1, 2], "x", 2)]


def test_a_single_key_field_of_an_array_type_takes_lists() -> None:
    def update(state: MapState, rows: Sequence[Any], collector: Any) -> None:
        state.multiPut([[1], ([1, 2],)], [1, 2])

    before = Before("numbers array<long>, value long")
    found = updated(update, before, ("x", 1), keyFields="numbers array<long>")
    assert puts(found) == [([1], 1), ([1, 2], 2)]


# --- updaters: what is refused --------------------------------------------------------------------------------------

HELD = r"s/1:partitionPersist\(.*update\): .*update \(test_updates.py:\d+\): state 'held'"


def misuse(body: Callable[[Any], Any]) -> Any:
    def update(state: Any, rows: Sequence[Any], collector: Any) -> None:
        body(state)

    return update


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (lambda s: s.multiGet("a"), StateKeyError, r": multiGet takes a list of keys, not 'a' \(str\)"),
        (lambda s: s.multiGet([1]), StateKeyError, r": multiGet: invalid key 1 \(int\): expected word string"),
        (lambda s: s.multiPut([("a", "b")], [1]), StateKeyError, r": multiPut: invalid key \('a', 'b'\) \(tuple\)"),
        (lambda s: s.multiPut(["a"], ["1"]), StateValueError, r": multiPut takes values of type bigint, not '1' \(str"),
        (
            lambda s: s.multiPut(["a"], [True]),
            StateValueError,
            r"not True \(bool\) \(a bool is not accepted as a number",
        ),
        (lambda s: s.multiPut(["a"], [2**63]), StateValueError, r"not 9223372036854775808 \(int\)"),
        (
            lambda s: s.multiPut(["a", "b"], [1]),
            StateValueError,
            r": multiPut takes a list of as many values as keys: expected 2, got \[1\]",
        ),
        (
            lambda s: s.multiUpdate(["a"], []),
            StateValueError,
            r": multiUpdate takes a list of as many updaters as keys: expected 1, got \[\]",
        ),
        (
            lambda s: s.multiUpdate(["a"], [lambda v: "x"]),
            StateValueError,
            r": multiUpdate takes values of type bigint",
        ),
        (lambda s: s.get(), StateKeyError, r": get needs a state of one global value, .*\(word\): write multiGet"),
    ],
)
def test_wrong_keys_and_values_are_refused_where_they_are_given(
    body: Callable[[Any], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=HELD + ".*" + message):
        updated(misuse(body), NOTHING, ("a", 1))


def test_a_state_without_key_fields_says_what_to_declare() -> None:
    with pytest.raises(StateKeyError, match=HELD + r": multiGet needs a state with key fields.*keyFields='word'"):
        updated(misuse(lambda s: s.multiGet(["a"])), Before("value long"), ("a", 1), keyFields=None)


def test_a_misspelt_method_is_told_with_those_there_are() -> None:
    with pytest.raises(
        UserFunctionError, match="the state has no 'multiGett'; did you mean 'multiGet'.*it has multiGet, "
    ):
        updated(misuse(lambda s: s.multiGett(["a"])), NOTHING, ("a", 1))
    with pytest.raises(UserFunctionError, match="the state has no 'gett'; did you mean 'get'.*it has get, set, update"):
        updated(misuse(lambda s: s.gett()), Before("value long"), ("a", 1), keyFields=None)


def test_a_state_object_is_good_for_one_call() -> None:
    kept: list[Any] = []
    updated(misuse(kept.append), NOTHING, ("a", 1))
    uses = (
        lambda: kept[0].multiGet(["a"]),
        lambda: kept[0].multiPut(["a"], [1]),
        lambda: kept[0].multiRemove(["a"]),
        lambda: kept[0].getTuples(),
    )
    for use in uses:
        with pytest.raises(StateClosedError, match=HELD + r": \w+ was called too late;"):
            use()


def test_an_updater_that_raises_names_its_step_and_its_place() -> None:
    def update(state: Any, rows: Sequence[Any], collector: Any) -> None:
        raise ZeroDivisionError("by nothing")

    expected = (
        r"s/1:partitionPersist\(.*update\): .*update \(test_updates.py:\d+\) raised ZeroDivisionError: by nothing"
    )
    with pytest.raises(UserFunctionError, match=expected) as raised:
        updated(update, NOTHING, ("a", 1))
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_a_failed_exception_stays_what_it_is() -> None:
    def update(state: Any, rows: Sequence[Any], collector: Any) -> None:
        raise FailedException("again, please")

    with pytest.raises(FailedException, match="again, please"):
        updated(update, NOTHING, ("a", 1))


def test_an_updater_cannot_swallow_that_the_store_did_not_answer() -> None:
    def update(state: MapState, rows: Sequence[Any], collector: Any) -> None:
        try:
            old = state.multiGet(["a"])[0]
        except Exception:
            old = 0
        state.multiPut(["a"], [old + 1])

    away = Before("word string, value long", broken=StateUnavailableError("the server is away"))
    with pytest.raises(StateUnavailableError, match="the server is away"):
        updated(update, away, ("a", 1))


def test_what_is_emitted_must_be_what_is_declared() -> None:
    def update(state: Any, rows: Sequence[Any], collector: Any) -> None:
        collector.emit(["x"])

    expected = r"update \(test_updates.py:\d+\) emitted 'x' \(str\) for field 'n', which is declared as bigint"
    with pytest.raises(UserFunctionError, match=expected):
        updated(update, NOTHING, ("a", 1), outputFields="n long")
    with pytest.raises(
        UserFunctionError,
        match=r"emit got 1 value\(s\), expected 0: .*; declare the emitted fields "
        r"in outputFields",
    ):
        updated(update, NOTHING, ("a", 1))


# --- what comes too late, and what never runs ---------------------------------------------------------------------


def test_a_collector_ends_with_its_call() -> None:
    kept: list[Any] = []
    updated(lambda state, rows, collector: kept.append(collector), NOTHING, ("a", 1))
    with pytest.raises(RuntimeError, match=r"emit\(\(\)\) was called on the collector of a call that has ended"):
        kept[0].emit([])


def test_an_updater_whose_body_nothing_runs_is_told() -> None:
    def generator(state: Any, rows: Any, collector: Any) -> Iterator[None]:
        state.multiPut(["a"], [1])
        yield

    async def coroutine(state: Any, rows: Any, collector: Any) -> None: ...

    for kind, function in (("generator", generator), ("coroutine", coroutine)):
        expected = rf"s/1:partitionPersist\(<lambda>\): .*it returned a {kind}, whose body never runs: change the st"
        with warnings.catch_warnings(action="ignore"), pytest.raises(UserFunctionError, match=expected):
            updated(lambda state, rows, collector, call=function: call(state, rows, collector), NOTHING, ("a", 1))
