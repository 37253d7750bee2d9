"""The program whose states get other shapes: the former one, the present one, and what each of their states holds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trident import Count, Evolution, Max, Sum, TridentTopology
from trident.spouts import PollingSpout
from trident.state import BackingMapState, KeyValueState, MemoryMapState, SqliteMapState

STATES = ("counts", "bundle", "latest", "runs")
OLD, NEW = 24, 48
"""The records that the former program reads, and those that both read together."""


def word_of(seq: int) -> str:
    """The present program meets fewer words, so that some values are those that were migrated."""
    return f"w{seq % 7}" if seq < OLD else f"w{seq % 5}"


def records(position: int | None, limit: int) -> tuple[list[tuple[str, int]], int]:
    first = position or 0
    return [(word_of(seq), seq) for seq in range(first, first + limit)], first + limit


def homes(case: str, redis: str | None, where: Path) -> dict[str, Any]:
    """Each state in another kind of store; `case` ends with the number by which they are shifted."""
    from tests.state.backing.maps import SqliteMap
    from trident.state import RedisMapState

    made: list[Callable[[], Any]] = [
        MemoryMapState.opaque,
        lambda: SqliteMapState.opaque(str(where / "states.db")),
        lambda: BackingMapState.opaque(lambda identity: SqliteMap(str(where / "own.db"), identity)),
        lambda: RedisMapState.opaque(redis, buckets=16, groups=2) if redis else MemoryMapState.transactional(),
    ]
    shift = int(case.partition(":")[2] or 0)
    return {name: made[(at + shift) % len(made)]() for at, name in enumerate(STATES)}


def ended(state: KeyValueState, word: str, seq: int) -> None:
    state.put(word, state.get(word, 0) + seq)


def topology(case: str, redis: str | None, where: Path) -> TridentTopology:
    """`case`: "old" or "new", and the number of `homes`."""
    new, states = case.startswith("new"), homes(case, redis, where)
    made = TridentTopology()
    total = NEW if new else OLD
    spout = PollingSpout(
        "word string, seq long",
        {"words": lambda position, limit: records(position, max(0, min(limit, total - (position or 0))))},
        maxRows=6,
    )
    stream = made.newStream("words", spout).each("seq", lambda seq: -seq, "minus long")
    words = stream.groupBy("word")
    counts: Any = {"n": Count(), "sum": Sum("seq")} if new else Count()
    several: Any = {"n": Count(), "most": Max("seq")} if new else {"n": Count()}
    words.persistentAggregate(
        states["counts"],
        counts,
        *(() if new else ("n",)),
        name="counts",
        evolve=Evolution("long", lambda n: (n, 1000 * n), by="Count") if new else None,
    )
    words.persistentAggregate(states["bundle"], several, name="bundle", evolve=Evolution("n long") if new else None)
    stream.toTable(
        "word",
        states["latest"],
        valueFields=["seq", "minus"] if new else "seq",
        name="latest",
        evolve=Evolution("seq long", add={"minus": lambda old: 7 * old.seq}) if new else None,
    )
    stream.statefulEach(
        ["word", "seq"],
        lambda tuple, state: ended(state, tuple.word, int(tuple.seq)),
        keyFields="word",
        valueType="long" if new else "int",
        stateFactory=states["runs"],
        name="runs",
        evolve=Evolution("int") if new else None,
    )
    return made


def results(found: dict[str, dict[Any, Any]]) -> dict[str, dict[str, Any]]:
    """The contents of the states, as JSON."""
    return {
        name: {key: list(value) if isinstance(value, tuple) else value for key, value in held.items()}
        for name, held in found.items()
    }


def expected(new: bool) -> dict[str, dict[str, Any]]:
    """Return the contents of the states at the end of a program."""
    seqs: dict[str, list[int]] = {}
    for seq in range(NEW if new else OLD):
        seqs.setdefault(word_of(seq), []).append(seq)
    runs = {word: sum(of) for word, of in seqs.items()}
    if not new:
        counts = {word: len(of) for word, of in seqs.items()}
        return {
            "counts": counts,
            "bundle": {word: [n] for word, n in counts.items()},
            "latest": {word: [of[-1]] for word, of in seqs.items()},
            "runs": runs,
        }
    late = {word: [seq for seq in of if seq >= OLD] for word, of in seqs.items()}
    return {
        "counts": {w: [len(of), 1000 * (len(of) - len(late[w])) + sum(late[w])] for w, of in seqs.items()},
        "bundle": {w: [len(of), late[w][-1] if late[w] else None] for w, of in seqs.items()},
        "latest": {w: [of[-1], -of[-1] if late[w] else 7 * of[-1]] for w, of in seqs.items()},
        "runs": runs,
    }
