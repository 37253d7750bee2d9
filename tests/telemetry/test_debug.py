"""The option `debug` of a start: lines for each batch and for the tuples of named steps, on both engines."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from trident import Count, Debug, TridentTopology
from trident.errors import TopologyError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing import CRASH, DriverCrashedError, TestSource, start_local


def counting(spout: Any) -> TridentTopology:
    """Words with an exclamation mark, counted; the step behind the state is in a second stage."""
    topology = TridentTopology()
    words = topology.newStream("words", spout).each("word", lambda word: f"{word}!", "loud string")
    counts = words.groupBy("loud").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    counts.newValuesStream().each("count", lambda count: -count, "below long").peek(lambda t: None)
    topology.newDRPCStream("echo").each("args", str.upper, "loud string")
    return topology


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines under trident.debug, without functions' names and milliseconds."""
    records = [record for record in caplog.records if record.name == "trident.debug"]
    assert {(record.levelno, record.topology) for record in records} <= {(logging.INFO, "t")}  # type: ignore[attr-defined]
    return [re.sub(r":each\([^)]*\)|; .* ms", "", record.getMessage()) for record in records]


@pytest.mark.parametrize("engine", ["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_start_shows_each_batch_and_the_tuples_of_named_steps(
    engine: str, request: Any, caplog: pytest.LogCaptureFixture
) -> None:
    spark = [request.getfixturevalue("spark")] if engine == "spark" else []
    topology, driver = counting(FixedBatchSpout("word string", [["a"], ["b"]])), {"driverRows": 0}
    with (
        caplog.at_level(logging.INFO, "trident.debug"),
        topology.start(
            *spark, engine=engine, name="t", debug=["words/1", "words/3"], maxSpoutPending=1, **driver
        ) as run,
    ):
        run.processAllAvailable(timeout=120)
        counts = run.state("counts").toPandas()["count"].tolist()
    assert counts == [1, 1]
    expected = [
        (f"group 'words', batch {n}:0: began", f"DEBUG(words/1) {n}:0: ['{word}', '{word}!']",
         f"DEBUG(words/3) {n}:0: ['{word}!', 1, -1]", f"group 'words', batch {n}:0: committed, 1 rows; counts: 1 keys")
        for n, word in ((1, "a"), (2, "b"))
    ]  # fmt: skip
    assert lines_of(caplog) == [line for batch in expected for line in batch]


def test_a_large_batch_shows_its_first_tuples_and_says_that_more_were_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topology = counting(FixedBatchSpout("word string", [[f"w{n}" for n in range(101)], [f"w{n}" for n in range(100)]]))
    with (
        caplog.at_level(logging.INFO, "trident.debug"),
        start_local(topology, name="t", debug=["words/0:newStream(FixedBatchSpout)"], maxSpoutPending=1) as running,
    ):
        running.processAllAvailable(timeout=20)
    lines = [line for line in lines_of(caplog) if "DEBUG" in line]
    head = "DEBUG(words/0:newStream(FixedBatchSpout))"
    assert len(lines) == 201
    assert lines[99:101] == [f"{head} 1:0: ['w99']", f"{head} 1:0: the tuples after the first 100 are left out"]
    assert running.debugOutput == [line for line in running.debugOutput if "DEBUG" in line] and len(lines) == 201


def test_two_debugs_with_one_label_are_both_shown() -> None:
    topology = TridentTopology()
    words = topology.newStream("words", TestSource("word string", [["a"]]))
    words.each(Debug("seen")).each("word", str.upper, "loud string").each(Debug("seen"))
    with start_local(topology, name="t") as running:
        running.processAllAvailable(timeout=20)
    assert sorted(running.debugOutput) == ["DEBUG(seen) 1:0: ['a', 'A']", "DEBUG(seen) 1:0: ['a']"]


def test_a_frozen_batch_is_committed_by_a_start_with_other_debug_steps(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trident.debug")
    topology = counting(TestSource("word string", [["a"], CRASH.at("freeze.after"), ["a"]]))
    options: dict[str, Any] = {"name": "t", "checkpointLocation": tmp_path, "maxSpoutPending": 1}
    with pytest.raises(DriverCrashedError), start_local(topology, debug=["words"], **options) as running:
        running.processAllAvailable(timeout=20)
    for debug in (False, ["words/3"]):
        with start_local(topology, debug=debug, **options) as running:
            running.processAllAvailable(timeout=20)
            assert running.state("counts").get("a!") == 2


@pytest.mark.parametrize(
    ("debug", "message"),
    [
        ("words", r"debug='words': expected True, False or a list of names of steps"),
        (["word"], r"no step of a batch that emits tuples is called 'word'; did you mean 'words'\?; there are words/0"),
        (["echo()/1"], r"is called 'echo\(\)/1'.*there are words/0, words/1, words/2, words/3, words/4"),
    ],
)
def test_another_name_is_refused(debug: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        start_local(counting(TestSource("word string", [["a"]])), name="t", debug=debug)


def test_a_start_warns_if_no_line_would_be_logged() -> None:
    topology = counting(TestSource("word string", [["a"]]))
    logging.getLogger("trident.debug").setLevel(logging.WARNING)
    try:
        with (
            pytest.warns(RuntimeWarning, match=r"nothing is logged.*logging\.basicConfig"),
            start_local(topology, name="t", debug=True) as running,
        ):
            running.processAllAvailable(timeout=20)
    finally:
        logging.getLogger("trident.debug").setLevel(logging.NOTSET)
