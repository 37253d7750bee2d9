"""A submitted topology: its driver starts from the stored folder, with the stored code and the stored options."""

import os
from pathlib import Path
from typing import Any
from unittest import mock

from tests.compatibility.programs import CHECKPOINT, NAME, Places, files, write_files
from trident.cluster.stored_driver import drive
from trident.cluster.stored_topology import Home, StoredTopology
from trident.cluster.submission import submit

topology = files
"""The states of the program, to be read without a driver."""

PROGRAM = """
from trident import Count, TridentTopology
from trident.spouts import FileSpout
from trident.state import MemoryMapState

topology = TridentTopology()
lines = topology.newStream("lines", FileSpout("input/*.txt", maxFilesPerBatch=1, maxBytesPerBatch=120))
words = lines.each("line", lambda line: iter(line.split()), "word string").name("words").shuffle().parallelismHint(2)
words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
"""
OPTIONS = {"engine": "embedded", "availableNow": "true", "maxSpoutPending": "1", "checkpointLocation": CHECKPOINT}


def home() -> Home:
    return Home(Path("home").absolute())


def stored() -> StoredTopology:
    return home().at(NAME)


def submit_once(places: Places) -> None:
    """Write the input, and submit the program, with an operator's wish, if it was not submitted yet."""
    write_files(places)
    if not stored().folder.exists():
        Path("golden_program.py").write_text(PROGRAM)
        submit(home(), "golden_program:topology", NAME, OPTIONS)
        home().change(NAME, hints={"words/1": 3})
        Path("golden_program.py").unlink()


def drive_stored() -> None:
    """Drive the stored topology to the end of its input, in this process."""
    with mock.patch.dict(os.environ):  # a driver forgets the configuration of its machine
        drive(stored())


def described(places: Places) -> Any:
    """Return what the stored files say of the program, of operators and of the last driver."""
    submitted, wish, report = stored().submitted(), stored().wish(), stored().report()
    assert wish is not None and report is not None
    options = {name: submitted.options[name] for name in ("engine", "availableNow", "maxSpoutPending")}
    said = [report.condition, report.number, report.error]
    return [submitted.name, submitted.program, options, submitted.hints, [wish.number, wish.active, wish.hints], said]


def moved(former: Path | str, present: Path | str, folder: Path) -> None:
    """Let the submit have been made in another folder than it was: its file has absolute paths."""
    file = folder / "home" / "topologies" / NAME / "topology.json"
    file.write_text(file.read_text().replace(str(former), str(present)))
