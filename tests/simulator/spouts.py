"""Sources whose every tuple has a number: a transactional one, and opaque ones whose replays hold other tuples."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from tests.simulator.scheduler import Scheduler
from trident.base.attempt import TransactionAttempt
from trident.base.errors import SpoutError
from trident.base.types import parse_schema
from trident_spouts.budget import NO_LIMIT, Budget
from trident_spouts.executor import Metadata, SpoutKind

Tuple = tuple[str, int]
"""Key and number."""

SCHEMA = parse_schema("word string, seq long")


class Source:
    """What there is to read, in partitions. `opaque`: replays differ. `ahead`: the plan names the tuples; else only
    emission tells. `broken`: how often it fails yet."""

    def __init__(self, partitions: dict[str, list[Tuple]], opaque: bool, ahead: bool, scheduler: Scheduler) -> None:
        self.partitions, self.opaque, self.ahead, self.scheduler = partitions, opaque, ahead, scheduler
        self.broken = 0
        self.shown = {name: len(rows) for name, rows in partitions.items()}
        """How many tuples of each partition are there by now."""

    def tuples(self) -> list[Tuple]:
        return [row for rows in self.partitions.values() for row in rows]

    def show_all(self) -> None:
        self.shown = {name: len(rows) for name, rows in self.partitions.items()}

    def read_up(self, metadata: Metadata) -> bool:
        """Whether everything that there will ever be lies before this position."""
        positions = _positions(metadata)
        return all(positions.get(name, 0) >= len(rows) for name, rows in self.partitions.items())

    def idle(self, positions: dict[str, int]) -> bool:
        return all(positions.get(name, 0) >= shown for name, shown in self.shown.items())

    def drawn(self, positions: dict[str, int], least: int) -> dict[str, list[int]]:
        """From where to where an attempt reads in each partition; some partitions may be away."""
        ranges: dict[str, list[int]] = {}
        chance = self.scheduler.random
        for name, shown in self.shown.items():
            start = positions.get(name, 0)
            if start < shown and (not self.opaque or chance.random() < 0.8):
                ranges[name] = [start, min(shown, start + chance.randint(least, 4))]
        return ranges

    def stumble(self) -> None:
        if self.broken:
            self.broken -= 1
            raise SpoutError("the source does not answer")


@dataclass(frozen=True)
class Numbers:
    """A spout of the world that is simulated just now."""

    name: str
    worlds: Any

    @property
    def kind(self) -> SpoutKind:
        source = self.worlds.now.setting.sources.get(self.name) if self.worlds.now is not None else None
        return SpoutKind.TRANSACTIONAL if source is not None and not source.opaque else SpoutKind.OPAQUE

    @property
    def schema(self) -> StructType:
        return SCHEMA

    def open(self) -> "Reading":
        world = self.worlds.now
        return Reading(world.setting.sources[self.name], world.heard_success)


class Batch:
    """An emission: the tuples, and where the source stands after them if the plan does not tell."""

    def __init__(self, tuples: list[Tuple], after: Metadata) -> None:
        self.tuples, self.after = tuples, after
        self.rows = len(tuples)

    def arrow(self) -> pa.Table:
        return pa.table({"word": [word for word, _ in self.tuples], "seq": [seq for _, seq in self.tuples]})


class Reading:
    """A spout at work. A plan of one that plans ahead holds the ranges and where they end; else where to begin."""

    def __init__(self, source: Source, heard: Any) -> None:
        self._source, self._heard = source, heard

    @property
    def plans_ahead(self) -> bool:
        return self._source.ahead

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        source = self._source
        source.stumble()
        positions = _positions(previous)
        if source.idle(positions):
            return None
        if not source.ahead:
            return {"at": positions}
        ranges = source.drawn(positions, 1)
        return {"ranges": ranges, "at": {**positions, **{name: end for name, (_, end) in ranges.items()}}}

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Batch:
        assert isinstance(metadata, dict)
        source = self._source
        source.stumble()
        positions = _positions(metadata)
        ranges = metadata["ranges"] if source.ahead else source.drawn(positions, 0)
        rows = [row for name, (start, end) in ranges.items() for row in source.partitions[name][start:end]]
        if source.ahead:
            return Batch(rows, None)
        return Batch(rows, {"at": {**positions, **{name: end for name, (_, end) in ranges.items()}}})

    def success(self, txid: int, metadata: Metadata) -> None:
        self._heard(txid)

    def fail(self, attempt: TransactionAttempt) -> None:
        pass

    def close(self) -> None:
        pass


def _positions(metadata: Metadata) -> dict[str, int]:
    return dict(metadata["at"]) if isinstance(metadata, dict) else {}
