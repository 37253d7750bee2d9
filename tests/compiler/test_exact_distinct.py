"""CountDistinct(exact=True): the number of different values, in batches, states, windows and streams of changes."""

import math
import random
import re
from pathlib import Path
from typing import Any

import pytest

from tests.compiler.stage_runner import Slots, leaving, stream
from trident import CountDistinct, TridentTopology, col
from trident.errors import StateShapeError, TopologyError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing import TestSource
from trident.testing.local import start_local

FIELDS = "k string, n long, x double, word string"
NAN = math.nan
EACH = {
    "n": ("n", CountDistinct(exact=True)),
    "x": ("x", CountDistinct(exact=True)),
    "both": ("x, word", CountDistinct(exact=True)),
    "big": ("word", CountDistinct(exact=True, where=col("n") > 3)),
}
Tuple = tuple[Any, ...]


def drawn(count: int, seed: int) -> list[Tuple]:
    draws = random.Random(seed)
    values = [None, -0.0, 0.0, 1.5, NAN, float("nan"), math.inf]
    words = [None, "", "ann", "bob"]
    return [
        (draws.choice("abc"), draws.choice([None, *range(9)]), draws.choice(values), draws.choice(words))
        for _ in range(count)
    ]


def different(rows: list[Tuple]) -> int:
    """Return the number of different tuples without a null, as Spark compares them, by a list that is searched."""
    found: list[Tuple] = []
    for row in rows:
        if None in row:
            continue
        if not any(all(a == b or (a != a and b != b) for a, b in zip(row, other, strict=True)) for other in found):
            found.append(row)
    return len(found)


def wanted(rows: list[Tuple]) -> dict[str, Tuple]:
    of = {key: [row for row in rows if row[0] == key] for key in {row[0] for row in rows}}
    return {
        key: (
            different([row[1:2] for row in own]),
            different([row[2:3] for row in own]),
            different([row[2:] for row in own]),
            different([row[3:] for row in own if row[1] is not None and row[1] > 3]),
        )
        for key, own in of.items()
    }


@pytest.mark.parametrize("count", [20, 3_000])
def test_groups_of_a_batch(engine: Slots, count: int) -> None:
    rows = drawn(count, 3)
    grouped = stream(TridentTopology(), FIELDS, rows).groupBy("k")
    assert {row[0]: row[1:] for row in leaving(engine, grouped.aggregate(EACH))} == wanted(rows)


def test_no_tuple_has_no_value(engine: Slots) -> None:
    assert leaving(engine, stream(TridentTopology(), FIELDS, []).aggregate(EACH)) == [(0, 0, 0, 0)]


def test_states_by_any_cut_and_over_a_restart(tmp_path: Path) -> None:
    for seed in range(4):
        rows, draws = drawn(500, seed), random.Random(seed)
        cuts = sorted(draws.sample(range(500), 3))
        batches = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        for upto in (2, 4):
            topology = TridentTopology()
            grouped = topology.newStream("rows", FixedBatchSpout(FIELDS, batches[:upto])).groupBy("k")
            grouped.persistentAggregate(MemoryMapState.opaque(), EACH, name="several")
            exact = CountDistinct(exact=True)
            grouped.persistentAggregate(MemoryMapState.transactional(), "x, word", exact, "both", name="one")
            with start_local(topology, name=f"t{seed}", checkpointLocation=tmp_path) as running:
                running.processAllAvailable(timeout=60)
                several = {key: tuple(row) for key, row in running.state("several").items()}
                one = dict(running.state("one").items())
        assert several == wanted(rows)
        assert one == {key: values[2] for key, values in wanted(rows).items()}


def test_the_values_that_are_left_after_deletions() -> None:
    draws, there, batches = random.Random(5), list[Tuple](), list[Any]()
    for _ in range(10):
        batch = []
        for _ in range(20):
            if there and draws.random() < 0.5:
                batch.append((*there.pop(draws.randrange(len(there))), "delete"))
            else:
                there.append((draws.choice("ab"), draws.randrange(4), draws.choice([0.0, NAN]), "w"))
                batch.append((*there[-1], "insert"))
        batches.append(batch)
    topology = TridentTopology()
    changes = topology.newStream("rows", TestSource(f"{FIELDS}, op string", batches)).asChanges("op").groupBy("k")
    changes.persistentAggregate(MemoryMapState.opaque(), EACH, name="several")
    with start_local(topology) as running:
        running.processAllAvailable(timeout=60)
        found = {key: tuple(row) for key, row in running.state("several").items()}
    assert found == wanted(there)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda s: CountDistinct(lgK=10, exact=True), "CountDistinct: lgK=10 sets the size of a sketch"),
        (lambda s: CountDistinct(exact=1), "CountDistinct: exact=1: expected True or False"),
        (
            lambda s: s.aggregate("l", CountDistinct(exact=True), "out"),
            "CountDistinct(exact=True) sorts the values, but 'l' is array<bigint>; remove exact",
        ),
        (lambda s: s.aggregate([], CountDistinct(exact=True), "out"), "name the fields before the aggregator"),
    ],
)
def test_wrong_calls_say_what_is_accepted(call: Any, says: str) -> None:
    with pytest.raises(TopologyError, match=re.escape(says)):
        call(stream(TridentTopology(), "l array<long>", []))


def test_a_start_refuses_the_state_of_the_other_form(tmp_path: Path) -> None:
    for exact in (True, False):
        topology = TridentTopology()
        rows = topology.newStream("rows", FixedBatchSpout("a long", [[1, 2]]))
        rows.persistentAggregate(MemoryMapState.opaque(), "a", CountDistinct(exact=exact), "n", name="s")
        if exact:
            with start_local(topology, name="t", checkpointLocation=tmp_path) as running:
                running.processAllAvailable(timeout=30)
            continue
        with pytest.raises(StateShapeError):
            start_local(topology, name="t", checkpointLocation=tmp_path)
