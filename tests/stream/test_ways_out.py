"""Messages that say the way out: options of others, names with blanks, nulls, functions of PySpark, other programs."""

import inspect
import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import trident
import trident.spouts
import trident.state
from trident import Count, SlidingEventTimeWindow, TridentTopology, TumblingCountWindow, TumblingEventTimeWindow
from trident.base.errors import (
    ArgumentsError,
    BatchFailedError,
    CodeChangedError,
    StateUnavailableError,
    TypeDeclarationError,
)
from trident.base.spark_types import parse_schema
from trident.operations.aggregates.base import BuiltinAggregator
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, PostgresMapState, RedisMapState, SqliteMapState
from trident.testing.local import start_local


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: SlidingEventTimeWindow("2 days", "1 day", "at", timeZone="Europe/Berlin"),
            "SlidingEventTimeWindow: there is no option 'timeZone': windows begin at multiples of their length in "
            "UTC. TumblingEventTimeWindow('1 day', 'at', timeZone='Europe/Berlin') has days of local time;",
        ),
        (lambda: TumblingEventTimeWindow("1 day", "at", lag=5), "did you mean 'lateness'?"),
        (lambda: TumblingCountWindow(lenght=3), "it takes length; did you mean 'length'?"),
        (
            lambda: RedisMapState.opaque("redis://localhost", localCacheSize=1000),
            "RedisMapState.opaque: there is no option 'localCacheSize': there is no cache",
        ),
        (lambda: RedisMapState.transactional("redis://localhost", bucket=4), "did you mean 'buckets'?"),
        (lambda: MemoryMapState.opaque(ttl=3), "it takes maxBytes, ttlSecs; did you mean 'ttlSecs'?"),
        (lambda: SqliteMapState.opaque("x", ttlSecs=3), "SqliteMapState.opaque: there is no option 'ttlSecs'"),
        (lambda: PostgresMapState.nonTransactional("x", timeout=3), "did you mean 'connectTimeout'?"),
    ],
)
def test_an_option_that_there_is_not_is_told_with_the_one_that_was_meant(call: Callable[[], object], says: str) -> None:
    with pytest.raises(ArgumentsError) as refused:
        call()
    assert isinstance(refused.value, TypeError)
    assert says in str(refused.value)


def listed(module: Any) -> list[Any]:
    return [getattr(module, name) for name in module.__all__]


def made() -> list[Any]:
    """Return the ways to make each spout, state, window and aggregator of the library."""
    spouts = [each for each in listed(trident.spouts) if isinstance(each, type) and each.__name__.endswith("Spout")]
    classes = [each for each in listed(trident) if isinstance(each, type)]
    return [
        *(each for each in spouts if not inspect.isabstract(each) and not getattr(each, "_is_protocol", False)),
        *(each for each in classes if issubclass(each, BuiltinAggregator) or each.__name__.endswith("Window")),
        *(each.opaque for each in listed(trident.state) if hasattr(each, "opaque")),
    ]


@pytest.mark.parametrize("make", made(), ids=lambda make: make.__qualname__)
def test_arguments_that_do_not_fit_are_refused_with_those_that_do(make: Any) -> None:
    with pytest.raises(ArgumentsError, match=r"there is no option 'pages'; it takes \w+"):
        make(pages=3)
    parameters = inspect.signature(make).parameters.values()
    if all(each.kind is not each.VAR_POSITIONAL for each in parameters):
        with pytest.raises(ArgumentsError, match=r"has no name: .*; it takes \w+"):
            make(*range(20))
    if any(each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters):
        with pytest.raises(ArgumentsError, match=r"an argument is missing: .*; it takes \w+"):
            make()


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("Origin State string, n long", "`Origin State` string"),
        ("n int, Day of Year int", "`Day of Year` int"),
    ],
)
def test_a_name_with_blanks_is_shown_in_backticks(text: str, quoted: str) -> None:
    with pytest.raises(TypeDeclarationError, match=f"a name with blanks in backticks: {quoted}"):
        parse_schema(text)


def failing(function: Callable[..., Any], tmp_path: Path) -> str:
    topology = TridentTopology()
    numbers = topology.newStream("s", FixedBatchSpout("n long", [[1, None]]))
    numbers.each("n", function, "m long").foreachArrow(lambda *_: None, name="o")
    with (
        pytest.raises(BatchFailedError) as failed,
        start_local(topology, name="t", checkpointLocation=tmp_path, maxAttempts=1) as running,
    ):
        running.processAllAvailable(timeout=60)
    return str(failed.value)


def test_a_null_that_a_function_does_not_expect_is_named(tmp_path: Path) -> None:
    told = failing(lambda n: n + 1, tmp_path)
    assert "the tuple was (n=None) (n is null: test for None, or put each('n', FilterNull()) before)" in told


def test_a_function_of_pyspark_within_a_function_is_told(tmp_path: Path) -> None:
    """Without a Spark session `lit` raises. With one, which another test may have started, it makes a Column."""
    assert "(functions of pyspark.sql make Columns: give the Column" in failing(lambda n: F.lit(1), tmp_path)


def counting(stream: str, state: str) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream(stream, FixedBatchSpout("word string", [["a"]]))
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name=state)
    return topology


def test_another_program_under_the_same_name_and_folder_is_told_of_both(tmp_path: Path) -> None:
    with start_local(counting("sentences", "counts"), name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
    with pytest.raises(CodeChangedError, match=r"another program.*\(name=, now 'wc'\).*\(checkpointLocation=\)"):
        start_local(counting("lines", "counts"), name="wc", checkpointLocation=tmp_path)


@pytest.mark.parametrize("active", [True, False])
def test_a_run_that_stops_before_its_first_batch_says_so(
    active: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An inactive one waits for no batch, and nothing is to be learnt."""
    topology = TridentTopology()
    topology.newStream("s", FixedBatchSpout("n long", [])).foreachArrow(lambda *_: None, name="o")
    with (
        caplog.at_level(logging.WARNING, "trident"),
        start_local(topology, name="t", checkpointLocation=tmp_path, active=active),
    ):
        pass
    assert ("topology 't' stopped before its first batch" in caplog.text) == active


def test_a_start_without_its_redis_is_one_short_traceback(tmp_path: Path) -> None:
    topology = TridentTopology()
    words = topology.newStream("s", FixedBatchSpout("word string", [["a"]])).groupBy("word")
    words.persistentAggregate(RedisMapState.opaque("redis://127.0.0.1:1"), Count(), "n", name="n")
    with pytest.raises(StateUnavailableError, match="A start fails without it, and commits wait for it") as failed:
        topology.start(name="t", checkpointLocation=tmp_path, engine="embedded")
    assert len("".join(traceback.format_exception(failed.value)).splitlines()) < 25
