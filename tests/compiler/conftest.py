"""The engines for tests. A test that takes `engine` runs on both: a plan must mean the same on each."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.compiler.stage_runner import OnArrow, OnSpark, Slots
from trident.compiler.spark.sessions import released


@pytest.fixture(scope="session")
def on_spark(spark: SparkSession) -> Iterator[OnSpark]:
    """Give the Spark engine, with one session for all tests of the run."""
    engine = OnSpark(spark)
    yield engine
    engine.close()


@pytest.fixture
def other_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a session beside the shared one, whose confs a test may change."""
    session = spark.newSession()
    yield session
    released(session)


@pytest.fixture(params=["arrow", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> Slots:
    """Return either engine."""
    return OnArrow() if request.param == "arrow" else request.getfixturevalue("on_spark")
