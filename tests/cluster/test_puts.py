"""Whoever dies between a put of an executor and its report: every count is right.

`python -m tests.cluster.put_rounds 200` runs more rounds than these.
"""

from math import inf

import pytest

from tests.cluster.put_rounds import CLUSTERS, Outcome, differences, rounds
from tests.cluster.puts import KINDS, expected, troubles_of
from tests.support.soak import Soak

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


def test_counts_are_exact_where_executors_the_server_and_the_driver_die_around_puts() -> None:
    """Two batches, of a seed that draws a dead worker, executor, server and driver."""
    done = rounds("local-cluster", 2, SEED)
    assert not done.wrong, done.wrong
    assert {"worker", "executor", "server", "driver"} <= {struck.split()[1] for struck in done.struck}, done.struck


def test_counts_in_delta_tables_are_exact_where_executors_die_around_puts() -> None:
    """One batch. A driver that dies would take another Spark, and half a minute; the long rounds have it."""
    done = rounds("local-cluster", 1, SEED_OF_TABLES, delta=True)
    assert not done.wrong, done.wrong
    assert {"worker", "executor"} <= {struck.split()[1] for struck in done.struck}, done.struck


SEED = 1619
SEED_OF_TABLES = 40
"""With these the first two batches, or the first one, are troubled so, by few deaths."""


@pytest.mark.parametrize(
    ("seed", "batches", "deaths"),
    [(SEED, 2, {"worker", "executor", "server", "driver"}), (SEED_OF_TABLES, 1, {"worker", "executor"})],
)
def test_the_seeds_draw_what_the_short_rounds_are_to_show(seed: int, batches: int, deaths: set[str]) -> None:
    left = {"daemon"} if "server" in deaths else {"daemon", "server"}
    drawn = {
        kind
        for state in ("counts", "joined", "asked")
        for txid in range(1, batches + 1)
        for kind, _ in troubles_of(seed, f"state {state!r}", txid, [kind for kind in KINDS if kind not in left])
    }
    assert deaths <= drawn
    assert "stands still" not in drawn, "that takes a minute"


@pytest.mark.soak(weight=3)
def test_rounds_of_deaths_between_puts_and_reports_are_exact_on_both_kinds_of_cluster(soak: Soak) -> None:
    total = Outcome()
    for at, dice in enumerate(soak.draws(20)):  # without a limit 200 rounds
        few = 5 if soak.seconds < inf else 10
        total.add(rounds(CLUSTERS[at % 2], few, dice.randrange(1 << 30)))
        assert not total.wrong, f"{total}"
    soak.tell(str(total))


@pytest.mark.soak(weight=3)
def test_rounds_of_deaths_around_puts_into_delta_tables_are_exact(soak: Soak) -> None:
    total = Outcome()
    for at, dice in enumerate(soak.draws(20)):  # without a limit 200 rounds
        few = 5 if soak.seconds < inf else 10
        total.add(rounds(CLUSTERS[at % 2], few, dice.randrange(1 << 30), delta=True))
        assert not total.wrong, f"{total}"
    soak.tell(str(total))


def test_a_lost_and_a_doubled_put_are_seen() -> None:
    right = expected(1, 2)
    assert differences(right, right) == []
    lost = {**right, "counts": {k: v for k, v in right["counts"].items() if k != "only1.7"}}
    doubled = {**right, "joined": {**right["joined"], "only0.3": "3333"}}
    assert "counts: 1 differ (only1.7: None for 2)" in differences(lost, right)[0]
    assert "joined: 1 differ (only0.3: 3333 for 33)" in differences(doubled, right)[0]
