"""Batches that executors put into a Redis state, as tests trouble them."""

import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from trident_state.redis import RedisStore
from trident_state.redis.open_batch import OpenBatch


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


def opening_as(kind: type[OpenBatch], **more: Any) -> Callable[..., OpenBatch]:
    """Return a method in the place of `RedisStore.open_batch`: every batch is of this kind, with `more` fields."""
    opening = RedisStore.open_batch

    def open_batch(store: RedisStore, *args: Any) -> OpenBatch:
        batch = opening(store, *args)
        return kind(**{field.name: getattr(batch, field.name) for field in fields(OpenBatch)}, **more)

    return open_batch
