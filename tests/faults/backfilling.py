"""The program that gets more states in the middle of its stream, which begin with the tuples that came before."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.evolving import homes
from tests.faults.source import PARTITIONS, NumberedSpout, records
from trident import Count, Sum, TridentTopology
from trident.state import KeyValueState
from trident_spouts.executor import SpoutKind

NEW = ("sums", "latest", "runs", "letters")
"""The states of the new program that the old one lacks."""
_OF_EVOLVING = ("counts", "bundle", "latest", "runs")


def states_of(case: str) -> tuple[str, ...]:
    """Return the states of the old program, or of the new one."""
    return ("counts", *NEW) if case.startswith("new") else ("counts",)


def ran(state: KeyValueState, word: str, seq: int) -> None:
    state.put(word, state.get(word, 0) + seq)


def topology(case: str, kind: str, total: int, redis: str | None, where: Path) -> TridentTopology:
    """`case`: "old" or "new", the number of `homes`, and how many records there are so far."""
    made = TridentTopology()
    program, shift, most = case.split(":")
    of_spout = SpoutKind.OPAQUE if kind == "opaque" else SpoutKind.TRANSACTIONAL
    stream = made.newStream("n", NumberedSpout(total, of_spout, 12, int(most)))
    of = homes(f"{program}:{shift}", redis, where)
    places = dict(zip(("sums", "latest", "runs", "counts"), (of[name] for name in _OF_EVOLVING), strict=True))
    words = stream.groupBy("word")
    words.persistentAggregate(places["counts"], Count(), "count", name="counts")
    stream.groupBy("word").aggregate(Count(), "n").foreachArrow(_note(where), name="out")
    if case.startswith("old"):
        return made
    sums = words.persistentAggregate(places["sums"], "seq", Sum(), "sum", name="sums", backfill=True)
    stream.toTable("word", places["latest"], name="latest", backfill=True)
    stream.statefulEach(
        ["word", "seq"],
        lambda tuple, state: ran(state, tuple.word, int(tuple.seq)),
        keyFields="word",
        valueType="long",
        stateFactory=places["runs"],
        name="runs",
        backfill=True,
    )
    changed = sums.changes().each("word", lambda word: word[0], "letter string").groupBy("letter")
    changed.persistentAggregate(places["sums"], "sum", Sum(), "sum", name="letters", backfill=True)
    return made


def _note(where: Path) -> Callable[[Any, int, int], None]:
    """Return an output that keeps each batch once, by its txid."""

    def out(table: Any, txid: int, attempt: int) -> None:
        path = where / "out"
        path.mkdir(exist_ok=True)
        rows = dict(zip(table.column("word").to_pylist(), table.column("n").to_pylist(), strict=True))
        (path / f"{txid}.json").write_text(json.dumps(rows))

    return out


def seen(where: Path) -> dict[str, dict[str, int]]:
    """Return how often each word came out, over all batches."""
    total: Counter[str] = Counter()
    for path in (where / "out").glob("*.json"):
        total.update(json.loads(path.read_text()))
    return {"out": dict(total)}


def expected(case: str, total: int) -> dict[str, dict[str, Any]]:
    """Return the contents of the states, and of the output. That of "latest" is left out."""
    counts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    letters: Counter[str] = Counter()
    most = int(case.rpartition(":")[2])
    for word, seq in (record for part in records(total) for record in part[: most // PARTITIONS]):
        counts[word] += 1
        sums[word] += seq
        letters[word[0]] += seq
    found = {"counts": dict(counts), "out": dict(counts)}
    of_new = {"sums": dict(sums), "runs": dict(sums), "letters": dict(letters)}
    return found if case.startswith("old") else {**found, **of_new}
