"""A soak takes its share of the time, draws the same from the same seed, and runs only where it is asked for."""

import os
import subprocess
import sys
import time
from math import inf
from pathlib import Path

import pytest

from tests.support.soak import Budget, Soak

ROOT = Path(__file__).parents[2]


def test_what_is_left_is_shared_by_weight_and_what_one_leaves_goes_to_the_others() -> None:
    budget = Budget(10, seed=1, weights={"a": 1, "b": 3, "c": 1}, began=time.monotonic() - 100)
    assert budget.share("a") == pytest.approx(100, abs=5)
    assert budget.share("b") == pytest.approx(375, abs=5)
    assert budget.share("c") == pytest.approx(500, abs=5)


def test_without_an_end_each_has_all_the_time_and_after_it_none() -> None:
    assert Budget(0, seed=1, weights={"a": 1}).share("a") == inf
    assert Budget(1, seed=1, weights={"a": 1}, began=time.monotonic() - 61).share("a") == 0


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


@pytest.mark.parametrize(("minutes", "said"), [("", "1 skipped"), ("0.01", "1 passed")])
def test_a_soak_runs_only_where_minutes_are_given(minutes: str, said: str) -> None:
    test = "tests/house/test_soak.py::test_this_one_is_a_soak_itself"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test]
    environment = {**os.environ, "SOAK_MINUTES": minutes, "SOAK_SEED": "7"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert said in ran.stdout, ran.stdout + ran.stderr
    assert ("make soak MINUTES=0.01 SEED=7" in ran.stdout) == bool(minutes)


@pytest.mark.soak(weight=0.01)
def test_this_one_is_a_soak_itself(soak: Soak) -> None:
    assert soak.seed > 0 and sum(1 for _ in soak.draws(1)) >= 1
