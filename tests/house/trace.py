"""Follow a query and a batch through the files: python -m tests.house.trace [drpc] [spark].

Follows a warm DRPC query of two words, and a batch on Spark, through the files of the library. Somebody who reads how a
query or a batch is worked off opens these files, in this order. Python workers are other processes and not followed.
"""

import argparse
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

from tests.house.sources import ROOT, SOURCE_ROOTS, imports_of, library
from tests.support.spark import small_spark
from trident import Count, FilterNull, MapGet, Sum, TridentTopology
from trident.base.java import ensure_java
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

FILES_MAX = 20
"""A warm query should cross no more files than this."""

_FOLDERS = tuple(f"{root / name}/" for name, root in SOURCE_ROOTS.items())


@dataclass(frozen=True, order=True)
class Call:
    """A call of a function of the library, and the file of the library that it came from ("" for none)."""

    file: str
    function: str
    caller: str


class Recorder:
    """Records the calls of the library's functions, by thread, in every thread that began after it did."""

    def __init__(self) -> None:
        self.calls: dict[str, list[Call]] = {}
        self._recording = False
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    @contextmanager
    def record(self) -> Iterator[None]:
        """Record the calls that are made while the block runs."""
        self.calls = {}
        self._recording = True
        try:
            yield
        finally:
            self._recording = False

    def close(self) -> None:
        """Record nothing any more."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self._recording or event != "call" or not (file := _file(frame)):
            return
        caller = frame.f_back
        while caller is not None and not _file(caller):
            caller = caller.f_back
        call = Call(file, frame.f_code.co_qualname, _file(caller) if caller is not None else "")
        self.calls.setdefault(threading.current_thread().name, []).append(call)


def _file(frame: FrameType) -> str:
    """Return the file of a frame where it is one of the library's, else ""."""
    path = frame.f_code.co_filename
    return path.removeprefix(f"{ROOT}/") if path.startswith(_FOLDERS) else ""


def split(line: str) -> Iterator[str]:
    """Yield the words of a line."""
    yield from line.split()


def word_count() -> tuple[TridentTopology, FeederBatchSpout]:
    """Return the main job, which counts words and answers queries for their sums, and the spout that feeds it."""
    topology, spout = TridentTopology(), FeederBatchSpout("line string")
    counts = (
        topology.newStream("sentences", spout)
        .each("line", split, "word string")
        .groupBy("word")
        .persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    )
    (
        topology.newDRPCStream("words")
        .each("args", split, "word string")
        .groupBy("word")
        .stateQuery(counts, "word", MapGet(), "count")
        .each("count", FilterNull())
        .aggregate("count", Sum(), "sum")
    )
    return topology, spout


def feed(spout: FeederBatchSpout, running: RunningTopology) -> None:
    """Have one batch counted."""
    spout.feed(["the cat sat on the mat"])
    running.processAllAvailable(timeout=60)


def drpc(recorder: Recorder, folder: Path) -> None:
    """Print the files that a warm query of two words crosses."""
    topology, spout = word_count()
    with start_local(topology, name="trace", checkpointLocation=folder) as running:
        feed(spout, running)
        running.drpc.execute("words", "the cat")
        with recorder.record():
            running.drpc.execute("words", "the cat")
    threads = {name: calls for name, calls in recorder.calls.items() if name in ("MainThread", "trident-drpc")}
    for thread, calls in threads.items():
        print_stays(thread, calls)
    together = [call for calls in threads.values() for call in calls]
    files = {call.file for call in together}
    changes = sum(len(stays(calls)) - 1 for calls in threads.values())
    print(f"\nA warm DRPC query of two words: {len(files)} files ({FILES_MAX} are wanted at most), ", end="")
    print(f"{changes} changes of file, {len(together)} calls")


def spark(recorder: Recorder, folder: Path) -> None:
    """Print the files that the engine crosses for a batch on Spark, and the calls from a room into a higher one."""
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    topology, spout = word_count()
    session = small_spark(folder / "spark")
    with topology.start(name="trace", spark=session, checkpointLocation=folder / "checkpoint") as running:
        feed(spout, running)
        with recorder.record():
            feed(spout, running)
    session.stop()
    run = next(calls for name, calls in recorder.calls.items() if name.endswith("-run"))
    engine = [call for call in run if call.file.startswith(("trident/compiler/", "trident/run/slots"))]
    print_stays("A batch in the Spark engine", engine)
    order = [file for file, _ in stays(engine)]
    print(f"\nThe engine: {len(order)} stays in {len(set(order))} files, {len(order) - len(set(order))} returns")
    print("\nRooms, in the order in which each thread enters them")
    for thread, calls in recorder.calls.items():
        print(f"  {thread:32} {' > '.join(dict.fromkeys(room(call.file) for call in calls))}")
    back = sorted(back_calls(recorder))
    print("\nA batch on Spark: calls back, from a file into one that imports it")
    for title, across in (("between rooms", True), ("within a room", False)):
        found = [call for call in back if (room(call.caller) != room(call.file)) is across]
        print(f"  {title}: {len(found)}")
        print(*(f"    {call.caller} -> {call.file}: {call.function}\n" for call in found), sep="", end="")


def back_calls(recorder: Recorder) -> set[Call]:
    """Return the calls into a file that imports the caller, at first or second hand: ways back into a higher room.

    A thread that begins what another one has handed to it goes no way back, so the calls of `user_calls` are left out.
    """
    modules = library()
    names = {path.relative_to(ROOT).as_posix(): name for name, path in modules.items()}
    graph = {name: set(imports_of(path.read_text(encoding="utf-8"), set(modules))) for name, path in modules.items()}

    @cache
    def below(name: str) -> frozenset[str]:
        return frozenset(graph[name]).union(*(below(other) for other in graph[name] if other != name))

    calls = {call for calls in recorder.calls.values() for call in calls}
    made = (call for call in calls if call.caller and room(call.caller) != "trident.user_calls")
    return {call for call in made if names[call.caller] in below(names[call.file])}


def stays(calls: Sequence[Call]) -> list[tuple[str, list[str]]]:
    """Return the files that calls enter one after the other, each with the functions that were called there."""
    return [(file, [call.function for call in stay]) for file, stay in groupby(calls, key=lambda call: call.file)]


def print_stays(title: str, calls: Sequence[Call]) -> None:
    """Print where calls go, a line for each stay in a file; a file that was left before is marked."""
    print(f"\n{title}")
    seen = set[str]()
    for file, functions in stays(calls):
        print(f"  {'<' if file in seen else ' '} {file:48} {', '.join(dict.fromkeys(functions))}")
        seen.add(file)


def room(file: str) -> str:
    """Return the room of a file, as the contract of pyproject.toml names it.

    >>> room("trident/log/protocol.py"), room("state/trident_state/memory/store.py"), room("trident/state.py")
    ('trident.log', 'trident_state', 'trident')
    """
    package, *rest = file.removeprefix("state/").removeprefix("spouts/").split("/")
    return f"{package}.{rest[0]}" if package == "trident" and len(rest) > 1 else package


def main() -> None:
    """Follow the ways that the command line names, or both."""
    ways = {"drpc": drpc, "spark": spark}
    parser = argparse.ArgumentParser(prog="python -m tests.house.trace", description="Follow a query and a batch.")
    parser.add_argument("ways", nargs="*", metavar="drpc | spark", help="which of them; both where none is named")
    asked = parser.parse_args().ways
    if unknown := set(asked) - set(ways):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    recorder = Recorder()
    try:
        for way in asked or ways:
            with tempfile.TemporaryDirectory(prefix="trident-trace-") as folder:
                ways[way](recorder, Path(folder))
    finally:
        recorder.close()


if __name__ == "__main__":
    main()
