"""Batches that executors put into a state, as tests trouble them."""

import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from trident_state.redis import RedisStore


class Joined:
    """A combiner that only Python knows: the last letters of all words, one after the other."""

    outputType = "string"

    def init(self, tuple: Any) -> str:
        return str(tuple.word)[-1]

    def combine(self, a: str, b: str) -> str:
        return a + b

    def zero(self) -> str:
        return ""


def first_time(mark: Path) -> bool:
    """Return whether nobody has made this mark yet, over all processes, and make it."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def opening_as(kind: type[Any], of: type[Any] = RedisStore, **more: Any) -> Callable[..., Any]:
    """Return a method in the place of `open_batch` of stores: every batch is of this kind, with `more` fields."""
    opening = of.open_batch

    def open_batch(store: Any, *args: Any) -> Any:
        batch = opening(store, *args)
        return kind(**{field.name: getattr(batch, field.name) for field in fields(batch)}, **more)

    return open_batch
