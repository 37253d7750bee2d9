"""A driver that counts the words of two streams in Redis, in a process of its own, to be killed."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from trident import Count, TridentTopology
from trident.base import crash_points
from trident.errors import StateUnavailableError
from trident.spouts import RedisStreamSpout
from trident.testing.local import start_local

STREAMS = ("a", "b")


def counting(url: str, kind: Any, state: Any) -> TridentTopology:
    topology = TridentTopology()
    spout = RedisStreamSpout(url, STREAMS, "word string", kind=kind, maxEntriesPerBatch=12)
    words = topology.newStream("words", spout).groupBy("word")
    words.persistentAggregate(state, Count(), "count", name="counts")
    return topology


def run(url: str, kind: str, state: Any, folder: Path, crash_at: str) -> None:
    """One life of the driver. Killed at a point, or at the end, when all is committed."""
    crash_points.arm(crash_at)
    while True:
        try:
            running = start_local(counting(url, kind, state), name="t", checkpointLocation=folder)
            break
        except StateUnavailableError:  # a start needs its states; whoever starts a driver does so again
            time.sleep(0.05)
    running.processAllAvailable(timeout=60)
    os.kill(os.getpid(), signal.SIGUSR1)  # it dies of another signal than a killed one
