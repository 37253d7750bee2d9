"""A real queue, through kills of driver and server. Counts are exact, the queue is empty."""

import random
import signal
import threading
from abc import ABC, abstractmethod
from collections import Counter
from pathlib import Path
from typing import Any

from tests.spouts.messages.word_driver import run
from tests.support.server import RedisServer
from trident import openState
from trident.spouts import RichSpout

_FIRST, _MORE, _WORDS = 40, 30, 9

_AGAIN = 3
"""How many more lives may take what is left: a driver ends when it finds nothing, also where it finds no server."""


class RealQueue(ABC):
    """A queue on a server, as these tests fill it, disturb it, and look at it in the end."""

    points: tuple[str, ...]
    """Where drivers die."""
    delay: tuple[float, float]
    """The bounds of the seconds after which the server is killed beside a life."""
    restarts: int
    """In how many lives that happens, from the first on."""
    healthy: int = 1
    """How many lives follow that reach their end. The last one is undisturbed: it takes what others left."""

    @abstractmethod
    def spout(self) -> RichSpout: ...

    @abstractmethod
    def create(self) -> None:
        """Make the queue, empty."""

    @abstractmethod
    def send(self, words: dict[int, str]) -> None:
        """Send words durably, each once and with its number as id, also while the server is away."""

    @abstractmethod
    def restart(self) -> None:
        """Kill the server, and start it again."""

    @abstractmethod
    def left(self) -> int:
        """Return how many messages the queue holds, those under way included: the drivers are gone."""


def live(forks: Any, queue: RealQueue, state: RedisServer, folder: Path, chance: random.Random, lives: int) -> None:
    """Let drivers die one after the other, and the server beside them; then compare counts and queue."""
    queue.create()
    points = [*chance.choices(queue.points, k=lives), *[""] * queue.healthy]
    sent, ends = _send(queue, chance, 1, _FIRST), []
    for number, point in enumerate([*points, *[""] * _AGAIN]):
        if number >= len(points) and not queue.left():
            break
        child = forks.Process(target=run, args=(queue.spout(), state.url, folder, point))
        child.start()
        if number < len(points) - 1:
            kill = threading.Timer(chance.uniform(*queue.delay), queue.restart)
            if number < queue.restarts:
                kill.start()
            sent += _send(queue, chance, 1000 * (number + 1), _MORE)
            if number < queue.restarts:
                kill.join()
        child.join(120)
        ends.append(-(child.exitcode or 0))
        assert ends[-1] == signal.SIGUSR1 or (point and ends[-1] == signal.SIGKILL), f"life up to {point or 'the end'}"
    assert signal.SIGKILL in ends
    with openState("t", "counts", url=state.url) as counts:
        counted = Counter(dict(counts.items()))
    assert counted == sent, f"too many: {counted - sent}, too few: {sent - counted}; {points}, {ends}"
    assert queue.left() == 0, "a message was never acknowledged"


def _send(queue: RealQueue, chance: random.Random, first: int, count: int) -> Counter[str]:
    words = {number: f"w{chance.randrange(_WORDS)}" for number in range(first, first + count)}
    queue.send(words)
    return Counter(words.values())
