"""A type checker sees a user's program as it is: `mypy --strict` accepts a right one, and finds each planted error."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RIGHT = """
from collections.abc import Iterator
from typing import Any

import pandas as pd

from trident import (
    Average, Count, DeadLetter, Debug, FilterNull, FirstN, MapGet, SnapshotGet, Sum, TopK, TridentTopology,
    TumblingEventTimeWindow, expr, verb,
)
from trident.spouts import Csv, FileSpout, FixedBatchSpout, IterableSpout, Json, Manifest, Parquet, Watch
from trident.state import MemoryMapState, RedisMapState
from trident.testing import start_local


def split(line: str) -> Iterator[str]:
    yield from line.split()


class Longest:
    outputType = "string"

    def init(self, tuple: Any) -> str:
        return str(tuple.word)

    def combine(self, one: str, other: str) -> str:
        return max(one, other, key=len)

    def zero(self) -> str:
        return ""


class Last:
    outputType = "string"

    def init(self) -> None:
        return None

    def reduce(self, curr: str | None, tuple: Any) -> str:
        return str(tuple.word)


def size(word: pd.Series) -> pd.Series:
    return word.str.len()


def next_size(size: "pd.Series[int]") -> "pd.Series[int]":
    return size + 1


def described(df: pd.DataFrame) -> pd.DataFrame:
    return df.assign(loud=df["word"].str.upper())


def spread(size: "pd.Series[int]") -> float:
    return float(size.max() - size.min())


def last_seen(state: Any, tuples: list[Any], collector: Any) -> None:
    state.multiPut([t.word for t in tuples], [1 for _ in tuples])


@verb
def longer(stream: Any, length: int) -> Any:
    return stream.filter("word", lambda word: len(word) > length)


topology = TridentTopology()
lines = topology.newStream("lines", FixedBatchSpout("line string, at timestamp", []))
words = lines.each("line", split, "word string", onError=DeadLetter(attempts=1)).filter("word", FilterNull())
words.each(Debug()).peek(print).map("word", str.upper, outputFields="word").flatMap(lambda t: [t.word], "w string")
words.filter(expr("word > 'a'")).each(expr("upper(word)"), "big string").applyAssembly(FirstN(3, "big"))
words.groupBy("word").aggregate(Count(), "n").aggregate("n", Average(), "mean")
words.aggregate("word", Longest(), "longest").peek(print)
words.chainedAgg().aggregate(Count(), "n").aggregate("word", Last(), "last").chainEnd().peek(print)
hours = words.groupBy("word").window(TumblingEventTimeWindow("1 hour", "at"), Count(), "n", name="hours")
words.window(TumblingEventTimeWindow("1 hour", "at"), MemoryMapState.opaque(), ["word"], TopK(3), "top")
counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
words.partitionPersist(MemoryMapState.opaque(), ["word"], last_seen, keyFields="word", valueType="long", name="seen")
words.stateQuery(counts, "word", MapGet(), "n").split("word", split, streams={"a": "x string"}).a.peek(print)
longer(words, 3).peek(print)
sizes = words.each("word", size, "size long").map("size", next_size, "size long").flatMap(described, "loud string")
sizes.aggregate("size", spread, "spread").aggregate({"n": ("spread", spread), "m": Count()}).peek(print)
rows = topology.newStream("rows", FileSpout("in/*.csv", Csv(sep=";", header=True), "word string, n long"))
more = topology.newStream("more", FileSpout(Manifest("files.txt"), Json(malformed="keep"), "word string"))
facts = topology.newStream("facts", FileSpout("facts", Parquet("n long"), watch=Watch(completeAfterSecs="1 minute")))
running = topology.start(name="words", checkpointLocation="ckpt", availableNow=True, maxAttempts=3)
running.state("counts").get("cow")
running.stop()
"""
PLANTED = """
from trident import Count, TridentTopology
from trident.spouts import FileSpout, FixedBatchSpout, Json


def program() -> None:
    topology = TridentTopology()
    lines = topology.newStream("lines", FixedBatchSpout("line string", []))
    words = lines.group_by("line")  # 1
    n: int = "no"  # 2
    lines.map(1, 2, 3)  # 3
    topology.strat(name="x")  # 4
    running = topology.start(checkpointLoc="y")  # 5
    running.stat("x")  # 6
    lines.aggregate("line", Count, "n")  # 7
    Json(sep=";")  # 8
    FileSpout("in", "cvs", "n long")  # 9
    topology.start(maxAttempts="3")  # 10
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, str]]]:
    """Return the errors of ``mypy --strict`` over each of a user's programs by its name, each with its line."""
    folder = tmp_path_factory.mktemp("typed")
    paths = {name: folder / f"{name}.py" for name in ("right", "planted")}
    paths["right"].write_text(RIGHT, encoding="utf-8")
    paths["planted"].write_text(PLANTED, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", "--no-pretty"]
    # The project's settings and cache: where `make check` ran, the library and what it imports are known by now.
    ran = subprocess.run([*command, *map(str, paths.values())], capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert ran.returncode == 1, ran.stderr
    return {name: re.findall(rf"{name}\.py:(\d+): error: (.*)", ran.stdout) for name in paths}


def test_a_right_program_passes(errors: dict[str, list[tuple[str, str]]]) -> None:
    assert errors["right"] == []


def test_each_planted_error_is_found(errors: dict[str, list[tuple[str, str]]]) -> None:
    lines = PLANTED.splitlines()
    found = {lines[int(number) - 1].partition("# ")[2]: why for number, why in errors["planted"]}
    assert sorted(found, key=int) == [str(number) for number in range(1, 11)], found
    assert '"group_by"' in found["1"] and '"map"' in found["3"] and '"strat"' in found["4"] and '"stat"' in found["6"]
    assert "checkpointLoc" in found["5"] and '"sep"' in found["8"] and "maxAttempts" in found["10"]
