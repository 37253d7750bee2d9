"""Every test that takes `engine` runs on both engines: what a plan means must not depend on who runs it."""

import pytest

from tests.compiler.kit import OnArrow, OnSpark, Slots

_on_spark: list[OnSpark] = []


@pytest.fixture
def on_spark(request: pytest.FixtureRequest) -> OnSpark:
    """The Spark engine, its session kept for all tests of the run."""
    if not _on_spark:
        _on_spark.append(OnSpark(request.getfixturevalue("spark")))
    return _on_spark[0]


@pytest.fixture(params=["arrow", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> Slots:
    """Either engine."""
    return OnArrow() if request.param == "arrow" else request.getfixturevalue("on_spark")
