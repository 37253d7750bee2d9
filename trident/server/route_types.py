"""The types of what the parts of a server hand each other."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import Response

T = TypeVar("T")

Handler = Callable[[Request], Awaitable[Response]]
"""A function that answers the requests of a route."""


class InThread(Protocol):
    """A function that runs work, which may block, in a thread of the server; the event loop goes on meanwhile."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...
