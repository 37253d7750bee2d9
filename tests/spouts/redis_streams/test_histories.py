"""Random histories of streams: every entry that was added is read once, or it was told that entries are lost."""

import logging
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from tests.spouts.redis_streams.test_loss import Reader
from tests.support.server import RedisServer
from tests.support.soak import Soak


@dataclass
class History:
    """What was done to one stream, beside a reader of small batches that a restart makes anew at each of them."""

    reader: Reader
    chance: random.Random
    there: list[int] = field(default_factory=list)
    read: Counter[int] = field(default_factory=Counter)
    lost: set[int] = field(default_factory=set)
    """Entries that went before they were read."""
    silent: set[int] = field(default_factory=set)
    """Those of them that went since the last warning."""
    added: int = 0
    told: int = 0
    """The greatest entry that was lost at the last warning."""

    def go(self, steps: int, caplog: pytest.LogCaptureFixture) -> None:
        acts = [self.add, self.add, self.delete, self.trim, self.read_some, self.read_some]
        self.read_some()  # what goes before reading begins is no loss
        for _ in range(steps):
            self.chance.choice(acts)()
            self.check(caplog)
        while self.read_some():
            self.check(caplog)
        self.check(caplog)
        # A warning of a deleted entry says that others before it may be lost: which, the stream does not show.
        assert all(n < self.told for n in self.silent), "entries were lost in silence"
        assert set(self.read) == set(range(1, self.added + 1)) - self.lost
        assert set(self.read.values()) <= {1}

    def add(self) -> None:
        for _ in range(self.chance.randint(1, 6)):
            self.added += 1
            self.reader.add(self.added)
            self.there.append(self.added)

    def delete(self) -> None:
        unread = [n for n in self.there if n not in self.read]
        pool = self.there if self.chance.random() < 0.7 else unread
        self._went(self.chance.sample(pool, min(len(pool), self.chance.randint(0, 2))), by_hand=True)

    def trim(self) -> None:
        keep = self.chance.randint(0, len(self.there))
        gone = self.there[: len(self.there) - keep]
        if self.chance.random() < 0.6:  # as those do who trim what was read
            gone = [n for n in gone if n in self.read]
        self.reader.client.xtrim("s", maxlen=len(self.there) - len(gone), approximate=False)
        self._went(gone, by_hand=False)

    def _went(self, gone: list[int], by_hand: bool) -> None:
        if by_hand and gone:
            self.reader.client.xdel("s", *[f"{n}-1" for n in gone])
        self.there = [n for n in self.there if n not in gone]
        unread = {n for n in gone if n not in self.read}
        self.lost |= unread
        self.silent |= unread

    def read_some(self) -> bool:
        numbers = self.reader.read(onDataLoss="warn")
        self.read.update(numbers or [])
        return numbers is not None

    def check(self, caplog: pytest.LogCaptureFixture) -> None:
        """Take note of warnings; one that nothing was lost for is a false alarm."""
        if caplog.records:
            assert self.silent, caplog.text
            self.silent, self.told = set(), max(self.lost)
            caplog.clear()


def live(server: RedisServer, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    server.client.delete("s")
    chance = random.Random(seed)
    reader = Reader(server, maxEntriesPerBatch=chance.choice([1, 2, 5, 100]))
    with caplog.at_level(logging.WARNING, "trident.spouts"):
        History(reader, chance).go(30, caplog)


@pytest.mark.parametrize("seed", range(40))
def test_every_entry_is_read_once_or_told_as_lost(
    shared_redis: RedisServer, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    live(shared_redis, seed, caplog)


@pytest.mark.soak(weight=1)
def test_every_entry_is_read_once_or_told_as_lost_in_many_histories(
    shared_redis: RedisServer, caplog: pytest.LogCaptureFixture, soak: Soak
) -> None:
    for chance in soak.draws(1000):
        live(shared_redis, chance.randrange(1 << 30), caplog)
