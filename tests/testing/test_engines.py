"""engines(): each test on each engine, with the same source, output, crashes and clock."""

from pathlib import Path

import pytest

from tests.testing.test_source import COUNTS, WORDS, counting, counts
from trident import active
from trident.testing import CRASH, FAIL, EngineStart, ManualClock, TestOutput, TestSource, engines, run_through

start = engines(spark="spark", marks=[pytest.mark.spark])
only_embedded = engines(["embedded"])


def test_marks_mean_the_same_on_each_engine(start: EngineStart, tmp_path: Path) -> None:
    source, output = TestSource("word string", [WORDS[0], FAIL, WORDS[1], CRASH, WORDS[2]], "opaque"), TestOutput()
    topology = counting(source, output)
    with run_through(topology, start=start, checkpointLocation=tmp_path, maxSpoutPending=1) as running:
        assert counts(running) == COUNTS
    assert sorted(output.rows) == sorted(source.rows)


def test_a_batch_is_handed_over_as_a_dataframe_too(start: EngineStart) -> None:
    if start.engine == "embedded":
        pytest.skip("foreachBatch needs Spark")
    output, topology = TestOutput(), counting(source := TestSource("word string", WORDS))
    topology.newStream("more", source).foreachBatch(output)
    with start(topology, availableNow=True) as running:
        running.awaitTermination(timeout=60)
    assert sorted(output.rows) == sorted(source.rows)


def test_a_clock_is_taken_and_what_is_left_running_is_stopped(tmp_path: Path) -> None:
    starting = EngineStart("embedded")
    running = starting(counting(TestSource("word string", WORDS)), clock=ManualClock(100.0), name="left")
    assert running in active()
    starting.stop()
    assert running not in active()
    assert repr(starting) == "EngineStart('embedded')"


def test_one_engine_can_be_chosen(only_embedded: EngineStart) -> None:
    assert only_embedded.engine == "embedded"
    with pytest.raises(ValueError, match="unknown engine 'flink'; expected 'embedded', 'spark' or 'auto'"):
        engines(["flink"])
