"""Sources and spouts of the changing programs: partitions with gaps, which grow, forget and fall back to older copies,
read by the library's own adapters; and what spouts of users do: raise, and not come back."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from tests.simulator.in_world import Worlds
from tests.simulator.oracle import Wrong
from trident.base.errors import DataLossError
from trident.spouts import OpaquePartitionedSpout, PartitionedSpout, PollingSpout

COMPARES = True
"""Whether a position is compared with the source that it is read from."""
KEYS = ("apple", "avocado", "banana", "blueberry")
Row = tuple[str, int]


class SourceError(RuntimeError):
    """What a user's spout raises."""


class Source:
    """What there is to read. An entry that is None is a gap: a page over it has no rows, and the position moves.

    `shown`: how many entries of a partition there are by now. `kept`: the first one that is still there.
    """

    def __init__(self, name: str, partitions: dict[str, list[Row | None]], chance: Random) -> None:
        self.name, self.partitions, self.chance = name, partitions, chance
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
        """Put an older copy of a partition in its place, which has grown on: shorter, as long or longer."""
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


def new_stream(topology: Any, stream: Any, wide: bool) -> Any:
    """The stream over its source; the source's first letter says what spout reads it."""
    kind = {"o": Opaque, "t": Transactional, "p": _polling}[stream.source[0]]
    extra: dict[str, Any] = {"anew": True} if stream.formerly is None else {"formerly": stream.formerly}
    extra = {} if stream.formerly == "?" else extra
    return topology.newStream(stream.name, kind(stream.source, wide), **extra)


def sources_of(chance: Random, gaps: bool) -> dict[str, Source]:
    """The sources of a schedule. Their partitions have names of their own, so that no position is taken for another
    source's."""
    sources, seq = dict[str, Source](), 0
    for name in chance.sample(("o1", "o2", "t1", "t2", "p1", "p2"), 3):
        partitions: dict[str, list[Row | None]] = {}
        for number in range(chance.choice((1, 1, 2))):
            entries: list[Row | None] = []
            for _ in range(chance.randint(1, 9)):
                if gaps and chance.random() < 0.4:
                    entries += [None] * chance.randint(1, 5)
                entries.append((chance.choice(KEYS), seq))
                seq += 1
            partitions[f"{name}.{number}"] = entries
        sources[name] = Source(name, partitions, chance)
        sources[name].away = chance.choice((0.0, 0.2))
    return sources


__all__ = ["Source", "SourceError", "Wrong", "new_stream", "sources_of"]
