"""A source of numbered records whose replays differ, and the exact answer to what is counted over it."""

import os
import random
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.spark_types import arrow_schema, parse_schema
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Metadata, SpoutKind
from trident_spouts.rereadable_sources import End

PARTITIONS = 2
WORDS = [f"{letter}{number}" for letter in "abcdef" for number in range(7)]


def records(total: int) -> list[list[tuple[str, int]]]:
    """(word, seq) by partition; seq is unique over all of them."""
    words = random.Random(3)
    return [
        [(words.choice(WORDS), partition * 1_000_000 + seq) for seq in range(total // PARTITIONS)]
        for partition in range(PARTITIONS)
    ]


def expected(total: int) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Count by word, sum of seq by word (a checksum that +1-1 cannot cheat), greatest count by first letter."""
    counts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for part in records(total):
        for word, seq in part:
            counts[word] += 1
            sums[word] += seq
    letters = {letter: max(n for word, n in counts.items() if word[0] == letter) for letter in {w[0] for w in counts}}
    return dict(counts), dict(sums), letters


@dataclass(frozen=True)
class NumberedSpout:
    """Emits every record once. An opaque one gives every attempt another extent, and sometimes only one partition."""

    total: int
    kind: SpoutKind
    batch: int = 6
    most: int | None = None
    """The number of records after which the source seems to end."""

    @property
    def schema(self) -> StructType:
        return parse_schema("word string, seq long")

    def open(self) -> "NumberedExecutor":
        return NumberedExecutor(self)

    def why_not_again(self) -> str | None:
        return None

    def open_again(self, end: End) -> "NumberedExecutor":
        return NumberedExecutor(self, end)

    def amount_before(self, end: Metadata) -> str | None:
        assert isinstance(end, dict)
        return f"{sum(end['ends'])} records"


class NumberedExecutor:
    plans_ahead = True

    def __init__(self, spout: NumberedSpout, end: End | None = None) -> None:
        self.spout = spout
        self.end = end
        self.records = records(spout.total)
        self.random = random.Random(os.urandom(8) if spout.kind is SpoutKind.OPAQUE else 5)

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        starts = previous["ends"] if isinstance(previous, dict) else [0] * PARTITIONS
        most = self.spout.total if self.spout.most is None else self.spout.most
        until = [min(len(part), most // PARTITIONS) for part in self.records]
        if self.end is not None:
            end = self.end()
            until = end["ends"] if isinstance(end, dict) else [0] * PARTITIONS
        left = [last - start for last, start in zip(until, starts, strict=True)]
        if not any(left):
            return None
        takes = [min(rest, self.random.randint(0, self.spout.batch)) for rest in left]
        if not any(takes):  # one tuple at least, so that the source moves on
            fullest = left.index(max(left))
            takes[fullest] = 1
        ends = [start + take for start, take in zip(starts, takes, strict=True)]
        return {"starts": starts, "ends": ends}

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> ArrowEmission:
        assert isinstance(metadata, dict)
        ranges = zip(self.records, metadata["starts"], metadata["ends"], strict=True)
        rows = [row for part, start, end in ranges for row in part[start:end]]
        if self.spout.kind is SpoutKind.OPAQUE:
            self.random.shuffle(rows)
        columns = [[word for word, _ in rows], [seq for _, seq in rows]]
        return ArrowEmission(pa.table(columns, schema=arrow_schema(self.spout.schema)))

    def success(self, txid: int, metadata: Metadata) -> None: ...

    def fail(self, attempt: TransactionAttempt) -> None: ...

    def close(self) -> None: ...
