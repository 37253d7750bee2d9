"""A driver whose executors put its batches into Redis, and which die or fail after puts that the server confirmed.

Each task draws what becomes of it, once for each batch and trouble: it fails after its put, it puts twice, its Python
worker dies, or its executor dies. Spark runs it again; every count must be right.

Usage: python -m tests.cluster.puts FOLDER URL MASTER TROUBLES [FILES]. FILES is a JSON object: the options of a start
that keep its files on an object store. Prints the counts as JSON in its last line.
"""

import json
import os
import signal
import sys
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tests.cluster.drive import session
from tests.cluster.losses import FOLDER, executor, once
from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import RedisMapState
from trident_state.messages import Put
from trident_state.redis import RedisStore
from trident_state.redis.open_batch import OpenBatch

BATCHES = [[f"word{(batch * 7 + row * row) % 997}" for row in range(3_000)] for batch in range(4)]


class Joined:
    """A combiner that only Python knows."""

    outputType = "string"

    def init(self, tuple: Any) -> str:
        return str(tuple.word)[-1]

    def combine(self, a: str, b: str) -> str:
        return a + b

    def zero(self) -> str:
        return ""


@dataclass(frozen=True)
class Troubled(OpenBatch):
    """A batch of which each put arrives, and then something happens to who put it."""

    troubles: tuple[str, ...] = ()

    def put(self, parts: Any) -> Put:
        parts = list(parts)
        done = OpenBatch.put(self, parts)
        trouble = self.troubles[self.txid % len(self.troubles)]
        if trouble == "twice":
            return OpenBatch.put(self, parts)
        if once(f"{self.where}-{self.txid}-{trouble}".replace("'", "")):
            if trouble == "fails":
                raise RuntimeError("this task fails after its put, on purpose")
            os.kill(os.getpid() if trouble == "worker" else executor(), signal.SIGKILL)
        return done


def troubled(troubles: tuple[str, ...]) -> None:
    """Let every batch of this driver be troubled."""
    opening = RedisStore.open_batch

    def open_batch(self: RedisStore, *args: Any) -> OpenBatch:
        batch = opening(self, *args)
        return Troubled(**{field.name: getattr(batch, field.name) for field in fields(OpenBatch)}, troubles=troubles)

    RedisStore.open_batch = open_batch  # type: ignore[method-assign]


def expected() -> dict[str, Any]:
    counts = Counter(word for batch in BATCHES for word in batch)
    return {"counts": dict(counts), "joined": {word: word[-1] * n for word, n in counts.items()}}


def main(folder: str, url: str, master: str, troubles: str, files: str = "") -> None:
    os.environ[FOLDER] = folder
    spark = session({f"spark.executorEnv.{FOLDER}": folder}, master)
    troubled(tuple(troubles.split(",")))
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", BATCHES)).groupBy("word")
    state = RedisMapState.opaque(url, writers="executors", groups=4)
    words.persistentAggregate(state, Count(), "count", name="counts")
    words.persistentAggregate(state, "word", Joined(), "joined", name="joined")
    options: dict[str, Any] = json.loads(files) if files else {}
    with topology.start(spark, name="puts", checkpointLocation=Path(folder) / "checkpoint", **options) as running:
        running.processAllAvailable(timeout=480)
        found = {name: dict(running.state(name).items()) for name in ("counts", "joined")}
        events = running.recentProgress
    writers = {state["writers"] for e in events if e["event"] == "committed" for state in e["states"].values()}
    marks = sorted(path.name for path in Path(folder).glob("lost-*"))
    print(json.dumps({"found": found, "writers": sorted(writers), "troubled": marks}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
