"""Rows that are first or last by a field: Latest, TopK with directions, MaxBy of several fields, toTable(orderBy=)."""

import math
import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.compiler.stage_runner import Slots, leaving, stream
from tests.compiler.test_aggregator_conditions import plain, same
from trident import CollectList, Count, Latest, MaxBy, MinBy, TopK, TridentTopology, TumblingEventTimeWindow, col
from trident.base.spark_order import rank_of
from trident.errors import FieldNotFoundError, StateShapeError, TopologyError, TridentError, TypeDeclarationError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing import TestSource
from trident.testing.local import start_local

FIELDS = "k string, at long, x double, word string"
Tuple = tuple[Any, ...]


def drawn(count: int, seed: int) -> list[Tuple]:
    draws = random.Random(seed)
    values = [None, -0.0, 0.0, 1.5, math.nan]
    return [
        (draws.choice("abc"), draws.choice([None, *range(6)]), draws.choice(values), draws.choice(["ann", "bob", None]))
        for _ in range(count)
    ] + [("never", None, 1.0, "ann")]


def latest(rows: list[Tuple], *by: int) -> Tuple | None:
    """Return the row that a loop over the rows keeps: one is replaced by any later one that is not less."""
    found: Tuple | None = None
    for row in rows:
        if row[by[0]] is None:
            continue
        if found is None or rank_of(tuple(row[at] for at in by)) >= rank_of(tuple(found[at] for at in by)):
            found = row
    return found


def top(rows: list[Tuple], k: int, *by: tuple[int, bool]) -> list[Tuple]:
    """Return the first rows by these places, each with True if it ascends: picked one by one."""
    left = [row for row in rows if row[by[0][0]] is not None]
    found: list[Tuple] = []
    while left and len(found) < k:
        best = left[0]
        for row in left[1:]:
            for at, ascends in by:
                one, other = rank_of(row[at]), rank_of(best[at])
                if one != other:
                    best = row if (one < other) == ascends else best
                    break
        found.append(tuple(best[at] for at, _ in by))
        left.remove(best)
    return found


def wanted(rows: list[Tuple]) -> dict[str, Tuple]:
    of = {key: [row for row in rows if row[0] == key] for key in {row[0] for row in rows}}
    return {
        key: (
            latest(own, 1),
            latest(own, 2, 3),
            top(own, 3, (1, True), (2, True)),
            top(own, 2, (2, False), (3, True), (1, False)),
            [value for (value,) in top(own, 2, (2, True))],
            next(((r[1], r[3]) for r in own if r[2] is not None and rank_of(r[2]) == rank_of(min_of(own))), None),
        )
        for key, own in of.items()
    }


def min_of(rows: list[Tuple]) -> Any:
    return min((row[2] for row in rows if row[2] is not None), key=rank_of, default=None)


EACH: dict[str, Any] = {
    "last": Latest("at"),
    "by two": Latest("x, word"),
    "least": ("at, x", TopK(3, ascending=True)),
    "mixed": ("x, word, at", TopK(2, ascending=[False, True, False])),
    "one": ("x", TopK(2, ascending=True)),
    "whole": MinBy(["at", "word"], "x"),
}
EACH = {name.replace(" ", "_"): how for name, how in EACH.items()}


def check(found: dict[str, Any], expected: dict[str, Tuple]) -> None:
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        wrong = [name for name, a, b in zip(EACH, plain(found[key]), values, strict=True) if not same(a, b)]
        assert not wrong, (key, wrong, found[key], values)


@pytest.mark.parametrize("count", [15, 2_000])
@pytest.mark.parametrize("seed", range(3))
def test_groups_of_a_batch(engine: Slots, count: int, seed: int) -> None:
    rows = drawn(count, seed)
    grouped = stream(TridentTopology(), FIELDS, rows).groupBy("k")
    found = {row[0]: row[1:] for row in leaving(engine, grouped.aggregate(EACH))}
    check(found, wanted(rows))


def test_states_by_any_cut_and_over_restarts(tmp_path: Path) -> None:
    for seed in range(6):
        rows, draws = drawn(400, seed), random.Random(seed)
        cuts = sorted(draws.sample(range(400), 3))
        batches = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        for upto in (2, 4):
            topology = TridentTopology()
            source = FixedBatchSpout(FIELDS, batches[:upto])
            grouped = topology.newStream("rows", source).groupBy("k")
            grouped.persistentAggregate(MemoryMapState.opaque(), EACH, name="several")
            grouped.persistentAggregate(MemoryMapState.transactional(), "at, x", EACH["least"][1], "out", name="one")
            with start_local(topology, name=f"t{seed}", checkpointLocation=tmp_path) as running:
                running.processAllAvailable(timeout=60)
                several, one = dict(running.state("several").items()), dict(running.state("one").items())
        expected = wanted(rows)
        check(several, expected)
        assert all(same(plain(one[key]), values[2]) for key, values in expected.items())


def test_windows_conditions_and_tables_take_them() -> None:
    rows = [(datetime(2026, 1, 1, 10, n % 40, tzinfo=UTC), "ab"[n % 2], n * 7 % 11) for n in range(80)]
    rows = sorted(rows[:60]) + [(datetime(2026, 1, 1, 12, tzinfo=UTC), "a", 0)]
    topology = TridentTopology()
    moments = topology.newStream("rows", TestSource("at timestamp, k string, n long", [rows[:30], rows[30:]]))
    tens = TumblingEventTimeWindow("10 minutes", "at")
    last = moments.window(tens, {"last": Latest("n, at", where=col("k") == "b")}, name="tens")
    last.each({"n": col("last.n"), "k": col("last.k")}).toTable("windowStart", name="seen")
    with start_local(topology) as running:
        running.processAllAvailable(timeout=60)
        seen = {start: row.n for start, row in running.state("seen").items()}
    assert seen == {
        datetime(2026, 1, 1, 10, 10 * ten, tzinfo=UTC): max(
            n for at, k, n in rows[:60] if k == "b" and at.minute // 10 == ten
        )
        for ten in range(4)
    }


# --- toTable(orderBy=) ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["opaque", "transactional"])
def test_a_table_by_a_field_is_what_a_loop_keeps(kind: str, tmp_path: Path) -> None:
    for seed in range(5):
        draws = random.Random(seed)
        rows = [
            (draws.choice("abcd"), draws.choice([None, math.nan, *map(float, range(8))]), number)
            for number in range(300)
        ]
        cuts = [0, 3, 40, 41, 200, 300]
        batches = [rows[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
        for upto in (3, 5):
            topology = TridentTopology()
            numbers = topology.newStream("rows", FixedBatchSpout("k string, at double, n long", batches[:upto]))
            table = numbers.toTable("k", getattr(MemoryMapState, kind)(), orderBy="at", name="newest")
            passed = table.newValuesStream(everyChange=True)
            passed.persistentAggregate(MemoryMapState.opaque(), "n", CollectList(), "all", name="passed")
            table.changes().persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="rows")
            with start_local(topology, name=f"{kind}{seed}", checkpointLocation=tmp_path) as running:
                running.processAllAvailable(timeout=60)
                found = {key: tuple(row) for key, row in running.state("newest").items()}
                emitted, count = running.state("passed")[()], running.state("rows")[()]
        held, expected = dict[str, Tuple](), list[int]()
        for batch in batches:
            changed = dict[str, Tuple]()
            for key, at, n in batch:
                if key not in held or rank_of(at) >= rank_of(held[key][0]):
                    held[key] = changed[key] = (at, n)
            expected += sorted(n for _, n in changed.values())
        assert found.keys() == held.keys()
        assert all(same(found[key], held[key]) for key in held)
        assert emitted == expected
        assert count == len(held)


@pytest.mark.parametrize(("count", "found"), [(1, (None, 1)), (2, (7, 3)), (3, (7, 3)), (4, (7, 7))])
def test_a_null_or_an_older_row_does_not_replace_a_newer_one(count: int, found: Tuple) -> None:
    topology = TridentTopology()
    batches = [[("a", None, 1)], [("a", 5, 2), ("a", 7, 3), ("a", 6, 4)], [("a", None, 5), ("a", 6, 6)], [("a", 7, 7)]]
    rows = topology.newStream("rows", TestSource("k string, at long, n long", batches[:count]))
    rows.toTable("k", orderBy="at", name="newest")
    with start_local(topology) as running:
        running.processAllAvailable(timeout=30)
        assert running.state("newest")["a"] == found


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (
            lambda s: s.toTable("k", orderBy="k"),
            TopologyError,
            "orderBy='k' is a key field",
        ),
        (
            lambda s: s.toTable("k", valueFields="x", orderBy="at"),
            FieldNotFoundError,
            "orderBy='at' is not among the fields that the table keeps (x double)",
        ),
        (lambda s: s.toTable("k", orderBy=["at"]), TopologyError, "orderBy=['at']: expected the name of one field"),
        (
            lambda s: s.toTable("k", orderBy="m"),
            TypeDeclarationError,
            "'m' is map<string,bigint>, which cannot be ordered",
        ),
        (
            lambda s: s.asChanges("word").toTable("k", orderBy="at"),
            TridentError,
            "there is no argument 'orderBy'",
        ),
        (lambda s: s.aggregate(Latest(), "out"), TopologyError, "Latest needs the field that orders the tuples"),
        (lambda s: s.aggregate("k, x", Latest("at"), "out"), TopologyError, "do not have 'at'"),
        (
            lambda s: s.aggregate(Latest("m"), "out"),
            TopologyError,
            "'m' is map<string,bigint>, which cannot be ordered",
        ),
        (lambda s: s.aggregate(Latest(3), "out"), TopologyError, "Latest: 3 does not name fields"),  # type: ignore[arg-type]
        (lambda s: TopK(2, ascending="at"), TopologyError, "TopK: ascending='at': expected True, False, or a list"),
        (
            lambda s: s.aggregate("at", TopK(2, ascending=[True, False]), "out"),
            TopologyError,
            "TopK orders by 1 fields (at bigint), but ascending=[True, False] has 2; give one for each field",
        ),
        (
            lambda s: s.asChanges("word").persistentAggregate(MemoryMapState.opaque(), Latest("at"), "out", name="s"),
            TopologyError,
            "Latest depends on the order of tuples, which a removed tuple does not have",
        ),
        (lambda s: s.aggregate(MaxBy([], "at"), "out"), TopologyError, "MaxBy: [] is not a field"),
    ],
)
def test_wrong_calls_say_what_is_accepted(call: Any, kind: type[Exception], says: str) -> None:
    rows = stream(TridentTopology(), f"{FIELDS}, m map<string, long>", [])
    with pytest.raises(kind, match=re.escape(says)):
        call(rows)


def test_a_start_refuses_values_of_another_order(tmp_path: Path) -> None:
    """The greatest values of the tuples so far say nothing about the least ones."""
    for number, ascending in enumerate((False, True, [True, False])):
        topology = TridentTopology()
        rows = topology.newStream("rows", FixedBatchSpout("a long, b long", [[(1, 2)]]))
        rows.persistentAggregate(MemoryMapState.opaque(), "a, b", TopK(1, ascending=ascending), "best", name="s")
        if number == 0:
            with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
                running.processAllAvailable(timeout=30)
            continue
        with pytest.raises(StateShapeError, match="TopK"):
            start_local(topology, name="t", checkpointLocation=tmp_path)
