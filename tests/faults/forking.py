"""The program of which a savepoint is taken and forked, and the steps of the tests that kill it.

Its source gives another number of rows at each call, so replays differ; its states are in five kinds of stores.
"""

import functools
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.state.backing.maps import SqliteMap
from trident import Count, Evolution, Max, Sum, TridentTopology, forkTopology, restoreTopology
from trident.base.errors import SavepointError
from trident.run.running import RunningTopology
from trident.spouts import PollingSpout
from trident.state import BackingMapState, KeyValueState, MemoryMapState, RedisMapState, SqliteMapState
from trident.testing.local import start_local

FIRST, TRIAL, SAVEPOINT = "first", "trial", "mid"
TOTAL, MORE = 60, 90
"""The records that the first topology reads, and those that the fork reads."""


def word_of(seq: int) -> str:
    return f"w{seq % 7}"


def fetch(total: int, position: int | None, limit: int) -> tuple[list[tuple[str, int]], int]:
    first = position or 0
    rows = range(first, min(total, first + random.randint(1, limit)))
    return [(word_of(seq), seq) for seq in rows], first + len(rows)


def ended(state: KeyValueState, word: str, seq: int) -> None:
    state.put(word, state.get(word, 0) + seq)


def topology(total: int, redis: str, where: Path, changed: bool = False) -> TridentTopology:
    """`changed`: the program of the fork, in which one state has another shape."""
    made = TridentTopology()
    spout = PollingSpout("word string, seq long", {"words": functools.partial(fetch, total)}, maxRows=7)
    stream = made.newStream("words", spout)
    words = stream.groupBy("word")
    several: Any = {"n": Count(), "sum": Sum("seq")}
    counts = words.persistentAggregate(
        MemoryMapState.opaque(),
        several if changed else Count(),
        *(() if changed else ("n",)),
        name="counts",
        evolve=Evolution("long", lambda n: (n, 1000 * n), by="Count") if changed else None,
    )
    words.persistentAggregate(RedisMapState.opaque(redis, buckets=8, groups=2), "seq", Sum(), "sum", name="sums")
    stream.toTable("word", SqliteMapState.opaque(str(where / "states.db")), valueFields="seq", name="latest")
    stream.statefulEach(
        ["word", "seq"],
        lambda tuple, state: ended(state, tuple.word, int(tuple.seq)),
        keyFields="word",
        valueType="long",
        stateFactory=BackingMapState.opaque(lambda identity: SqliteMap(str(where / "own.db"), identity)),
        name="runs",
    )
    letters = counts.newValuesStream().each("word", lambda word: word[-1], "letter string").groupBy("letter")
    letters.persistentAggregate(MemoryMapState.transactional(), "n", Max(), "most", name="letters")
    return made


def start(name: str, total: int, redis: str, where: Path, log: Any = None, changed: bool = False) -> RunningTopology:
    options = {} if log is None else {"log": log}
    return start_local(
        topology(total, redis, where, changed), name=name, checkpointLocation=where, maxAttempts=10**6, **options
    )


def found(running: RunningTopology) -> dict[str, dict[str, Any]]:
    running.processAllAvailable(timeout=300)
    read = {name: dict(running.state(name).items()) for name in ("counts", "sums", "latest", "runs", "letters")}
    return {
        name: {key: list(value) if isinstance(value, tuple) else value for key, value in held.items()}
        for name, held in read.items()
    }


def expected(total: int) -> dict[str, dict[str, Any]]:
    """Return the states after `total` records of the first program."""
    seqs: dict[str, list[int]] = {}
    for seq in range(total):
        seqs.setdefault(word_of(seq), []).append(seq)
    counts = {word: len(of) for word, of in seqs.items()}
    sums, latest = {word: sum(of) for word, of in seqs.items()}, {word: [of[-1]] for word, of in seqs.items()}
    letters = {word[-1]: len(of) for word, of in seqs.items()}
    return {"counts": counts, "sums": sums, "latest": latest, "runs": sums, "letters": letters}


def check_counts(total: int, counts: dict[str, Any]) -> None:
    """Check the counts and sums of the fork, whose values before the savepoint became 1000 for each record.

    The first batches may have no record of some words yet.
    """
    before = 0
    for word, (n, given) in counts.items():
        seqs = [seq for seq in range(total) if word_of(seq) == word]
        assert n == len(seqs)
        before += {1000 * old + sum(seqs[old:]): old for old in range(n)}[given]
    assert before


def run(step: str, redis: str, where: Path, log: Any = None) -> dict[str, dict[str, Any]]:
    """Carry out a step: "save", "fork", "trial", "first", "more", "restore"."""
    return _STEPS[step](redis, where, log)


def _save(redis: str, where: Path, log: Any) -> dict[str, dict[str, Any]]:
    with start(FIRST, TOTAL, redis, where, log) as running:
        while sum(running.asOfTxid.values()) < 2:  # with batches committed, and others in flight
            time.sleep(0.01)
        try:
            running.savepoint(SAVEPOINT)
        except SavepointError as error:  # an earlier driver completed it
            assert "there is a savepoint" in str(error)
        return found(running)


def _fork(redis: str, where: Path, log: Any) -> dict[str, dict[str, Any]]:
    try:
        forkTopology(FIRST, SAVEPOINT, TRIAL, where, toCheckpointLocation=where, toLog=log)
    except SavepointError as error:
        assert "is complete" in str(error)
    return {}


def _trial(redis: str, where: Path, log: Any) -> dict[str, dict[str, Any]]:
    with start(TRIAL, MORE, redis, where, log, changed=True) as running:
        return found(running)


def _first(redis: str, where: Path, log: Any) -> dict[str, dict[str, Any]]:
    with start(FIRST, TOTAL, redis, where, log) as running:
        return found(running)


def _more(redis: str, where: Path, log: Any) -> dict[str, dict[str, Any]]:
    with start(FIRST, MORE, redis, where, log) as running:
        return found(running)


def _restore(redis: str, where: Path, log: Any) -> dict[str, dict[str, Any]]:
    restoreTopology(FIRST, SAVEPOINT, where, log=log, force=True)
    return {}


_STEPS: dict[str, Callable[[str, Path, Any], dict[str, dict[str, Any]]]] = {
    "save": _save,
    "fork": _fork,
    "trial": _trial,
    "first": _first,
    "more": _more,
    "restore": _restore,
}
