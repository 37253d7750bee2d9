"""A pipeline to Redis without overlap, for tests that let a request fail at a certain step."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any


class OneByOne:
    """In the place of a `Pipeline`: `receive` sends the commands of the earliest `send` by `exchange`, alone."""

    def __init__(self, exchange: Callable[[list[bytes]], list[Any]]) -> None:
        self._exchange = exchange
        self._sent: deque[list[bytes]] = deque()

    def __enter__(self) -> "OneByOne":
        return self

    def __exit__(self, *_: object) -> None: ...

    def send(self, commands: Iterable[bytes]) -> None:
        self._sent.append(list(commands))

    def receive(self) -> list[Any]:
        return self._exchange(self._sent.popleft())
