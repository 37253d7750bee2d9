"""States for the tests of what goes wrong: counts by word in a server of the test's own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from tests.state.redis.storage import RedisStorage
from trident.base.attempt import Lease
from trident_state.redis import RedisStore
from trident_state.state_shape import Combine, StateIdentity, StateKind, StateShape
from trident_state.store_messages import Update

LEASE = Lease(1, "first")
SECOND = Lease(2, "second")
SUM = Combine("Sum", lambda stored, delta: stored + delta, "sum")
MINE = Combine("Mine", lambda stored, delta: stored + delta)

SHAPE = StateShape(pa.schema({"word": pa.string()}), pa.int64(), SUM)
PYTHON = StateShape(pa.schema({"word": pa.string()}), pa.int64(), MINE)
IDENTITY = StateIdentity("wordcount", "counts", "log-1")


@contextmanager
def opened(
    url: str,
    shape: StateShape = SHAPE,
    kind: StateKind = StateKind.OPAQUE,
    identity: StateIdentity = IDENTITY,
    **options: Any,
) -> Iterator[RedisStore]:
    """A store over what is there, closed in the end."""
    store = RedisStorage(url, options).open(identity, shape, kind)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def started(url: str, *args: Any, lease: Lease = LEASE, birth: int = 0, **options: Any) -> Iterator[RedisStore]:
    """A new state, created and acquired."""
    with opened(url, *args, **options) as store:
        store.report()
        store.create(lease, birth)
        store.acquire(lease)
        yield store


def words(numbers: Sequence[int]) -> pa.Table:
    return pa.table({"word": pa.array([f"w{n}" for n in numbers], pa.string())})


def update(txid: int, deltas: dict[int, int]) -> Update:
    return Update(txid, words(list(deltas)), pa.array(list(deltas.values()), pa.int64()))


def batches(count: int, keys: int, size: int, seed: int = 7) -> list[dict[int, int]]:
    """Batches of distinct keys drawn at random, each delta 1 to 9."""
    drawn = np.random.default_rng(seed)
    return [
        dict(zip(drawn.choice(keys, size, replace=False).tolist(), drawn.integers(1, 10, size).tolist(), strict=True))
        for _ in range(count)
    ]


def sums(given: list[dict[int, int]]) -> dict[str, int]:
    """What a state holds after these batches."""
    found: dict[str, int] = {}
    for batch in given:
        for key, delta in batch.items():
            found[f"w{key}"] = found.get(f"w{key}", 0) + delta
    return found


def contents(store: RedisStore, as_of: int | None = None) -> dict[str, int]:
    """All that is stored."""
    found: dict[str, int] = {}
    for page in store.scan(as_of):
        found.update(zip(page["word"].to_pylist(), page["value"].to_pylist(), strict=True))
    return found
