"""Types that the parts of the server share."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import Response

T = TypeVar("T")

Handler = Callable[[Request], Awaitable[Response]]
"""A function that answers the requests of a route."""


class InThread(Protocol):
    """A function that runs blocking work in a thread of the server, while the event loop continues."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...
