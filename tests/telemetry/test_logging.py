"""The Python log: one root, few lines at INFO, and the fields by which an operator finds a batch."""

import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import wait_until
from trident import Count, Debug, TridentTopology
from trident.errors import BatchFailedError
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState
from trident.testing import CRASH, FAIL, DriverCrashedError, ManualClock, TestSource, start_local

ROOT = Path(__file__).parents[2]
SOURCES = [
    ROOT / "trident",
    ROOT / "trident_client",
    ROOT / "state" / "trident_state",
    ROOT / "spouts" / "trident_spouts",
]


def counting(source: Any) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", source)
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def told(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def test_every_logger_of_the_library_is_below_one_name() -> None:
    names = {
        name if name != "__name__" else file.relative_to(folder.parent).as_posix().replace("/", ".")
        for folder in SOURCES
        for file in folder.rglob("*.py")
        for name in re.findall(r"getLogger\(\"?([\w.]*)", file.read_text())
    }
    assert "trident.debug" in names and "trident.run.start.py" in names
    assert [name for name in names if not name.startswith("trident.") and name != "module"] == []


def test_a_run_says_that_it_starts_and_stops(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with (
        caplog.at_level(logging.INFO, "trident"),
        start_local(counting(TestSource("word string", [["a"]])), name="t", checkpointLocation=tmp_path) as running,
    ):
        running.processAllAvailable(timeout=20)
    assert told(caplog) == [
        f"topology 't' starts on engine 'embedded', log in {tmp_path}/t, epoch 1; words at txid 0",
        "topology 't' stopped; words at txid 1",
    ]
    assert {record.topology for record in caplog.records} == {"t"}  # type: ignore[attr-defined]
    assert {record.name.partition(".")[0] for record in caplog.records} == {"trident"}


def test_a_recovery_is_told_with_the_batches_that_wait(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    topology = counting(TestSource("word string", [["a"], CRASH.at("freeze.after"), ["b"]]))
    options: dict[str, Any] = {"name": "t", "checkpointLocation": tmp_path, "maxSpoutPending": 1}
    with pytest.raises(DriverCrashedError), start_local(topology, **options) as running:
        running.processAllAvailable(timeout=20)
    caplog.clear()
    with caplog.at_level(logging.INFO, "trident"), start_local(topology, **options) as running:
        running.processAllAvailable(timeout=20)
    assert told(caplog)[1:3] == [
        "the driver of epoch 1 did not release the log: it died, or is now fenced out",
        "group 'words': batches 2 to 2 are frozen but not committed; they are committed first",
    ]
    assert caplog.records[2].group == "words"  # type: ignore[attr-defined]


def test_commits_are_told_at_most_every_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    clock, feeder = ManualClock(1_000.0), FeederBatchSpout("word string")
    with caplog.at_level(logging.INFO, "trident"), start_local(counting(feeder), name="t", clock=clock) as running:
        for txid, seconds in enumerate((4, 4, 4, 1, 9.2), 1):
            feeder.feed(["a", "b"])
            clock.advance(seconds)

            def told_of(txid: int = txid) -> bool:
                clock.advance(0.001)  # an idle group sleeps by this clock, and may have fallen asleep just now
                return (running.lastProgress or {"txid": 0})["txid"] == txid

            wait_until(told_of)
    rates = [record for record in caplog.records if "batch" in record.getMessage()]
    assert [record.getMessage() for record in rates] == [
        "group 'words': 3 batches in 12 s, up to txid 3; 6 rows, 0 rows/s",
        "group 'words': 2 batches in 10 s, up to txid 5; 4 rows, 0 rows/s",
    ]
    assert [(r.topology, r.group, r.txid, r.attempt) for r in rates] == [  # type: ignore[attr-defined]
        ("t", "words", 3, 0),
        ("t", "words", 5, 0),
    ]


def test_a_failure_carries_topology_group_txid_and_attempt(caplog: pytest.LogCaptureFixture) -> None:
    topology = TridentTopology()
    words = topology.newStream("words", TestSource("word string", [["a"]]))
    words.each("word", lambda word: 1 // 0, "n long").peek(print)
    with pytest.raises(BatchFailedError), start_local(topology, name="t", maxAttempts=2) as running:
        running.processAllAvailable(timeout=20)
    warning, end = (record for record in caplog.records if record.levelno >= logging.WARNING)
    assert "run failed" in warning.getMessage()
    assert (warning.topology, warning.group, warning.txid, warning.attempt) == ("t", "words", 1, 0)  # type: ignore[attr-defined]
    assert end.levelname == "ERROR" and end.getMessage().startswith("topology 't' failed: BatchFailedError: ")
    assert (end.topology, end.group, end.txid) == ("t", None, None)  # type: ignore[attr-defined]


def test_at_debug_each_batch_has_a_line_when_it_begins_and_when_it_is_committed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = TestSource("word string", [["a", "b", "a"], FAIL, ["c"]])
    with (
        caplog.at_level(logging.DEBUG, "trident.telemetry.batch_trace"),
        start_local(counting(source), name="t") as running,
    ):
        running.processAllAvailable(timeout=20)
    records = [record for record in caplog.records if record.levelno == logging.DEBUG]
    lines = [re.sub(r"; .* ms; ", "; ... ms; ", record.getMessage()) for record in records]
    assert [line for line in lines if "began" in line] == [
        "group 'words', batch 1:0: began",
        "group 'words', batch 2:0: began",
        "group 'words', batch 2:1: began",
    ]
    assert [line for line in lines if "began" not in line] == [
        "group 'words', batch 1:0: committed, 3 rows; ... ms; counts: 2 keys",
        "group 'words', batch 2:1: committed, 1 rows; ... ms; counts: 1 keys",
    ]
    assert [(record.topology, record.txid, record.attempt) for record in records][-1] == ("t", 2, 1)  # type: ignore[attr-defined]


def test_debug_lines_carry_the_fields_too(caplog: pytest.LogCaptureFixture) -> None:
    topology = TridentTopology()
    topology.newStream("words", TestSource("word string", [["a"]])).each(Debug("seen"))
    with caplog.at_level(logging.INFO, "trident.debug"), start_local(topology, name="t") as running:
        running.processAllAvailable(timeout=20)
    (line,) = (record for record in caplog.records if record.name == "trident.debug")
    assert line.getMessage() == "DEBUG(seen) 1:0: ['a']"
    assert (line.topology, line.group, line.txid, line.attempt) == ("t", "words", 1, 0)  # type: ignore[attr-defined]


PROGRAM = """
from trident import Count, TridentTopology
from trident.spouts import FileSpout
from trident.state import MemoryMapState
topology = TridentTopology()
lines = topology.newStream("lines", FileSpout({folder!r} + "/*.txt"))
lines.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="n")
with topology.start(engine="embedded", name="t", checkpointLocation={folder!r}) as running:
    running.processAllAvailable(timeout=20)
"""


def test_a_program_without_logging_sees_warnings_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM.format(folder=str(tmp_path))]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", f"FileSpout: there is no file at {tmp_path}/*.txt\n")
