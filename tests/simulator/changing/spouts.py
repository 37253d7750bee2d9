"""Sources and spouts of the changing programs: partitions with gaps, which grow and forget, read by the library's own
adapters; and what spouts of users do: raise, and not come back."""

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.simulator.in_world import Worlds
from tests.simulator.oracle import Wrong
from trident.spouts import OpaquePartitionedSpout, PartitionedSpout, PollingSpout

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

    def numbers(self) -> dict[int, str]:
        """Everything that there ever was: each number's word."""
        return {row[1]: row[0] for entries in self.partitions.values() for row in entries if row is not None}

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

    def listed(self) -> list[str]:
        """The partitions that are there just now."""
        return [partition for partition in self.partitions if self.chance.random() >= self.away]

    def page(self, partition: str, position: Any) -> tuple[list[Row], int | None]:
        """The rows after a position and the position behind them; None where there is nothing to read."""
        if self.slow:
            Worlds.now.scheduler.sleep(self.slow)
        start = max(int(position or 0), self.kept[partition])
        shown = self.shown[partition]
        if start >= shown:
            return [], None
        end = min(shown, start + self.chance.randint(1, 4))
        return [row for row in self.partitions[partition][start:end] if row is not None], end

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
        rows, position = source.page(partition, lastMetadata)
        return (None, None) if position is None else (self._rows(rows), position)


class Transactional(_Paged, PartitionedSpout):
    """Names its pages, and reads them again."""

    def emitPartitionBatchNew(self, attempt: Any, partition: str, lastMetadata: Any) -> tuple[Any, Any]:
        source = self._source
        last = None if lastMetadata is None else lastMetadata[1]
        rows, position = source.page(partition, last)
        if position is None:
            return None, None
        return self._rows(rows), [max(last or 0, source.kept[partition]), position]

    def emitPartitionBatch(self, attempt: Any, partition: str, metadata: Any) -> Any:
        source = self._source
        source.called("emit")
        start, end = metadata
        if start < source.kept[partition]:
            raise SourceError(f"{source.name}: {partition} begins at {source.kept[partition]}, {start} is gone")
        return self._rows([row for row in source.partitions[partition][start:end] if row is not None])


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
        rows, after = source.page(partition, position)
        return (None, position) if after is None else (paged._rows(rows), after)

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
