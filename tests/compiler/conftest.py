"""Every test that takes `engine` runs on both engines: what a plan means must not depend on who runs it."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.compiler.stage_runner import OnArrow, OnSpark, Slots
from trident.compiler.spark.sessions import released


@pytest.fixture(scope="session")
def on_spark(spark: SparkSession) -> Iterator[OnSpark]:
    """The Spark engine, its session kept for all tests of the run."""
    made = OnSpark(spark)
    yield made
    made.close()


@pytest.fixture
def other_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """A session beside the shared one, whose confs may be changed."""
    session = spark.newSession()
    yield session
    released(session)


@pytest.fixture(params=["arrow", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> Slots:
    """Either engine."""
    return OnArrow() if request.param == "arrow" else request.getfixturevalue("on_spark")
