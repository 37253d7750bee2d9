"""The topology of the recorded stores. It runs on the version that recorded them and on the one that reads them."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from trident import Count, Max, Sum, TridentTopology
from trident.spouts import FixedBatchSpout, PollingSpout
from trident.state import MemoryMapState, RedisMapState
from trident.testing.local import start_local

NAME = "recorded"
STREAMS = ("orders", "visits", "clicks", "ads")
STATES = ("spent", "visits", "recent", "most", "shown")

COMMITTED: dict[str, list[Any]] = {
    "orders": [[("ann", 3), ("bob", 9)], [("ann", 20), ("cem", 1)]],
    "visits": ["home", "shop", "home", "cart"],
    "clicks": ["sea", "sun", "sea"],
    "ads": ["sun", "ski"],
}
"""Rows that were committed before the end of every recording; of `orders` whole batches."""

LAST: dict[str, list[Any]] = {
    "orders": [[("dee", 5)]],
    "visits": ["shop", "news"],
    "clicks": ["sun", "bay"],
    "ads": ["sea"],
}
"""Rows that came then: committed in `clean`, frozen in `frozen`, planned in `planned`."""

MORE: dict[str, list[Any]] = {
    "orders": [[("ann", 100)], [("eve", 7)]],
    "visits": ["home", "blog"],
    "clicks": ["bay", "fog"],
    "ads": ["fog", "ski"],
}
"""Rows that are there when somebody goes on."""


def rows(*parts: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The rows of each stream, part after part, in lists that the caller may append to."""
    return {stream: [row for part in parts for row in part[stream]] for stream in STREAMS}


def start(folder: Path, source: dict[str, list[Any]], url: str | None = None) -> Any:
    """Start it without Spark; `url`: log and states are in Redis, else all is below `folder`."""
    options: dict[str, Any] = {"name": NAME, "checkpointLocation": folder / "checkpoint"}
    if url is not None:
        from trident.log import RedisLog

        options["log"] = RedisLog(url, requireDurable=False)
    return start_local(topology(folder, source, url), **options)


def topology(folder: Path, source: dict[str, list[Any]], url: str | None = None) -> TridentTopology:
    """Two streams in groups of their own (`orders`, `visits`), and a merged pair (`clicks` and `ads`); a state of a
    second stage, one whose values expire after a second, and a function that notes every batch it is handed."""

    def state(kind: str, ttl: float | None = None, **redis: Any) -> Any:
        if url is None:
            return getattr(MemoryMapState, kind)(ttlSecs=ttl)
        return getattr(RedisMapState, kind)(url, ttlSecs=ttl, buckets=4, **redis)

    def note(name: str) -> Any:
        def noted(table: Any, txid: int, attempt: int) -> None:
            line = json.dumps([name, txid, attempt, [list(row.values()) for row in table.to_pylist()]])
            handle = os.open(folder / "handed", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(handle, f"{line}\n".encode())
            os.close(handle)

        return noted

    made = TridentTopology()
    orders = made.newStream("orders", FixedBatchSpout("user string, price long", source["orders"]))
    orders.groupBy("user").persistentAggregate(state("transactional"), "price", Sum(), "sum", name="spent")
    orders.foreachArrow(note("orders"), name="orders.handed")

    visits = made.newStream("visits", PollingSpout("page string", {"all": source["visits"]}))
    pages = visits.groupBy("page")
    counts = pages.persistentAggregate(state("opaque", values="json"), Count(), "count", name="visits")
    pages.persistentAggregate(state("transactional", ttl=1.0), Count(), "count", name="recent")
    letters = counts.newValuesStream().each("page", lambda page: page[0], "letter string").groupBy("letter")
    letters.persistentAggregate(state("opaque", ttl=315_360_000.0, values="json"), "count", Max(), "most", name="most")

    clicks = made.newStream("clicks", PollingSpout("topic string", {"all": source["clicks"]}))
    ads = made.newStream("ads", PollingSpout("topic string", {"all": source["ads"]}))
    both = made.merge(clicks, ads)
    both.groupBy("topic").persistentAggregate(state("opaque"), Count(), "count", name="shown")
    both.foreachArrow(note("both"), name="both.handed")
    return made


def contents(running: Any) -> dict[str, dict[str, int]]:
    """What the states of a running topology hold."""
    return {name: dict(sorted(running.state(name).items())) for name in STATES}


def handed(folder: Path) -> dict[str, dict[str, int]]:
    """How often each tuple was handed to the outputs, a txid of theirs counted once."""
    path = folder / "handed"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    batches = {(name, txid): tuples for name, txid, _, tuples in lines}
    told: dict[str, Counter[str]] = {"orders": Counter(), "both": Counter()}
    for (name, _), tuples in batches.items():
        told[name].update(" ".join(map(str, values)) for values in tuples)
    return {name: dict(sorted(counts.items())) for name, counts in told.items()}
