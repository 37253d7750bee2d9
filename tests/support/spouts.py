"""An opaque spout whose replays hold other tuples, as the test's script says."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata, SpoutExecutor, SpoutKind
from trident_spouts.rows import read_schema, table_of

Extent = Mapping[str, int] | int
"""How many rows an attempt takes of each partition; a partition that is not named is away. A number: of all."""


@dataclass(frozen=True)
class ReplayingSpout:
    """Rows in partitions, of which every attempt takes as many as the script says, from where the batch before ended.

    What an attempt leaves lying comes in a later batch, so over all committed batches every row comes exactly once:
    that is what a test compares with. `script` tells the extent of an attempt, by (txid, number of the attempt) or as
    a function of the attempt (a kill starts a new epoch); `otherwise` where it says nothing. The rows of the
    partitions come in the order in which the extent names them.

    >>> spout = ReplayingSpout("word string", {"p": ["a", "b", "c"]}, {(1, 0): 3, (1, 1): 1})
    >>> executor = spout.open()
    >>> plan = executor.plan(TransactionAttempt(1, 0), None, 0.0)
    >>> executor.emit(TransactionAttempt(1, 0), plan).arrow().column(0).to_pylist()
    ['a', 'b', 'c']
    >>> executor.emit(TransactionAttempt(1, 1), plan).arrow().column(0).to_pylist()
    ['a']
    """

    fields: str
    partitions: Mapping[str, Sequence[Any]]
    script: Mapping[tuple[int, int], Extent] | Callable[[TransactionAttempt], Extent] = field(default_factory=dict)
    otherwise: Extent = 2
    kind: SpoutKind = SpoutKind.OPAQUE

    @property
    def schema(self) -> StructType:
        return read_schema(self.fields)

    def open(self) -> SpoutExecutor:
        return _Executor(self)

    def extent(self, attempt: TransactionAttempt) -> Mapping[str, int]:
        """Return how many rows this attempt takes of each partition."""
        if callable(self.script):
            extent = self.script(attempt)
        else:
            extent = self.script.get((attempt.txid, attempt.attempt), self.otherwise)
        return dict.fromkeys(self.partitions, extent) if isinstance(extent, int) else extent


@dataclass(frozen=True)
class Varied:
    """A random script: each attempt of each epoch takes other numbers of rows of other partitions, in another order.

    The same seed gives the same extents.
    """

    seed: int
    partitions: tuple[str, ...]
    most: int = 4

    def __call__(self, attempt: TransactionAttempt) -> Extent:
        chance = random.Random(f"{self.seed}/{attempt.txid}/{attempt.attempt}/{attempt.epoch}")
        there = chance.sample(self.partitions, chance.randint(1, len(self.partitions)))
        return {partition: chance.randint(0, self.most) for partition in there}


class _Executor:
    plans_ahead = False

    def __init__(self, spout: ReplayingSpout) -> None:
        self._spout = spout
        self.succeeded: list[int] = []
        self.failed: list[TransactionAttempt] = []

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        positions = dict(previous) if isinstance(previous, dict) else {}
        left = any(positions.get(name, 0) < len(rows) for name, rows in self._spout.partitions.items())
        return positions if left else None

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        assert isinstance(metadata, dict)
        after = dict(metadata)
        taken: list[Any] = []
        for partition, count in self._spout.extent(attempt).items():
            start = after.get(partition, 0)
            rows = self._spout.partitions[partition][start : start + count]
            taken.extend(rows)
            after[partition] = start + len(rows)
        return ArrowEmission(table_of(taken, self._spout.schema, f"ReplayingSpout, batch {attempt}"), after)

    def success(self, txid: int, metadata: Metadata) -> None:
        self.succeeded.append(txid)

    def fail(self, attempt: TransactionAttempt) -> None:
        self.failed.append(attempt)

    def close(self) -> None:
        pass
