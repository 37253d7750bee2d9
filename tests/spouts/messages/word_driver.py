"""A driver that counts the words of a queue in Redis, in a process of its own, to be killed."""

import os
import random
import signal
import time
from pathlib import Path

from trident import Count, TridentTopology
from trident.base import crash_points
from trident.base.errors import FailedException
from trident.errors import StateUnavailableError
from trident.spouts import RichSpout
from trident.state import RedisMapState
from trident.testing.local import start_local


def counting(spout: RichSpout, url: str, failing: float) -> TridentTopology:
    """Count words in Redis, with a function that fails with this probability."""
    chance = random.Random()

    def fails_at_times(word: str) -> bool:
        if chance.random() < failing:
            raise FailedException("now and then")
        return True

    topology = TridentTopology()
    words = topology.newStream("words", spout).each("word", fails_at_times).groupBy("word")
    words.persistentAggregate(RedisMapState.opaque(url), Count(), "count", name="counts")
    return topology


def run(spout: RichSpout, url: str, folder: Path, crash_at: str) -> None:
    """One life of the driver. Killed at a point, or at the end, when all is committed."""
    crash_points.arm(crash_at)
    while True:
        try:
            topology = counting(spout, url, 0.01)
            running = start_local(topology, name="t", checkpointLocation=folder, maxAttempts=50)
            break
        except StateUnavailableError:  # a start needs its states; whoever starts a driver does so again
            time.sleep(0.05)
    running.processAllAvailable(timeout=60)
    running.stop()  # the spout hears of the last commits
    os.kill(os.getpid(), signal.SIGUSR1)  # it dies of another signal than a killed one
