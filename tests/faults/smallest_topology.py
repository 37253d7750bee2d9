"""A topology as small as can be that meets every I/O step of a batch, and the exact multiset that it must keep."""

import random
import zlib
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from trident import Max, Sum, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.base.spark_types import arrow_schema, parse_schema
from trident.state import MemoryMapState, RedisMapState
from trident.testing.local import start_local
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Metadata, SpoutKind

NAME = "small"
TOTAL = 12
PARTITIONS = 2
WORDS = ("ant", "ape", "bee", "bug", "cat")
MOST = 5
"""Tuples of a partition in one batch, at most."""

STATES = {"one": ("sums",), "two": ("sums", "seqs"), "staged": ("sums", "letters")}
"""The states of each shape; of `staged` the second is fed by the first one's new values, in the commit."""


@dataclass(frozen=True)
class Small:
    """One driver: what it runs, and where its states and its log are."""

    kind: str
    shape: str
    home: str
    checkpoint: str
    url: str | None = None


def mark(seq: int) -> int:
    """One record in a sum: its count above, a checksum of which record it was below."""
    return (1 << 40) + zlib.crc32(b"%d" % seq)


def records(partition: int) -> list[tuple[str, int]]:
    """(word, seq) of a partition; every seq is there once over all partitions."""
    return [(WORDS[(3 * n + partition * n * n) % len(WORDS)], 1000 * partition + n) for n in range(TOTAL // PARTITIONS)]


def expected(shape: str) -> dict[str, dict[str, Any]]:
    """What the states hold when every record came exactly once: the multiset itself, and count and checksum."""
    seqs: dict[str, list[int]] = defaultdict(list)
    for partition in range(PARTITIONS):
        for word, seq in records(partition):
            seqs[word].append(seq)
    sums = {word: sum(map(mark, found)) for word, found in seqs.items()}
    letters = {letter: max(n for word, n in sums.items() if word[0] == letter) for letter in {w[0] for w in sums}}
    every: dict[str, dict[str, Any]] = {
        "sums": sums,
        "seqs": {w: sorted(found) for w, found in seqs.items()},
        "letters": letters,
    }
    return {name: every[name] for name in STATES[shape]}


class Multiset:
    """All values that came, sorted: nothing can cancel out."""

    outputType = "array<long>"

    def init(self, tuple: Any) -> list[int]:
        return [tuple[0]]

    def combine(self, a: list[int], b: list[int]) -> list[int]:
        return sorted([*a, *b])

    def zero(self) -> list[int]:
        return []


@dataclass(frozen=True)
class SmallSpout:
    """Emits every record once. Each plan of an opaque one takes another extent: by chance, but the same chance in
    every run that plans in the same order."""

    kind: SpoutKind

    @property
    def schema(self) -> StructType:
        return parse_schema("word string, seq long")

    def open(self) -> "SmallExecutor":
        return SmallExecutor(self)


class SmallExecutor:
    plans_ahead = True

    def __init__(self, spout: SmallSpout) -> None:
        self._opaque = spout.kind is SpoutKind.OPAQUE
        self._schema = arrow_schema(spout.schema)
        self._calls = 0

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        starts = previous["ends"] if isinstance(previous, dict) else [0] * PARTITIONS
        left = [TOTAL // PARTITIONS - start for start in starts]
        if not any(left):
            return None
        self._calls += 1
        chance = random.Random(f"{attempt.txid}/{self._calls}")
        takes = [min(rest, chance.randint(0, MOST) if self._opaque else 2) for rest in left]
        if not any(takes):
            takes[left.index(max(left))] = 1
        return {"starts": starts, "ends": [start + take for start, take in zip(starts, takes, strict=True)]}

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> ArrowEmission:
        assert isinstance(metadata, dict)
        extents = zip(range(PARTITIONS), metadata["starts"], metadata["ends"], strict=True)
        rows = [row for partition, start, end in extents for row in records(partition)[start:end]]
        return ArrowEmission(pa.table([[word for word, _ in rows], [seq for _, seq in rows]], schema=self._schema))

    def success(self, txid: int, metadata: Metadata) -> None: ...

    def fail(self, attempt: TransactionAttempt) -> None: ...

    def close(self) -> None: ...


def topology(small: Small, given: Any = None) -> TridentTopology:
    """`given`: where its states are, else where `small` says."""

    def state() -> Any:
        if given is not None:
            return given
        if small.home == "redis":
            return getattr(RedisMapState, small.kind)(small.url, buckets=4)
        return getattr(MemoryMapState, small.kind)()

    topology = TridentTopology()
    spout = SmallSpout(SpoutKind.OPAQUE if small.kind == "opaque" else SpoutKind.TRANSACTIONAL)
    words = topology.newStream("numbers", spout).each("seq", mark, "mark long").groupBy("word")
    sums = words.persistentAggregate(state(), "mark", Sum(), "sum", name="sums")
    if small.shape == "two":
        words.persistentAggregate(state(), "seq", Multiset(), "seqs", name="seqs")
    if small.shape == "staged":
        letters = sums.newValuesStream().each("word", lambda word: word[0], "letter string").groupBy("letter")
        letters.persistentAggregate(state(), "sum", Max(), "most", name="letters")
    return topology


def run(small: Small) -> dict[str, dict[str, Any]]:
    """Start, process everything, and tell what the states hold. After every batch a snapshot and a trimmed log."""
    options = {"name": NAME, "checkpointLocation": small.checkpoint, "rewindBytes": 1, "maxAttempts": 5}
    with start_local(topology(small), **options) as running:
        running.processAllAvailable(timeout=30)
        return {name: dict(running.state(name).items()) for name in STATES[small.shape]}
