"""A cached property that works in a forked child."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from trident.base.forked_child import free_in_child

T = TypeVar("T")


class cached_property(functools.cached_property[T]):  # noqa: TID251 (this is the other one)
    """`functools.cached_property` without its class-wide lock, which it has before Python 3.12.

    If a thread of the parent computes the property of any object at the fork, this lock stays locked in the child,
    which then waits for ever.
    """

    def __init__(self, func: Callable[[Any], T]) -> None:
        super().__init__(func)
        if (lock := getattr(self, "lock", None)) is not None:
            free_in_child(lock)
