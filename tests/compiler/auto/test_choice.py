"""The choice of an engine from times, against engines whose times are known."""

import random
from collections.abc import Callable

import pytest

from trident.compiler.auto.choice import EngineChoice, Side, Size

Engines = dict[Side, Callable[[int], float]]

LIGHT: Engines = {"embedded": lambda n: 0.002 + 2e-7 * n, "spark": lambda n: 0.06 + 1.5e-7 * n}
"""Two cores and columns: Spark is never much sooner."""
WIDE: Engines = {"embedded": lambda n: 0.002 + 1e-6 * n, "spark": lambda n: 0.08 + 1e-7 * n}
"""Sixteen cores."""
SLOW: Engines = {"embedded": lambda n: 0.002 + 1e-3 * n, "spark": lambda n: 0.1 + 1e-4 * n}
"""A slow Python function."""
POOR: Engines = {"embedded": lambda n: 0.002 + 1e-6 * n, "spark": lambda n: 0.3 + 2e-6 * n}
"""Spark on one busy core."""


def size(tuples: int | None, many: int | None = None) -> Size:
    return Size(tuples, many)


def run(choice: EngineChoice, engines: Engines, tuples: int, factor: float = 1.0) -> tuple[Side, float]:
    side = choice.choose("g", 1, size(tuples), True)
    seconds = engines[side](tuples) * factor
    choice.ran("g", 1, side, size(tuples), seconds)
    return side, seconds


@pytest.mark.parametrize("engines", [LIGHT, WIDE, SLOW, POOR], ids=["light", "wide", "slow", "poor"])
@pytest.mark.parametrize("seed", range(5))
def test_after_three_batches_of_a_size_none_takes_much_longer_than_on_the_better_engine(
    engines: Engines, seed: int
) -> None:
    choice, draw, seen = EngineChoice(10**9, 10**12), random.Random(seed), dict[int, int]()
    for _ in range(400):
        exponent = draw.randrange(4, 24)
        tuples = int(2**exponent * draw.uniform(0.5, 1))
        side, seconds = run(choice, engines, tuples, draw.uniform(0.9, 1.1))
        seen[exponent] = seen.get(exponent, 0) + 1
        if seen[exponent] > 3:
            best = min(engine(tuples) for engine in engines.values())
            assert seconds <= 1.5 * best * 1.1, (side, tuples, seconds, best)


def test_a_cold_first_job_does_not_decide() -> None:
    choice = EngineChoice(10**9, 10**12)
    for _ in range(6):
        choice.ran("g", 1, "embedded", size(100_000), 1.0)
    assert choice.choose("g", 1, size(100_000), True) == "spark"
    choice.ran("g", 1, "spark", size(100_000), 2.0)  # it loads classes; later ones take 0.2 s
    assert choice.choose("g", 1, size(100_000), True) == "spark"
    choice.ran("g", 1, "spark", size(100_000), 0.2)
    choice.ran("g", 1, "spark", size(100_000), 0.2)
    assert choice.choose("g", 1, size(100_000), True) == "spark"


def test_times_that_are_nearly_equal_do_not_move_a_stage() -> None:
    choice, draw = EngineChoice(10**9, 10**12), random.Random(1)
    even: Engines = {"embedded": lambda n: 0.2, "spark": lambda n: 0.19}
    sides = [run(choice, even, 1000, draw.uniform(0.95, 1.05))[0] for _ in range(60)]
    assert len(set(sides[3:])) == 1


def test_without_spark_the_driver_computes_and_says_when_spark_is_worth_a_start() -> None:
    choice = EngineChoice(10**9, 10**12)
    assert choice.choose("g", 1, size(10**6), False) == "embedded"
    assert not choice.worth_a_start("g", 1, size(100))
    choice.ran("g", 1, "embedded", size(100), 0.004)
    assert not choice.worth_a_start("g", 1, size(100))
    choice.ran("g", 1, "embedded", size(10**6), 2.0)
    choice.ran("g", 1, "embedded", size(10**6), 2.0)
    assert choice.worth_a_start("g", 1, size(10**6))


@pytest.mark.parametrize(
    ("seconds", "worth"),
    [
        ([0.3], False),  # it loads code
        ([2.0], True),
        ([0.3, 0.004], False),
        ([0.3, 0.2], True),
        ([0.3, 0.004, 0.2, 0.2, 0.004], False),
        ([0.3, 0.004, 0.2, 0.2, 0.2], True),
        ([0.02] * 5, False),
    ],
)
def test_a_session_is_used_once_a_stage_takes_longer_than_a_job_and_not_for_one_slow_batch(
    seconds: list[float], worth: bool
) -> None:
    choice = EngineChoice(10**9, 10**12)
    for each in seconds:
        choice.ran("g", 1, "embedded", size(100), each)
    assert choice.worth_a_start("g", 1, size(100), session=True) is worth
    assert choice.worth_a_start("g", 1, size(100)) is (seconds == [2.0])


@pytest.mark.parametrize(
    ("seconds", "side"),
    [([0.08, 0.1, 0.02], "embedded"), ([0.2, 0.02, 0.2, 0.2, 0.2], "spark"), ([0.2] * 3, "spark")],
    ids=["busy machine", "quick once", "slow"],
)
def test_spark_is_not_tried_because_the_machine_was_busy(seconds: list[float], side: Side) -> None:
    """The times are those of batches that ran before Spark was up."""
    choice = EngineChoice(10**9, 10**12)
    for each in seconds:
        assert choice.choose("g", 1, size(10**6), False) == "embedded"
        choice.ran("g", 1, "embedded", size(10**6), each)
    assert choice.choose("g", 1, size(10**6), True) == side


def test_the_attempt_after_a_failure_of_an_engine_runs_on_the_other_one_until_it_has_run() -> None:
    choice = EngineChoice(10**9, 10**12)
    for side in ("embedded", "spark"):
        for _ in range(3):
            choice.ran("g", 1, side, size(100), 0.01 if side == "embedded" else 1.0)  # type: ignore[arg-type]
    assert choice.choose("g", 1, size(100), True) == "embedded"
    choice.failed("g", 1, "embedded")
    assert choice.choose("g", 1, size(100), True) == "spark"
    assert choice.choose("g", 2, size(100), True) == "embedded", "another stage did not fail"
    choice.ran("g", 1, "spark", size(100), 1.0)
    assert choice.choose("g", 1, size(100), True) == "embedded"


def test_an_engine_that_fails_again_and_again_is_left() -> None:
    choice, failures = EngineChoice(10**9, 10**12), 0
    for _ in range(5):
        choice.ran("g", 1, "spark", size(1000), 0.1)
        choice.ran("g", 1, "embedded", size(1000), 0.4)
    for _ in range(20):
        if choice.choose("g", 1, size(1000), True) == "spark":
            failures += 1
            choice.failed("g", 1, "spark")
            assert choice.choose("g", 1, size(1000), True) == "embedded"
        choice.ran("g", 1, "embedded", size(1000), 0.4)
    assert failures == 3


def test_a_group_that_spark_cannot_run_stays_here() -> None:
    choice = EngineChoice(10**9, 10**12)
    choice.stays_here("g")
    choice.failed("g", 1, "embedded")
    assert choice.choose("g", 1, size(10**9), True) == "embedded"


@pytest.mark.parametrize(
    ("sizes", "together", "measure"),
    [
        ([size(1, 10), size(2, 20)], (3, 30), 3),
        ([size(10, None), size(20, 10**9)], (30, 10**9), 30),
        ([size(10, None), size(None, 6400)], (10, 6400), 110),
        ([size(None, 640), size(None, 6400)], (None, 7040), 110),
        ([size(10, 10), size(None, None)], (None, None), 1),
        ([], (None, None), 1),
    ],
)
def test_the_size_of_several_inputs_hides_nothing_that_is_known(
    sizes: list[Size], together: tuple[int | None, int | None], measure: float
) -> None:
    found = Size.together(sizes)
    assert (found.tuples, found.bytes) == together and found.measure == measure


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        (size(10, 10), True),
        (size(100, 1000), True),
        (size(101, 10), False),
        (size(10, 1001), False),
        (size(None, 10), True),
        (size(10, None), True),
        (size(None, 1001), False),
        (size(None, None), False),
    ],
)
def test_an_input_that_is_too_large_or_of_unknown_size_does_not_fit_the_driver(given: Size, fits: bool) -> None:
    assert EngineChoice(100, 1000).fits(given) is fits
