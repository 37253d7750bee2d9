"""A soak takes its share of the time, draws the same from the same seed, and runs only where and while it may."""

import os
import subprocess
import sys
import time
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.soak import FIXED, LEAST, Budget, Soak

ROOT = Path(__file__).parents[2]


def test_what_is_left_is_shared_by_weight_and_what_one_leaves_goes_to_the_others() -> None:
    budget = Budget(10, seed=1, weights={"a": 1, "b": 3, "c": 1}, began=time.monotonic() - 100)
    assert budget.share("a") == pytest.approx(100, abs=5)
    assert budget.share("b") == pytest.approx(375, abs=5)
    assert budget.share("c") == pytest.approx(500, abs=5)


def test_little_time_is_given_to_a_few_in_pieces_that_are_worth_a_start() -> None:
    budget = Budget(1, seed=1, weights={**dict.fromkeys("abcd", 1.0), "e": 3.0}, began=time.monotonic())
    assert budget.share("a") == LEAST
    assert budget.share("e") == pytest.approx(60, abs=5), "not more than what is left"
    budget.began -= 61
    assert budget.late("b") and budget.share("b") == 0


def test_without_an_end_each_has_all_the_time() -> None:
    budget = Budget(0, seed=1, weights={"a": 1}, began=time.monotonic() - 1_000_000)
    assert not budget.late("fixed") and not budget.late("a")
    assert budget.share("a") == inf


def test_a_soak_of_a_fixed_length_begins_within_its_part_of_the_minutes() -> None:
    def late(seconds: float, **weights: float) -> bool:
        return Budget(10, seed=1, weights=weights, began=time.monotonic() - seconds).late("fixed")

    assert [late(seconds, draws=1) for seconds in (0, 600 * FIXED - 5, 600 * FIXED + 5)] == [False, False, True]
    assert [late(seconds) for seconds in (595, 605)] == [False, True], "nobody waits for its time"


def items(*names: str) -> list[Any]:
    """Make items: those named draw... take the fixture, and all but plain... carry the mark."""

    def item(name: str) -> Any:
        mark = None if name.startswith("plain") else SimpleNamespace(kwargs={"weight": 2})
        fixtures = ("soak",) if name.startswith("draw") else ()
        return SimpleNamespace(nodeid=name, fixturenames=fixtures, get_closest_marker=lambda kind: mark)

    return [item(name) for name in names]


def ordered(seed: int, *names: str) -> list[str]:
    budget, given = Budget(1, seed), items(*names)
    budget.order(given)
    assert budget.weights == {name: 2 for name in names if name.startswith("draw")}
    return [each.nodeid for each in given]


def test_each_seed_draws_an_order_and_one_more_soak_does_not_change_it() -> None:
    names = [*(f"draw{n}" for n in range(4)), "plain2", *(f"fixed{n}" for n in range(9)), "plain1"]
    orders = [ordered(seed, *names) for seed in range(40)]
    assert orders[1] == ordered(1, *names)
    assert all(order[:2] == ["plain2", "plain1"] and set(order[-4:]) == set(names[:4]) for order in orders)
    assert len({order[2] for order in orders}) == 9, "over time each is the first one"
    assert [name for name in ordered(1, *names, "fixed9") if name != "fixed9"] == orders[1]


def drawn(seed: int, seconds: float, full: int = 3) -> list[float]:
    lines = list[str]()
    numbers = [chance.random() for chance in Soak(seed, seconds, lines.append).draws(full)]
    assert lines == [f"{len(numbers)} drawn from seed {seed}"]
    return numbers


def test_a_seed_draws_the_same_again() -> None:
    assert drawn(1, inf) == drawn(1, inf) != drawn(2, inf)
    assert len(set(drawn(1, inf))) == 3


def test_one_case_is_drawn_however_little_time_there_is_and_none_that_would_take_too_long() -> None:
    assert len(drawn(1, 0)) == 1
    slow = list[float]()
    for chance in Soak(1, 0.5, lambda text: None).draws(3):
        slow.append(chance.random())
        time.sleep(0.3)
    assert len(slow) == 1


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        ("0.0001", "no time left of 0.0001 minutes: `make soak MINUTES=0` runs every soak"),
        ("5", "1 passed"),
    ],
)
def test_a_soak_runs_only_while_minutes_are_left(minutes: str, said: str) -> None:
    test = "tests/house/test_soak.py::test_this_one_is_a_soak_itself"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test]
    environment = {**os.environ, "SOAK_MINUTES": minutes, "SOAK_SEED": "7"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert said in ran.stdout, ran.stdout + ran.stderr
    assert f"make soak MINUTES={minutes} SEED=7" in ran.stdout


@pytest.mark.soak(weight=0.01)
def test_this_one_is_a_soak_itself(soak: Soak) -> None:
    assert soak.seed > 0 and soak.seconds > 0 and next(soak.draws(1)).random() < 1
