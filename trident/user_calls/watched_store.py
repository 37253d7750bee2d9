"""A store over a user's map. A run calls it in a separate thread of the state (its lane), with a time limit.

Every caller in the run waits for the lane: a start, a commit turn, a heal, a trim, the fence watch. Reads from a user's
threads go to the store directly, because they must not wait until a write has ended.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import wait
from typing import TypeVar

import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.callsite import site_of
from trident.user_calls.daemon_threads import Threads
from trident.user_calls.watched_calls import Subject, WatchedCalls
from trident_state.store import MapMaking, StateFactory, Store
from trident_state.store_messages import Applied, Found, GroupStatus, StoreReport, Update

T = TypeVar("T")

logger = logging.getLogger(__name__)

STATE_LANE = "state "
"""The prefix of the names of the threads (lanes) in which stores are called."""

_CLOSING = 2.0
"""The seconds that a store may take to close."""


class WatchedStore:
    """The store of one state with watched calls: during a start by `calls`, after `join` by the run's calls."""

    def __init__(self, store: Store, state: str, make: Callable[..., object], calls: WatchedCalls) -> None:
        self.unwatched = store
        """The store itself, to be called without a separate thread and a time limit."""
        self._state, self._site, self._calls = state, site_of(make), calls
        self._tries: Callable[[], int] = _none

    def join(self, calls: WatchedCalls, tries: Callable[[], int]) -> None:
        """Run all further calls as watched calls of a run. Their limits grow with `tries`."""
        # The lane of the start ends before the lane of the run begins, because only one thread at a time may call a
        # store.
        self._calls.close(0)
        self._calls, self._tries = calls, tries

    def _call(self, what: str, work: Callable[[], T]) -> T:
        subject = Subject(f"state {self._state!r}, {what}", (self._site,))
        return self._calls.wait(self._calls.submit(STATE_LANE + self._state, subject, work, self._tries()))

    def report(self) -> StoreReport:
        return self._call("report", self.unwatched.report)

    def create(self, lease: Lease, birth: int) -> None:
        self._call("create", lambda: self.unwatched.create(lease, birth))

    def acquire(self, lease: Lease) -> None:
        self._call("acquire", lambda: self.unwatched.acquire(lease))

    def apply(self, lease: Lease, update: Update, values: bool = False) -> Applied:
        return self._call(f"batch {update.txid}", lambda: self.unwatched.apply(lease, update, values))

    def groups_of(self) -> tuple[GroupStatus, ...]:
        return self._call("look at its marker", self.unwatched.groups_of)

    def durable(self) -> int:
        return self._call("durable", self.unwatched.durable)

    def snapshot(self) -> int:
        return self._call("snapshot", self.unwatched.snapshot)

    def read(self, keys: pa.Table, asOf: int | None) -> Found:
        return self._call("read", lambda: self.unwatched.read(keys, asOf))

    def scan(self, asOf: int | None, pageRows: int = 10_000) -> Iterator[pa.Table]:
        # Each page is a separate call, because a scan of a large state may take longer than the limit of one call.
        pages = iter(self.unwatched.scan(asOf, pageRows))
        # `next` returns None at the end, because a StopIteration raised out of a call would become a RuntimeError in
        # this generator (PEP 479).
        while (page := self._call("scan", lambda: next(pages, None))) is not None:
            yield page

    def drop(self, lease: Lease | None = None) -> None:
        self._call("drop", lambda: self.unwatched.drop(lease))

    def leave(self) -> None:
        """Prevent further puts. A running put may never return."""
        # Not called in the lane, because the lane hangs. The running put must be the last put: the next start may write
        # the same map (tests/run/test_limits.py::test_stop_leaves_a_store_of_the_users_own_behind_that_hangs).
        getattr(self.unwatched, "leave", _nothing)()
        self._calls.close(0)

    def close(self) -> None:
        """Close the store, even after the run's calls have ended. If the store's `close` hangs, do not wait for it."""
        self._calls.close(0)
        # Not called in the lane, because a run that has ended accepts no more calls, and the lane may hang.
        threads = Threads(f"trident-close-{self._state}", 1)
        closing = threads.submit(self.unwatched.close)
        wait([closing], _CLOSING)
        threads.close(0)
        if closing.done():
            closing.result()
        else:
            logger.warning("state %r: close does not return, %s; it is abandoned", self._state, self._site)


def watched(store: Store, state: str, factory: StateFactory, calls: WatchedCalls) -> Store:
    """Return the store for a run: in a WatchedStore if it calls user code, otherwise unchanged."""
    return WatchedStore(store, state, factory.makeMap, calls) if isinstance(factory, MapMaking) else store


def unwatched(stores: Mapping[str, Store]) -> dict[str, Store]:
    """Return the stores for a user's threads, which call them directly and without time limits."""
    return {name: store.unwatched if isinstance(store, WatchedStore) else store for name, store in stores.items()}


def _none() -> int:
    return 0


def _nothing() -> None: ...
