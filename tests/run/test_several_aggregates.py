"""Several aggregators in one state: the same values as in a state for each, in every kind and home, whatever fails."""

import datetime
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

import trident
from tests.compiler.functions import Longest, Mean
from tests.support.server import RedisServer
from tests.support.wall import Wall
from trident import (
    Average,
    Count,
    First,
    MapGet,
    Max,
    Min,
    SessionWindow,
    SnapshotGet,
    StdDev,
    Sum,
    TridentTopology,
    TumblingCountWindow,
    TumblingEventTimeWindow,
    TupleCollectionGet,
    openState,
)
from trident.errors import StateShapeError, StateValueError, TopologyError
from trident.spouts import FixedBatchSpout
from trident.state import BackingMapState, MemoryMapState, RedisMapState
from trident.testing import CRASH_POINTS, FAIL, TestOutput, TestSource, crash_at, engines, run_through
from trident.testing.local import start_local

MakeState = Callable[..., Any]

FIELDS = "word string, n long, x double"
BATCHES = [
    [("a", 1, 1.0), ("bb", 2, 2.5), ("a", None, 3.0)],
    [("a", 5, -1.0), ("c", None, None)],
    [("bb", 7, 0.5), ("c", None, 4.0), ("a", 1, 8.0)],
]
SEVERAL = {
    "n": Count(),
    "total": Sum("n"),
    "least": Min("x"),
    "mean": Average("x"),
    "spread": StdDev("x"),
    "longest string": ("word", Longest()),
}


def expected(rows: list[Any]) -> Row:
    """The value of a key with these tuples, by hand."""
    numbers, doubles = ([row[at] for row in rows if row[at] is not None] for at in (1, 2))
    mean = sum(doubles) / len(doubles) if doubles else None
    squares = sum((value - mean) ** 2 for value in doubles) if mean is not None else 0.0
    spread = (squares / (len(doubles) - 1)) ** 0.5 if len(doubles) > 1 else None
    longest = max((row[0] for row in rows), key=lambda word: (len(word), word), default="")
    row = Row("n", "total", "least", "mean", "spread", "longest")
    return row(len(rows), sum(numbers), min(doubles, default=None), mean, spread, longest)


def by_key(batches: list[Any]) -> dict[str, Row]:
    rows = [row for batch in batches for row in batch]
    return {key: expected([row for row in rows if row[0] == key]) for key in sorted({row[0] for row in rows})}


def close(values: dict[Any, Any]) -> dict[Any, Any]:
    """The values with their doubles rounded: the order of additions is open."""
    return {
        key: {name: round(each, 9) if isinstance(each, float) else each for name, each in value.asDict().items()}
        for key, value in values.items()
    }


pytestmark = pytest.mark.usefixtures("nothing_left_running")


HOMES = ["memory", "redis", "own"]


@pytest.fixture(params=HOMES)
def make_state(request: pytest.FixtureRequest, tmp_path: Path) -> MakeState:
    """States of every home, of the kind that is asked for."""
    if request.param == "memory":
        return lambda kind="opaque", **options: getattr(MemoryMapState, kind)(**options)
    if request.param == "own":
        from functools import partial

        from tests.state.backing.maps import SqliteMap

        place = partial(SqliteMap, str(tmp_path / "own.db"))
        return lambda kind="opaque", **options: getattr(BackingMapState, kind)(place, **options)
    server: RedisServer = request.getfixturevalue("shared_redis")
    return lambda kind="opaque", **options: getattr(RedisMapState, kind)(server.url, buckets=8, **options)


def topology(source: Any, state: Any, several: Any = None, key: str = "word") -> tuple[TridentTopology, Any]:
    made = TridentTopology()
    rows = made.newStream("rows", source)
    grouped: Any = rows.groupBy(key) if key else rows
    return made, grouped.persistentAggregate(state, several or SEVERAL, name="totals")


# --- values --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["opaque", "transactional", "nonTransactional"])
def test_each_value_has_a_field_for_each_aggregator(make_state: MakeState, kind: str, tmp_path: Path) -> None:
    made, state = topology(FixedBatchSpout(FIELDS, BATCHES), make_state(kind))
    assert state.schema.names == ["word", "n", "total", "least", "mean", "spread", "longest"]
    with start_local(made, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        view = running.state("totals")
        assert close(dict(view.items())) == close(by_key(BATCHES))
        assert view["a"].total == 7
        assert view["a"]["longest"] == "a"
        assert view.multiGet(["c", "nobody"])[0].n == 2
        assert view.get("nobody") is None
        table = view.toArrow()
        assert table.column_names == ["word", "n", "total", "least", "mean", "spread", "longest"]
        assert sorted(table.select(["word", "n", "total"]).to_pylist(), key=str) == sorted(
            [{"word": key, "n": row.n, "total": row.total} for key, row in by_key(BATCHES).items()], key=str
        )
        assert view.toPandas().set_index("word").loc["a", "mean"] == pytest.approx(2.75)
        assert "n bigint, total bigint, least double" in repr(view)


@pytest.mark.parametrize("batches", [BATCHES, [], [[]]], ids=["three batches", "none", "an empty one"])
def test_a_global_state_has_them_too(make_state: MakeState, batches: list[Any], tmp_path: Path) -> None:
    made, _ = topology(FixedBatchSpout(FIELDS, batches), make_state(), key="")
    with start_local(made, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        value = running.state("totals").value
    if batches:
        assert close({"": value}) == close({"": expected([row for batch in batches for row in batch])})
    else:
        assert value is None


start = engines(["embedded", "spark"], spark="spark", marks=[pytest.mark.spark])


def test_both_engines_give_the_same(start: Any) -> None:
    """Among them aggregators that Spark has and those that only Python has, alone and together."""
    native = {"n": Count(), "total": Sum("n"), "least": Min("x"), "most": Max("word"), "mean": Average("x")}
    made, state = topology(TestSource(FIELDS, BATCHES), MemoryMapState.opaque())
    state.newValuesStream().foreachArrow(changes := TestOutput())
    rows = made.newStream("others", FixedBatchSpout(FIELDS, BATCHES))
    rows.groupBy("word").persistentAggregate(MemoryMapState.opaque(), native, name="native")
    rows.persistentAggregate(MemoryMapState.opaque(), native, name="all")
    with start(made) as running:
        running.processAllAvailable(timeout=120)
        assert close(dict(running.state("totals").items())) == close(by_key(BATCHES))
        assert running.state("native")["a"] == Row(n=4, total=7, least=-1.0, most="a", mean=2.75)
        assert running.state("all").value == Row(n=8, total=16, least=-1.0, most="c", mean=pytest.approx(18 / 7))
    assert [(row[:3]) for row in sorted(changes.batches[1][2])] == [("a", 3, 6), ("c", 1, 0)]


def test_values_expire_as_a_whole(make_state: MakeState, tmp_path: Path) -> None:
    if not isinstance(make_state(), MemoryMapState | RedisMapState):
        pytest.skip("a store of the user's own has no ttlSecs")
    clock = Wall()
    source = TestSource(FIELDS, [BATCHES[0], trident.testing.PAUSE, BATCHES[1]])
    made, _ = topology(source, make_state(ttlSecs=60))
    with start_local(made, name="t", checkpointLocation=tmp_path, clock=clock) as running:
        running.processAllAvailable(timeout=20)
        clock.advance(61)
        source.resume()
        running.processAllAvailable(timeout=20)
        assert close(dict(running.state("totals").items())) == close(by_key([BATCHES[1]]))


def test_a_sum_beyond_its_type_names_its_field(tmp_path: Path, make_state: MakeState) -> None:
    source = FixedBatchSpout(FIELDS, [[("a", 2**62, 1.0)], [("a", 2**62, 1.0)]])
    made, _ = topology(source, make_state(), {"n": Count(), "total": Sum("n")})
    running = start_local(made, name="t", checkpointLocation=tmp_path, maxAttempts=1)
    with pytest.raises(StateValueError, match=r"field 'total': Sum of the stored 4611686018427387904"):
        running.processAllAvailable(timeout=30)
    assert running.state("totals")["a"] == Row(n=1, total=2**62)


# --- what fails ----------------------------------------------------------------------------------------------------


POINTS = [point for point in CRASH_POINTS if not point.startswith(("start.", "output."))]
DEATHS = [
    (point, kind, HOMES[number % 3])
    for number, (point, kind) in enumerate(itertools.product(POINTS, ["opaque", "transactional"]))
]
"""Every point with every kind, the homes in turn: tests/faults/test_kill_points.py has what depends on the home."""


@pytest.mark.parametrize(("point", "kind", "make_state"), DEATHS, indirect=["make_state"])
def test_a_driver_that_dies_anywhere_loses_and_doubles_nothing(
    make_state: MakeState, kind: str, point: str, tmp_path: Path
) -> None:
    source = TestSource(FIELDS, BATCHES, kind=kind)
    made, _ = topology(source, make_state(kind))
    with crash_at(point, 2), run_through(made, name="t", checkpointLocation=tmp_path) as running:
        assert close(dict(running.state("totals").items())) == close(by_key(BATCHES))


def test_a_replay_that_differs_enters_once(make_state: MakeState, tmp_path: Path) -> None:
    made, _ = topology(TestSource(FIELDS, [BATCHES[0], FAIL, BATCHES[1], BATCHES[2]], kind="opaque"), make_state())
    with run_through(made, name="t", checkpointLocation=tmp_path) as running:
        assert close(dict(running.state("totals").items())) == close(by_key(BATCHES))


def test_a_server_that_lost_the_last_commits_gets_them_again(shared_redis: RedisServer, tmp_path: Path) -> None:
    source = TestSource(FIELDS, [BATCHES[0], trident.testing.PAUSE, BATCHES[1], trident.testing.PAUSE, BATCHES[2]])
    made, _ = topology(source, RedisMapState.opaque(shared_redis.url, buckets=8))
    with start_local(made, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        kept = {key: shared_redis.client.dump(key) for key in shared_redis.client.keys("*")}
        source.resume()
        running.processAllAvailable(timeout=20)
        shared_redis.client.flushall()
        for key, value in kept.items():
            shared_redis.client.restore(key, 0, value)
        source.resume()
        running.processAllAvailable(timeout=30)
        assert close(dict(running.state("totals").items())) == close(by_key(BATCHES))


# --- restarts ------------------------------------------------------------------------------------------------------


def refusal(several: Any, before: Any, state: Any, tmp_path: Path) -> str:
    spout = FixedBatchSpout(FIELDS, [])

    def declared(how: Any) -> TridentTopology:
        made = TridentTopology()
        grouped = made.newStream("rows", spout).groupBy("word")
        arguments = (how,) if isinstance(how, dict) else ("n", how, "total")
        grouped.persistentAggregate(state, *arguments, name="totals")
        return made

    with start_local(declared(before), name="t", checkpointLocation=tmp_path):
        pass
    with pytest.raises(StateShapeError) as caught:
        start_local(declared(several), name="t", checkpointLocation=tmp_path)
    with start_local(declared(before), name="t", checkpointLocation=tmp_path):
        pass
    return str(caught.value)


BOTH = {"n": Count(), "total": Sum("n")}


def test_one_aggregator_and_several_later_are_refused(make_state: MakeState, tmp_path: Path) -> None:
    told = refusal(BOTH, Sum(), make_state(), tmp_path)
    assert told.startswith(
        "state 'totals' has (word string) -> bigint by Sum, but the topology declares (word string) -> "
        "struct<n:bigint,total:bigint> by {n: Count, total: Sum} (another value type, one aggregator before, several "
        "now). Give the new state another name= (the stored state stays, and openState can read it); or drop it with"
    )


@pytest.mark.parametrize(
    ("later", "says"),
    [
        (Sum(), "(another value type, several aggregators before, one now)"),
        ({**BOTH, "most": Max("n")}, "(another value type, another aggregator: 'most' is new)"),
        ({"n": Count()}, "(another value type, another aggregator: 'total' was removed)"),
        ({"n": Count(), "total": Max("n")}, "(another aggregator: 'total' was made by Sum and is now made by Max)"),
        ({"total": Sum("n"), "n": Count()}, "(another value type, the aggregators have another order)"),
    ],
)
def test_changed_members_are_told(later: Any, says: str, tmp_path: Path) -> None:
    assert says in refusal(later, BOTH, MemoryMapState.opaque(), tmp_path)


def test_a_state_goes_on_after_a_restart(make_state: MakeState, tmp_path: Path) -> None:
    for upto in (1, 3):
        made, _ = topology(FixedBatchSpout(FIELDS, BATCHES[:upto]), make_state())
        with start_local(made, name="t", checkpointLocation=tmp_path) as running:
            running.processAllAvailable(timeout=30)
            found = dict(running.state("totals").items())
    assert close(found) == close(by_key(BATCHES))


def test_a_state_that_is_opened_by_name_shows_its_fields(
    make_state: MakeState, tmp_path: Path, shared_redis: RedisServer
) -> None:
    several = {"n": Count(), "mean": Average("x"), "spread": StdDev("x")}
    state = make_state()
    made, _ = topology(FixedBatchSpout(FIELDS, BATCHES), state, several)
    place: dict[str, Any] = {"checkpointLocation": tmp_path}
    if isinstance(state, RedisMapState):
        place = {"url": shared_redis.url}
    if isinstance(state, BackingMapState):
        place = {"factory": state}
    with start_local(made, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        with openState("t", "totals", **place) as opened:
            assert opened["a"] == running.state("totals")["a"]
    with openState("t", "totals", **place) as opened:
        assert opened["a"] == Row(n=4, mean=2.75, spread=pytest.approx(3.862210075418822))
        assert opened.toArrow().column_names == ["word", "n", "mean", "spread"]
    with openState("t", "totals", aggregator=several, **place) as opened:
        assert opened["c"].n == 2
    with pytest.raises(
        StateShapeError, match=r"was written with the aggregator \{n: Count, mean: .*: trident.StdDev\}, not with Count"
    ):
        openState("t", "totals", aggregator=Count(), **place)


def test_a_memory_state_in_use_is_followed_with_the_users_own_aggregators(tmp_path: Path) -> None:
    several = {"n": Count(), "longest string": ("word", Longest()), "mean": ("n", Mean())}
    made = TridentTopology()
    source = TestSource("word string, n long", [[("a", 1)], trident.testing.PAUSE, [("a", 2)]])
    grouped = made.newStream("rows", source).groupBy("word")
    grouped.persistentAggregate(MemoryMapState.opaque(), several, name="totals")
    given = {"n": Count(), "longest": Longest(), "mean": Mean()}
    with start_local(made, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=20)
        with openState("t", "totals", tmp_path, aggregator=given) as opened:
            source.resume()
            running.processAllAvailable(timeout=20)
            assert opened["a"] == Row(n=2, longest="a", mean=1.5)


# --- streams and queries --------------------------------------------------------------------------------------------


def test_new_values_leave_in_fields(make_state: MakeState, tmp_path: Path) -> None:
    made, state = topology(FixedBatchSpout(FIELDS, BATCHES), make_state(), {"n": Count(), "total": Sum("n")})
    state.newValuesStream().foreachArrow(seen := TestOutput())
    assert state.newValuesStream().fields == ("word", "n", "total")
    with start_local(made, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
    assert [sorted(rows) for _, _, rows in seen.batches] == [
        [("a", 2, 1), ("bb", 1, 2)],
        [("a", 3, 6), ("c", 1, 0)],
        [("a", 4, 7), ("bb", 2, 9), ("c", 2, 0)],
    ]


def test_queries_name_the_fields_that_they_want(make_state: MakeState, tmp_path: Path) -> None:
    made, state = topology(FixedBatchSpout(FIELDS, BATCHES), make_state())
    made.newDRPCStream("fields", "word string").stateQuery(state, "word", MapGet(), "mean, n")
    made.newDRPCStream("one", "word string").stateQuery(state, "word", MapGet(), "longest")
    made.newDRPCStream("whole", "word string").stateQuery(state, "word", MapGet(), "totals")
    made.newDRPCStream("entries", "dummy string").stateQuery(
        state, TupleCollectionGet(), "key, a, b, c, d, e, f"
    ).project("key, a, f")
    with start_local(made, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        assert running.drpc.execute("fields", "a") == [Row(word="a", mean=2.75, n=4)]
        assert running.drpc.execute("fields", "nobody") == [Row(word="nobody", mean=None, n=None)]
        assert running.drpc.execute("one", "bb") == [Row(word="bb", longest="bb")]
        (answer,) = running.drpc.execute("whole", "a")
        assert answer.totals.n == 4
        assert answer.totals.mean == 2.75
        entries = running.drpc.execute("entries", "x")
        assert sorted(tuple(entry) for entry in entries) == [("a", 4, "a"), ("bb", 2, "bb"), ("c", 2, "c")]


def test_a_batch_asks_a_state_without_keys_and_a_function_sees_rows(tmp_path: Path) -> None:
    class Ask:
        outputType = "long"

        def batchRetrieve(self, state: Any, args: Any) -> Any:
            return [state.multiGet([(arg.word,)])[0] for arg in args]

        def execute(self, tuple: Any, result: Any, collector: Any) -> None:
            collector.emit([None if result is None else result.n + result["total"]])

    made, state = topology(TestSource(FIELDS, BATCHES), MemoryMapState.opaque(), BOTH)
    whole = made.newStream("others", FixedBatchSpout(FIELDS, BATCHES)).persistentAggregate(
        MemoryMapState.opaque(), BOTH, name="whole"
    )
    asked = made.newDRPCStream("asked", "word string").stateQuery(state, "word", Ask(), "sum")
    asked.stateQuery(whole, SnapshotGet(), "n, total")
    with start_local(made, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        assert running.drpc.execute("asked", "a") == [Row(word="a", sum=11, n=8, total=16)]


AT = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("window", "found"),
    [
        (TumblingCountWindow(2), [(2, 3, 1), (2, 9, 4)]),
        (TumblingEventTimeWindow("1 hour", "at"), [(2, 3, 1), (2, 9, 4)]),
        (SessionWindow("10 minutes", "at"), [(2, 3, 1), (2, 9, 4)]),
    ],
    ids=["count", "time", "session"],
)
def test_windows_of_several_aggregators(window: Any, found: Any, make_state: MakeState, tmp_path: Path) -> None:
    several = {"n": Count(), "total": Sum("v"), "first": First("v")}
    minutes = [(0, 1), (2, 2), (61, 4), (62, 5), (300, 6)]
    rows = [[(AT + datetime.timedelta(minutes=minute), v)] for minute, v in minutes]
    made = TridentTopology()
    stream = made.newStream("rows", FixedBatchSpout("at timestamp, v long", rows))
    stream.window(window, make_state(), several, name="w").foreachArrow(seen := TestOutput())
    with start_local(made, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
    assert [row[-3:] for row in seen.rows] == found


# --- wrong calls -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        ((BOTH,), {}, "a state of several aggregators needs a name, its identity over restarts: give it name=; write"),
        (({},), {"name": "t"}, "the mapping of aggregators is empty; write {'n': Count(), 'total': Sum('price')"),
        (
            (BOTH, "n"),
            {"name": "t"},
            "outputFields 'n' cannot be combined with several aggregators, each of which has",
        ),
        (("n", BOTH), {"name": "t"}, "inputFields 'n' cannot be combined with several aggregators"),
        (({1: Count()},), {"name": "t"}, "1 is not an output field; write {'n'"),
        (({"n": Count(), "word": Sum("n")},), {"name": "t"}, "output field 'word' is already a field of the group"),
        (({"n": "count"},), {"name": "t"}, "'count' is neither an aggregator nor a pair"),
        (({"n": Count},), {"name": "t"}, "Count is a class"),
        (({"total": Sum()},), {"name": "t"}, "Sum adds numbers of one input field, not of 3"),
        (({"total": Sum("m")},), {"name": "t"}, "no field 'm'; the fields are"),
        (
            ({"total": ("n", Sum("n"))},),
            {"name": "t"},
            "the call names the input fields 'n', but the aggregator also names input fields,",
        ),
        (({"a long": ("n", trident.testing)},), {"name": "t"}, "is not an aggregator; give a CombinerAggregator"),
    ],
)
def test_wrong_mappings_are_told(arguments: Any, options: Any, says: str) -> None:
    grouped = TridentTopology().newStream("rows", FixedBatchSpout(FIELDS, [])).groupBy("word")
    with pytest.raises((TopologyError, trident.errors.TypeDeclarationError)) as caught:
        grouped.persistentAggregate(MemoryMapState.opaque(), *arguments, **options)
    assert says in str(caught.value)
    assert "test_several_aggregates.py" in str(caught.value)


def test_a_reducer_and_an_unannotated_present_are_told() -> None:
    class Kept:
        outputType = "long"

        def init(self) -> int:
            return 0

        def reduce(self, curr: int, tuple: Any) -> int:
            return curr

    class Shown(Longest):
        def present(self, acc: str):  # type: ignore[no-untyped-def]
            return len(acc)

    rows = TridentTopology().newStream("rows", FixedBatchSpout(FIELDS, []))
    with pytest.raises(
        TopologyError, match=r"is a ReducerAggregator, but several aggregators in one state must be Comb"
    ):
        rows.persistentAggregate(MemoryMapState.opaque(), {"n": Count(), "kept": ("n", Kept())}, name="t")
    with pytest.raises(
        TopologyError, match=r"the type of 'shown' is not declared: annotate the return type of present\(acc\),"
    ):
        rows.persistentAggregate(MemoryMapState.opaque(), {"shown": ("word", Shown())}, name="t")


def test_wrong_queries_of_fields_are_told() -> None:
    made, state = topology(FixedBatchSpout(FIELDS, BATCHES), MemoryMapState.opaque(), BOTH)
    requests = made.newDRPCStream("r", "word string")
    with pytest.raises(TopologyError, match=r"has the fields \(n, total\), not 'totl': name the fields that you want"):
        requests.stateQuery(state, "word", MapGet(), "n, totl")
    with pytest.raises(TopologyError, match="'n' is bigint, not string; remove the type"):
        requests.stateQuery(state, "word", MapGet(), "n string")
    with pytest.raises(TopologyError, match=r"an entry of state 'totals' is \(word, n, total\): name 3 output fields"):
        requests.stateQuery(state, TupleCollectionGet(), "key, value")


def test_new_values_are_as_stored_and_present_shows_them(tmp_path: Path) -> None:
    """As in Trident, what `combine` gave leaves: a later state can combine it, which it could not do with a mean."""
    made, state = topology(FixedBatchSpout(FIELDS, BATCHES), MemoryMapState.opaque(), {"mean": Average("x")})
    shown = state.newValuesStream().each("mean", Average().present, "shown double")
    shown.project("word, shown").foreachArrow(output := TestOutput(), name="shown")
    with start_local(made, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        last = {row["word"]: row["shown"] for row in output.rows}
        assert last == {key: row.mean for key, row in running.state("totals").items()}


def test_aggregate_takes_a_mapping_too() -> None:
    rows = TridentTopology().newStream("rows", FixedBatchSpout(FIELDS, BATCHES))
    assert rows.aggregate({"n": Count(), "total": Sum("n")}).take(1) == [Row(n=3, total=3)]
    assert rows.aggregate(Sum("n"), "total").take(1) == [Row(total=3)]
    grouped = rows.groupBy("word").aggregate(
        {"n": Count(), "mean": Average("x"), "longest string": ("word", Longest())}
    )
    assert sorted(grouped.take(5)) == [
        Row(word="a", n=2, mean=2.0, longest="a"),
        Row(word="bb", n=1, mean=2.5, longest="bb"),
    ]
    chain = rows.chainedAgg().aggregate({"n": Count()}).aggregate("n", Sum(), "total").chainEnd()
    assert chain.take(1) == [Row(n=3, total=3)]


def test_the_hottest_key_is_told_where_one_of_several_counts(tmp_path: Path) -> None:
    made, _ = topology(FixedBatchSpout(FIELDS, BATCHES[:1]), MemoryMapState.opaque(), BOTH)
    with start_local(made, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        assert running.lastProgress["states"]["totals"]["hottest"] == {"key": {"word": "a"}, "tuples": 2}


def test_memory_keeps_several_numbers_as_bits() -> None:
    """A state of numbers is no state of Python objects, which take ten times the time."""
    from trident_state.memory.entries import Column

    numbers = pa.struct({"n": pa.int64(), "x": pa.float64(), "b": pa.bool_(), "inner": pa.struct({"d": pa.date32()})})
    values = pa.array(
        [
            {"n": 1, "x": None, "b": True, "inner": {"d": 3}},
            None,
            {"n": None, "x": 2.5, "b": None, "inner": None},
        ],
        numbers,
    )
    column = Column(numbers)
    assert column.fixed
    assert column.unpack(column.pack(values)).equals(values)
    assert column.unpack(column.pack(values)[1:]).equals(values[1:])
    assert not Column(pa.struct({"n": pa.int64(), "word": pa.string()})).fixed
