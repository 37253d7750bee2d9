"""What every test needs on a machine that has nothing but Python: a Java, a Spark, and a real server to kill."""

import gc
import os
import sys
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

import trident
from tests.support.covered import leave_covered
from tests.support.left_out import mark_left_out
from tests.support.server import BUNDLED, RedisServer, server_binary, server_version
from tests.support.soak import Budget, Soak, is_soak
from tests.support.spark import CONNECT, SHORT_LIVED, small_spark
from trident.base.java import ensure_java
from trident.compiler import preview

if TYPE_CHECKING:
    from tests.support.kafka import KafkaBroker

JAVA = ensure_java(bundled=os.environ.get(BUNDLED) == "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each program that tests start compiles every module anew
sys.dont_write_bytecode = False
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark takes whatever python3 is first on the path
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ["TRIDENT_START_DRIVER_ROWS"] = "0"  # tests of Spark have small batches, which the driver would compute
os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED)  # for the Sparks of the programs that tests start too

# No deadline, because what a machine does besides is no fault of the code. 40 examples where a test asks for no number.
settings.register_profile("trident", deadline=None, max_examples=40)
settings.load_profile("trident")


gc.disable()  # until all tests are collected: it would walk over thousands of them again and again

SOAKS = Budget.asked()


def pytest_report_header() -> list[str]:
    return [
        f"server: {server_version()} ({server_binary()})",
        f"spark: {'connect' if CONNECT else 'classic'} mode, {JAVA}",
        *([f"soak: {SOAKS}"] if SOAKS else []),
    ]


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_covered(items)
    mark_left_out(items)
    if SOAKS:
        SOAKS.order(items)
        return
    for item in items:
        if is_soak(item):
            item.add_marker(pytest.mark.skip(reason="a soak: `make soak` runs it, or SOAK_MINUTES=2 before pytest"))


def pytest_collection_finish() -> None:
    """From now on the collector looks at new objects, and at no test or module."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a soak whose time is over before its fixtures start a server or a Spark."""
    if SOAKS and is_soak(item) and SOAKS.late(item.nodeid):
        pytest.skip(f"no time left of {SOAKS.minutes:g} minutes: `make soak MINUTES=0` runs every soak")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Hide a Spark that an earlier test left active from tests that need none: take() would run a job for each call."""
    if item.get_closest_marker("spark") or {"spark", "fresh_spark"} & set(getattr(item, "fixturenames", ())):
        return (yield)
    with mock.patch.object(preview, "active_session", return_value=None):
        return (yield)


@pytest.fixture
def soak(request: pytest.FixtureRequest) -> Soak:
    """How long this test may go on, and what it draws from."""
    assert SOAKS is not None
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def tell(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", end=" ", flush=True)

    return Soak(SOAKS.seed, SOAKS.share(request.node.nodeid), tell)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local[2] session for the whole run, because a start costs seconds. Never change its confs: newSession()."""
    with warnings.catch_warnings():
        session = small_spark(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server of this test's own (every write durable), to kill, stop, restart, pause or fill."""
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture(scope="session")
def _one_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis"), "everysec") as server:
        yield server


@pytest.fixture
def shared_redis(_one_redis: RedisServer) -> RedisServer:
    """One server for the whole run, empty at the start of each test; for tests that do it no harm."""
    _one_redis.client.flushall()
    return _one_redis


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator["KafkaBroker"]:
    """One broker for the whole run, because a start takes seconds. It ends with the run."""
    from tests.support.kafka import KafkaBroker  # only tests that skip themselves without confluent-kafka come here

    with KafkaBroker(tmp_path_factory.mktemp("kafka") / "broker") as broker:
        yield broker


@pytest.fixture
def mortal(kafka: "KafkaBroker") -> Iterator["KafkaBroker"]:
    """The same broker, which the test may kill; it runs again after the test, with all topics."""
    yield kafka
    if not kafka.running:
        kafka.start()


@pytest.fixture
def topic() -> str:
    """A name of a Kafka topic that no other test has; the topic is to be made."""
    return f"t-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def nothing_left_running() -> Iterator[None]:
    """Stop every topology that the test left running."""
    yield
    for running in trident.active():
        running.stop()
