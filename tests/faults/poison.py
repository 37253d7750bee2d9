"""The topology of the kills that meet poison: every seventh tuple fails in stage 1, every new value that is a multiple
of five in stage 2. Whatever the batches are, each of the first dies once, and what is counted are all the others."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.source import NumberedSpout, records
from trident import Count, DeadLetter, Max, Sum, TridentTopology
from trident_spouts.executor import SpoutKind

STATES = ("counts", "most", "deadLetters")


def seventh(seq: int) -> int:
    if seq % 7 == 0:
        raise ValueError(f"{seq} is one")
    return seq


def fifth(count: int) -> int:
    return count if count % 5 else count // 0


def topology(kind: str, total: int, state: Callable[[], Any]) -> TridentTopology:
    """Poison in the first stage, of which one attempt fails first, and in a later one."""
    made = TridentTopology()
    spout = NumberedSpout(total, SpoutKind.OPAQUE if kind == "opaque" else SpoutKind.TRANSACTIONAL)
    numbers = made.newStream("numbers", spout)
    good = numbers.each("seq", seventh, "same long", onError=DeadLetter(attempts=1)).groupBy("word")
    counts = good.persistentAggregate(state(), Count(), "count", name="counts")
    new = counts.newValuesStream().each("count", fifth, "other long", onError="deadLetter").groupBy("word")
    new.persistentAggregate(state(), "other", Max(), "most", name="most")
    made.deadLetterState(state())
    return made


def replayed(kind: str, total: int, state: Callable[[], Any], fixed: Path) -> TridentTopology:
    """Poison until the code is put right, which is when this file is there; what died comes back then."""

    def until_fixed(seq: int) -> int:
        return seq if fixed.exists() else seventh(seq)

    made = TridentTopology()
    spout = NumberedSpout(total, SpoutKind.OPAQUE if kind == "opaque" else SpoutKind.TRANSACTIONAL)
    numbers = made.newStream("numbers", spout).each("word", len, "size long").replayable()
    good = numbers.each("seq", until_fixed, "same long", onError=DeadLetter(attempts=0)).groupBy("word")
    good.persistentAggregate(state(), "same", Sum(), "sum", name="counts")
    made.deadLetterState(state())
    return made


def put_back(running: Any, fixed: Path) -> None:
    """Put the code right, and all that died back, as often as it takes."""
    fixed.touch()
    while running.replayDeadLetters("numbers", where=lambda letter: letter["error"] == "ValueError"):
        running.processAllAvailable(timeout=60)


def all_counted(total: int) -> dict[str, dict[str, int]]:
    """What the states hold when everything came back: the sum of seq by word, and no letter."""
    sums: Counter[str] = Counter()
    for part in records(total):
        for word, seq in part:
            sums[word] += seq
    return {"counts": dict(sums), "deadLetters": {}}


def results(found: dict[str, dict[Any, Any]]) -> dict[str, dict[str, int]]:
    """The counts; how often each tuple of stage 1 died; and how many letters differ from what they must be. Which new
    values there were hangs on the batches: of them the letters are those that were not let through."""
    died: Counter[str] = Counter()
    wrong = 0
    for key, letter in found["deadLetters"].items():
        given = json.loads(letter["tuple"])
        wrong += not key.startswith(f"{letter['txid']:012d}.")
        if "seq" in given:
            died[f"{given['word']} {given['seq']}"] += 1
            wrong += letter["message"] != f"{given['seq']} is one" or letter["attempt"] < 1
        else:
            wrong += given["count"] % 5 != 0 or letter["error"] != "ZeroDivisionError"
    wrong += sum(most % 5 == 0 or most > found["counts"][word] for word, most in found["most"].items())
    return {"counts": found["counts"], "died": dict(died), "wrong": {"letters": wrong}}


def expected(total: int) -> dict[str, dict[str, int]]:
    """What `results` tells at the end."""
    everything = [(word, seq) for part in records(total) for word, seq in part]
    counts = Counter(word for word, seq in everything if seq % 7)
    died = {f"{word} {seq}": 1 for word, seq in everything if seq % 7 == 0}
    return {"counts": dict(counts), "died": died, "wrong": {"letters": 0}}
