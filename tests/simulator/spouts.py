"""Sources and spouts: partitions with gaps, which grow, forget and fall back to older copies, read by the library's own
adapters, or by a spout that plans ahead though its replays differ; and what spouts of users do: raise, and not come
back."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from pyspark.sql.types import StructType

from tests.simulator.in_world import KEYS, Worlds
from tests.simulator.scheduler import Scheduler
from trident.base.errors import DataLossError
from trident.base.spark_types import parse_schema
from trident.spouts import OpaquePartitionedSpout, PartitionedSpout, PollingSpout
from trident_spouts import user_calls
from trident_spouts.adapters.adapter_choice import as_spout
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Metadata, SpoutExecutor, SpoutKind
from trident_spouts.rereadable_sources import End

COMPARES = True
"""Whether a position is compared with the source that it is read from."""
SCHEMA = parse_schema("word string, seq long")
Row = tuple[str, int]
"""Key and number."""


class SourceError(RuntimeError):
    """What a user's spout raises."""


class Source:
    """What there is to read. An entry that is None is a gap: a page over it has no rows, and the position moves.

    `kind`: what spout reads it. `shown`: how many entries of a partition there are by now. `kept`: the first one that
    is still there.
    """

    def __init__(self, name: str, kind: str, partitions: dict[str, list[Row | None]], chance: Random) -> None:
        self.name, self.kind, self.partitions, self.chance = name, kind, partitions, chance
        self.shown = {partition: len(entries) for partition, entries in partitions.items()}
        self.kept = dict.fromkeys(partitions, 0)
        self.trouble: list[str | float] = []
        """What the next calls meet: "raises", or seconds for which they hang."""
        self.away = 0.0
        self.slow = 0.0
        """Seconds that the read of a page takes."""
        self.cuts: dict[str, list[int]] = {partition: [] for partition in partitions}
        """Of each time that a partition fell back: up to where its copy went. A life ends with each."""
        self.accepted = dict.fromkeys(partitions, 0)
        """How many of these losses the user has accepted, as by ``onDataLoss="warn"``."""

    def there(self) -> set[int]:
        """The numbers that can still be read."""
        kept = ((entries, self.kept[name]) for name, entries in self.partitions.items())
        return {row[1] for entries, first in kept for row in entries[first:] if row is not None}

    def show_all(self) -> None:
        self.shown = {name: len(entries) for name, entries in self.partitions.items()}

    def forget(self) -> None:
        """The first entries are gone."""
        for name in self.partitions:
            self.kept[name] = self.chance.randint(self.kept[name], self.shown[name])

    def fall_back(self, chance: Random, numbers: Iterator[int]) -> None:
        """Replace a partition by an older copy that has received other entries since: shorter, as long or longer."""
        partition = chance.choice(list(self.partitions))
        entries, shown = self.partitions[partition], self.shown[partition]
        cut = chance.randint(self.kept[partition], shown)
        fresh: list[Row | None] = [
            (chance.choice(KEYS), next(numbers)) for _ in range(chance.randint(1, shown - cut + 4))
        ]
        self.partitions[partition] = entries[:cut] + fresh
        self.shown[partition] = chance.randint(cut, cut + len(fresh))
        self.cuts[partition].append(cut)

    def accept_losses(self) -> None:
        """The user takes the way out that the error names: reading goes on behind what the copy has in common."""
        self.accepted = {partition: len(cuts) for partition, cuts in self.cuts.items()}

    @property
    def unaccepted(self) -> bool:
        """Whether a partition fell back, and the user has not accepted it."""
        return any(len(cuts) > self.accepted[partition] for partition, cuts in self.cuts.items())

    def life(self, partition: str) -> int:
        return len(self.cuts[partition])

    def place(self, partition: str, position: Any) -> int:
        """Where to read on behind a position, which knows the life it was taken in. Raises DataLossError if rows that
        were read are not there any more, unless that was accepted."""
        end, life = position or (0, self.life(partition))
        for number, cut in enumerate(self.cuts[partition][life:], life):
            if end > cut and COMPARES:
                if number >= self.accepted[partition]:
                    raise DataLossError(
                        f"{self.name}: {partition} is an older copy: {cut} of {end} entries are the same"
                    )
                end = cut
        return int(end)

    def listed(self) -> list[str]:
        """The partitions that are there just now."""
        return [partition for partition in self.partitions if self.chance.random() >= self.away]

    def page(self, partition: str, position: Any) -> tuple[list[Row], list[int] | None]:
        """The rows after a position, and their page: its start, its end and its life; None where there is nothing."""
        if self.slow:
            Worlds.now.scheduler.sleep(self.slow)
        start = max(self.place(partition, position), self.kept[partition])
        shown = self.shown[partition]
        if start >= shown:
            return [], None
        end = min(shown, start + self.chance.randint(1, 4))
        rows = [row for row in self.partitions[partition][start:end] if row is not None]
        return rows, [start, end, self.life(partition)]

    def again(self, partition: str, page: list[int]) -> list[Row]:
        """The rows of a page that was named before. Raises if they are gone, or others by now."""
        start, end, life = page
        if any(end > cut for cut in self.cuts[partition][life:]) and COMPARES:
            raise DataLossError(
                f"{self.name}: {partition} is an older copy: the entries from {start} to {end} are others"
            )
        if start < self.kept[partition]:
            raise SourceError(f"{self.name}: {partition} begins at {self.kept[partition]}, {start} is gone")
        return [row for row in self.partitions[partition][start:end] if row is not None]

    def called(self, what: str) -> None:
        """A call of the user's spout: a point of input, at which it may raise or hang."""
        world = Worlds.now
        world.scheduler.point("spout", self.name, what, still=what == "open")
        if what != "open" and self.trouble:
            trouble = self.trouble.pop()
            if trouble == "raises":
                raise SourceError(f"{self.name}: {what} raised")
            world.scheduler.sleep(trouble)


class _Paged:
    """What the spouts share. Which source it is, the world says: one spout serves all schedules."""

    def __init__(self, source: str, wide: bool) -> None:
        self.outputFields = "word string, seq long, more long" if wide else "word string, seq long"
        self._name, self._wide = source, wide

    @property
    def _source(self) -> Source:
        source: Source = Worlds.now.sources[self._name]
        return source

    def open(self) -> None:
        self._source.called("open")

    def isReady(self, txid: int) -> bool:
        self._source.called("plan")
        return True

    def close(self) -> None: ...

    def getPartitions(self) -> Sequence[str]:
        return self._source.listed()

    def _rows(self, rows: list[Row]) -> list[Any]:
        return [(*row, 0) for row in rows] if self._wide else rows


class Opaque(_Paged, OpaquePartitionedSpout):
    """Reads what there is, other pages at every attempt."""

    def emitPartitionBatch(self, attempt: Any, partition: str, lastMetadata: Any) -> tuple[Any, Any]:
        source = self._source
        if attempt.attempt:
            source.called("emit")
        if source.chance.random() < source.away:
            return None, None
        rows, page = source.page(partition, lastMetadata)
        return (None, None) if page is None else (self._rows(rows), page[1:])


class Transactional(_Paged, PartitionedSpout):
    """Names its pages, and reads them again."""

    def emitPartitionBatchNew(self, attempt: Any, partition: str, lastMetadata: Any) -> tuple[Any, Any]:
        source = self._source
        rows, page = source.page(partition, None if lastMetadata is None else lastMetadata[1:])
        return (None, None) if page is None else (self._rows(rows), page)

    def emitPartitionBatch(self, attempt: Any, partition: str, metadata: Any) -> Any:
        source = self._source
        source.called("emit")
        return self._rows(source.again(partition, metadata))


def _polling(name: str, wide: bool) -> PollingSpout:
    paged = _Paged(name, wide)

    def partitions() -> dict[str, Any]:
        source = paged._source
        source.called("plan")
        return {partition: _fetching(paged, partition) for partition in source.listed()}

    return PollingSpout(paged.outputFields, partitions, maxRows=4)


def _fetching(paged: _Paged, partition: str) -> Any:
    def fetch(position: Any, limit: int) -> tuple[Any, Any]:
        source = paged._source
        rows, page = source.page(partition, position)
        return (None, position) if page is None else (paged._rows(rows), page[1:])

    return fetch


class Ahead:
    """An executor that plans ahead, and names other pages at every attempt."""

    plans_ahead = True

    def __init__(self, name: str) -> None:
        self._source: Source = Worlds.now.sources[name]

    def plan(self, attempt: Any, previous: Any, time: float, budget: Budget = NO_LIMIT) -> Any:
        source, at = self._source, previous["at"] if previous else {}
        source.called("plan")
        pages = {name: page for name in source.listed() if (page := source.page(name, at.get(name))[1]) is not None}
        return {"pages": pages, "at": at | {name: page[1:] for name, page in pages.items()}} if pages else None

    def emit(self, attempt: Any, metadata: Any) -> ArrowEmission:
        self._source.called("emit")
        rows = [row for name, page in metadata["pages"].items() for row in self._source.again(name, page)]
        return ArrowEmission(user_calls.table_of(rows, SCHEMA, self._source.name))

    def success(self, txid: int, metadata: Any) -> None: ...

    def fail(self, attempt: Any) -> None: ...

    def close(self) -> None: ...


class Again(Ahead):
    """An executor that reads a source again, up to a position of the stream. It begins with the first entries."""

    def __init__(self, name: str, end: End) -> None:
        super().__init__(name)
        self._end = end

    def plan(self, attempt: Any, previous: Any, time: float, budget: Budget = NO_LIMIT) -> Any:
        source, at = self._source, previous["at"] if previous else {}
        source.called("plan")
        pages = {name: [at.get(name, 0), end, 0] for name, end in ends_of(self._end()).items() if end > at.get(name, 0)}
        for page in pages.values():
            page[1] = min(page[1], page[0] + source.chance.randint(1, 4))
        return {"pages": pages, "at": at | {name: page[1] for name, page in pages.items()}} if pages else None


def ends_of(position: Any) -> dict[str, int]:
    """Up to which entry of each partition a stream was read, by its position."""
    if position is None:
        return {}
    pages = position["at"] if "at" in position else position["positions"]
    return {name: page[-2] for name, page in pages.items()}


@dataclass(frozen=True)
class FromWorld:
    """A spout of a program that serves all schedules: of which kind it is, its source says."""

    name: str
    worlds: type[Worlds] = Worlds

    @property
    def kind(self) -> SpoutKind:
        source = None if self.worlds.now is None else self.worlds.now.sources.get(self.name)
        return SpoutKind.TRANSACTIONAL if source is not None and source.kind == "t" else SpoutKind.OPAQUE

    @property
    def schema(self) -> StructType:
        return SCHEMA

    @property
    def forkable(self) -> bool:
        return True

    def why_not_again(self) -> str | None:
        return None

    def open_again(self, end: End) -> SpoutExecutor:
        return Again(self.name, end)

    def amount_before(self, end: Metadata) -> str | None:
        return None

    def open(self) -> SpoutExecutor:
        kind = self.worlds.now.sources[self.name].kind
        opened: Any = Ahead(self.name) if kind == "a" else _narrow(kind, self.name).open()
        executor: SpoutExecutor = opened
        return executor


_KINDS = {"o": Opaque, "t": Transactional, "p": _polling}


@cache
def _narrow(kind: str, source: str) -> Any:
    return as_spout(_KINDS[kind](source, False))


def new_stream(topology: Any, stream: Any, wide: bool) -> Any:
    """The stream over its source; the source's first letter says what spout reads it."""
    extra: dict[str, Any] = {"anew": True} if stream.formerly is None else {"formerly": stream.formerly}
    extra = {} if stream.formerly == "?" else extra
    return topology.newStream(stream.name, _KINDS[stream.source[0]](stream.source, wide), **extra)


def sources_of(scheduler: Scheduler, kinds: Mapping[str, str], late: float) -> dict[str, Source]:
    """The sources of a schedule, by name, of these kinds; so many (0 to 1) grow late. Their partitions have names of
    their own, so that no position is taken for another source's."""
    sources, seq, chance = dict[str, Source](), 0, scheduler.random
    gaps = chance.random() < 0.3
    for name, kind in kinds.items():
        partitions: dict[str, list[Row | None]] = {}
        for number in range(chance.choice((1, 1, 2))):
            entries: list[Row | None] = []
            for _ in range(chance.randint(1, 9)):
                if gaps and chance.random() < 0.4:
                    entries += [None] * chance.randint(1, 5)
                entries.append((chance.choice(KEYS), seq))
                seq += 1
            partitions[f"{name}.{number}"] = entries
        seq += -seq % 12  # so that the times of all streams begin alike
        source = sources[name] = Source(name, kind, partitions, chance)
        source.away = chance.choice((0.0, 0.2))
        if chance.random() < late:  # the rest comes later
            source.shown = {p: chance.randint(0, shown) for p, shown in source.shown.items()}
            scheduler.after(chance.choice((0.05, 0.5, 3.0)), source.show_all)
    return sources
