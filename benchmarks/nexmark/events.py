"""Persons, auctions and bids after the published rules of Nexmark: the same Parquet files each time."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

SEED = 42
PERSONS, AUCTIONS, ROUND = 1, 3, 50
"""Of each 50 events one is a person, three are auctions, 46 are bids."""
FIRST_ID = 1_000
ACTIVE_PERSONS, IN_FLIGHT, LEAD = 1_000, 100, 10
"""Events refer to the last persons and auctions, or to one of the ten that come next."""
HOT = 100
"""One id of a hundred is hot. Half of the bids are for the last hot auction; three of four have the last hot bidder."""
CATEGORIES = (10, 15)
STEP = timedelta(milliseconds=10)
"""The event time between two events. So all times are different, and no order by time has ties."""
DISORDER = timedelta(milliseconds=500)
"""An event comes at most so much later than one with a later time."""
LATE = "1 second"
"""The lateness for all queries, with which no event is late."""
LONGEST = "1 minute"
"""No auction is open for longer."""
BEGIN = datetime(2026, 3, 28, 23, 58, tzinfo=UTC)
"""Two minutes before midnight, so that there are two days after 12,000 events."""

PLACES = (
    ("Phoenix", "AZ"),
    ("Los Angeles", "CA"),
    ("San Francisco", "CA"),
    ("Boise", "ID"),
    ("Portland", "OR"),
    ("Bend", "OR"),
    ("Redmond", "WA"),
    ("Seattle", "WA"),
    ("Kent", "WA"),
    ("Cheyenne", "WY"),
)
NAMES = "Peter Paul Luke John Saul Vicky Kate Julie Sarah Deiter Walter".split()
SURNAMES = "Shultz Abrams Spencer White Bartels Walton Smith Jones Noris".split()
CHANNELS = "Google Facebook Baidu Apple".split()
LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)

SCHEMAS = {
    "persons": "id long, name string, emailAddress string, creditCard string, city string, state string, "
    "dateTime timestamp, extra string",
    "auctions": "id long, itemName string, description string, initialBid long, reserve long, dateTime timestamp, "
    "expires timestamp, seller long, category long, extra string",
    "bids": "auction long, bidder long, price long, channel string, url string, dateTime timestamp, extra string",
}

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Events:
    """A folder for each of the three tables, with a file for each batch."""

    folder: str
    events: int
    batches: int
    sizes: Mapping[str, int]
    """The rows of each table."""
    servers: str = ""
    """The Kafka brokers that have the tables as topics, too."""

    def files(self, table: str) -> str:
        """Return the pattern of the table's files."""
        return f"{self.folder}/{table}/*.parquet"

    def paths(self, table: str) -> list[Path]:
        """Return the table's files in the order of their batches."""
        return sorted(Path(self.folder, table).iterdir())

    def most(self, table: str) -> int:
        """Return the rows of the table's largest batch, if its rows are divided evenly."""
        return -(-self.sizes[table] // self.batches)

    def save(self) -> None:
        """Write the fields beside the tables, for a process that gets the folder alone."""
        Path(self.folder, "events.json").write_text(json.dumps(asdict(self)))

    @staticmethod
    def load(folder: Path) -> "Events":
        """Return the events that were written into the folder."""
        return Events(**json.loads((folder / "events.json").read_text()))


def make_events(folder: Path, events: int, batches: int) -> Events:
    """Write this many events into as many files a table as there are batches; in the order of their arrival."""
    numbers = np.arange(events)
    random = np.random.default_rng(SEED)
    arrival = numbers * _micros(STEP) + random.integers(0, _micros(DISORDER), events)
    arrived = np.argsort(arrival, kind="stable")
    kind = np.digitize(numbers % ROUND, [PERSONS, PERSONS + AUCTIONS])
    for of, (table, columns) in enumerate({"persons": _persons, "auctions": _auctions, "bids": _bids}.items()):
        rows = columns(np.random.default_rng([SEED, of]), numbers[kind == of])
        place = np.cumsum(kind == of) - 1
        (folder / table).mkdir(parents=True)
        for batch, taken in enumerate(np.array_split(arrived, batches)):
            of_kind = place[taken[kind[taken] == of]]
            pq.write_table(rows.take(pa.array(of_kind)), folder / table / f"{batch:04d}.parquet")
    sizes = {table: int(np.count_nonzero(kind == of)) for of, table in enumerate(SCHEMAS)}
    made = Events(str(folder), events, batches, sizes)
    made.save()
    return made


def _persons(random: np.random.Generator, numbers: Longs) -> pa.Table:
    size = len(numbers)
    places = [PLACES[at] for at in random.integers(0, len(PLACES), size)]
    digits = random.integers(0, 10_000, (size, 4))
    people = zip(_drawn(random, NAMES, size), _drawn(random, SURNAMES, size), strict=True)
    addresses = zip(_texts(random, 7, size), _texts(random, 5, size), strict=True)
    return pa.table(
        {
            "id": FIRST_ID + _persons_before(numbers),
            "name": [" ".join(name) for name in people],
            "emailAddress": [f"{name}@{host}.com" for name, host in addresses],
            "creditCard": [" ".join(f"{part:04d}" for part in card) for card in digits],
            "city": [city for city, _ in places],
            "state": [state for _, state in places],
            "dateTime": _times(numbers),
            "extra": _texts(random, 80, size),
        }
    )


def _auctions(random: np.random.Generator, numbers: Longs) -> pa.Table:
    size, persons = len(numbers), _persons_before(numbers)
    first = _prices(random, size)
    hot = random.random(size) < 0.75
    horizon = IN_FLIGHT * ROUND // AUCTIONS * _micros(STEP)
    return pa.table(
        {
            "id": FIRST_ID + _auctions_before(numbers),
            "itemName": _texts(random, 12, size),
            "description": _texts(random, 60, size),
            "initialBid": first,
            "reserve": first + _prices(random, size),
            "dateTime": _times(numbers),
            "expires": _times(numbers, 1_000 + random.integers(0, 2 * horizon, size) // 1_000 * 1_000),
            "seller": FIRST_ID + np.where(hot, persons // HOT * HOT, _recent(random, persons, ACTIVE_PERSONS)),
            "category": random.integers(*CATEGORIES, size),
            "extra": _texts(random, 200, size),
        }
    )


def _bids(random: np.random.Generator, numbers: Longs) -> pa.Table:
    size, auctions, persons = len(numbers), _auctions_before(numbers), _persons_before(numbers)
    on_hot = random.random(size) < 0.5
    by_hot = random.random(size) < 0.75
    channels, urls = _channels(random, size)
    return pa.table(
        {
            "auction": FIRST_ID + np.where(on_hot, auctions // HOT * HOT, _recent(random, auctions, IN_FLIGHT)),
            "bidder": FIRST_ID + np.where(by_hot, persons // HOT * HOT + 1, _recent(random, persons, ACTIVE_PERSONS)),
            "price": _prices(random, size),
            "channel": channels,
            "url": urls,
            "dateTime": _times(numbers),
            "extra": _texts(random, 40, size),
        }
    )


def _channels(random: np.random.Generator, size: int) -> tuple[list[str], list[str]]:
    """Draw channels, half of them hot, and addresses of three folders; most of the others have the channel's number."""
    numbers, kinds = random.integers(0, 10_000, size), random.random(size)
    hot = [
        name if kind < 0.25 else name.upper() for name, kind in zip(_drawn(random, CHANNELS, size), kinds, strict=True)
    ]
    folders = zip(*(_texts(random, 5, size) for _ in range(3)), strict=True)
    urls = [f"https://www.nexmark.com/{'/'.join(three)}/item.htm?query=1" for three in folders]
    for at in np.flatnonzero(kinds >= 0.5):
        hot[at] = f"channel-{numbers[at]}"
        if kinds[at] < 0.95:
            urls[at] += f"&channel_id={numbers[at]}&ref=x"
    return hot, urls


def _persons_before(numbers: Longs) -> Longs:
    """Return the number of persons before each event."""
    return numbers // ROUND * PERSONS + np.minimum(numbers % ROUND, PERSONS)


def _auctions_before(numbers: Longs) -> Longs:
    """Return the number of auctions before each event."""
    return numbers // ROUND * AUCTIONS + np.clip(numbers % ROUND - PERSONS, 0, AUCTIONS)


def _recent(random: np.random.Generator, before: Longs, active: int) -> Longs:
    """Draw one of the last ones, or of those that come next."""
    last = np.minimum(before, active)
    drawn: Longs = before - last + random.integers(0, last + LEAD)
    return drawn


def _prices(random: np.random.Generator, size: int) -> Longs:
    prices: Longs = np.rint(10 ** (random.random(size) * 6) * 100).astype(np.int64)
    return prices


def _times(numbers: Longs, later: Any = 0) -> pa.Array:
    begin = int(BEGIN.timestamp()) * 1_000_000
    return pa.array(begin + numbers * _micros(STEP) + later, pa.timestamp("us", tz="UTC"))


def _texts(random: np.random.Generator, length: int, size: int) -> list[str]:
    """Draw texts of about this many letters."""
    pool = LETTERS[random.integers(0, len(LETTERS), 1 << 16)].tobytes().decode()
    begins = random.integers(0, len(pool) - 2 * length, size)
    lengths = random.integers(length - length // 2, length + length // 2 + 1, size)
    return [pool[at : at + long] for at, long in zip(begins, lengths, strict=True)]


def _drawn(random: np.random.Generator, words: list[str], size: int) -> list[str]:
    return [words[at] for at in random.integers(0, len(words), size)]


def _micros(time: timedelta) -> int:
    return time // timedelta(microseconds=1)
