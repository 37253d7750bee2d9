"""EvolvingStore: a state in a former shape, which is converted to the present shape with the first applied batch.

Until then the stored state does not change, so the former program can be started again. Reads return the values in the
present shape, and batches that the former program froze are applied in the former shape.

With the first frozen batch of this program, the state is recreated with all values in the present shape as its initial
content, in one durable write of the log. From then on the store is treated like a store that lost its batches, and is
healed: it is emptied, and gets the content and the batch from the log (docs/decisions/0071).
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.crash_points import reach
from trident.base.errors import SnapshotMovedError, StateBehindError, StateLostError, StateRecoveringError
from trident.log.protocol import Birth
from trident.plan.evolutions import Former
from trident.user_calls.watched_store import unwatched
from trident_state.few_keys import Key
from trident_state.store import SharedSnapshot, Store, Timed
from trident_state.store_messages import Applied, FewFound, Found, GroupStatus, Put, StoreReport, Update

_NOTHING = GroupStatus(None, None, None)

Rebirth = Callable[[Lease, Birth, pa.Table], None]
"""A function that records in the log, durably and in one step, that the state is born again with a content."""


class EvolvingStore:
    """The store of a state that a start evolves. `trident_state.store.Store` documents the promise of each method.

    `former` is the store in the former shape, `present` the same store in the present shape, `birth` the birth of the
    state in the present shape, after its last batch in the former shape. `former_writes`: whether batches of the former
    program can be applied.
    """

    def __init__(
        self,
        former: Store,
        present: Store,
        shape: Former,
        birth: Birth,
        rebirth: Rebirth,
        where: str,
        former_writes: bool,
    ) -> None:
        self._former, self._present, self._shape, self._where = former, present, shape, where
        self._birth, self._rebirth = birth, rebirth
        self._former_writes = former_writes
        self._lock = threading.RLock()
        """Held by each call of the former store, so that none is under way when the state is born again."""
        self._phase: Literal["former", "emptying", "present"] = "former"
        """"emptying": the log has the content, and the store still has the values in the former shape."""

    @property
    def isPrompt(self) -> bool:
        """See `FewReadable`."""
        return self.shareable and bool(getattr(self._present, "isPrompt", False))

    @property
    def shareable(self) -> bool:
        """True once the store has its present shape: only then can other processes work on it."""
        return self._phase == "present"

    @property
    def settled(self) -> Store:
        """The store in its present shape, with all that it can do; this object until the state has that shape."""
        return self._present if self.shareable else self

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of the store about its server."""
        return tuple(getattr(self._former, "warnings", ()))

    # --- start -----------------------------------------------------------------------------------------------

    def report(self) -> StoreReport:
        return self._store.report()

    def create(self, lease: Lease, birth: int) -> None:
        if self._phase == "former":
            raise self._lost("is lost")
        self._present.create(lease, birth)
        self._phase = "present"

    def acquire(self, lease: Lease) -> None:
        with self._lock:
            self._store.acquire(lease)

    # --- write -----------------------------------------------------------------------------------------------

    def apply(self, lease: Lease, update: Update, values: bool = False) -> Applied:
        self._evolve_before(lease, update.txid)
        with self._lock:
            if self._phase != "former":
                return self._present.apply(lease, update, values)
            if not self._former_writes:
                raise self._lost(f"lacks batch {update.txid}")
            return self._former.apply(lease, update, values)

    def _evolve_before(self, lease: Lease, txid: int) -> None:
        """Let the state be born again if batch `txid` is the first batch in the present shape.

        Raises StateBehindError if it was: now the store lacks its content, which the caller gets from the log.
        """
        with self._lock:
            if self._phase == "emptying":
                raise self._behind(txid)
            if self._phase == "present" or txid <= self._birth.txid:
                return
            birth = replace(self._birth, epoch=lease.epoch)
            content = self._content(birth)
            self._former.snapshot()  # waits for a snapshot under way: a later one would be of the former shape
            reach("evolve.before")
            self._rebirth(lease, birth, content)
            reach("evolve.recorded")
            self._phase = "emptying"
        raise self._behind(txid)

    def _behind(self, txid: int) -> StateBehindError:
        return StateBehindError(f"{self._where} must first get its values in the new shape, before batch {txid}", -1)

    def _content(self, birth: Birth) -> pa.Table:
        pages = list(self.scan(birth.txid))
        return pa.concat_tables(pages) if pages else pa.table({})

    def check_keys(self, keys: pa.Table) -> None:
        """Raise StateValueError if the store cannot hold a key."""
        check = getattr(self._present, "check_keys", None)
        if check is not None:
            check(keys)

    # --- read ------------------------------------------------------------------------------------------------

    def groups_of(self) -> tuple[GroupStatus, ...]:
        with self._lock:
            return (_NOTHING,) if self._phase == "emptying" else self._store.groups_of()

    def durable(self) -> int:
        with self._lock:
            return self._store.durable()

    def snapshot(self) -> int:
        with self._lock:
            return self._store.snapshot()

    def read(self, keys: pa.Table, asOf: int | None) -> Found:
        if self._phase != "present":
            with self._lock:
                if self._is_former():
                    found = self._former.read(keys, asOf)
                    return Found(self._shape.changed(found.values), found.asOf)
        return self._present.read(keys, asOf)

    def read_few(self, keys: Sequence[Key], asOf: int | None) -> FewFound | None:
        """Return the values of a few keys as Python values; None until the state has its present shape."""
        few: Any = getattr(self._present, "read_few", None) if self.shareable else None
        return None if few is None else few(keys, asOf)

    def scan(self, asOf: int | None, pageRows: int = 10_000) -> Iterator[pa.Table]:
        return self._pages(lambda store: store.scan(asOf, pageRows))

    def read_for(self, keys: pa.Table, txid: int, time: float) -> pa.Array:
        """Return the values that batch `txid` sees; see `trident_state.store.Forgetful`."""
        if self._phase != "present":
            with self._lock:
                if self._is_former():
                    return self._shape.changed(_forgetful(self._former).read_for(keys, txid, time))
        values: pa.Array = _forgetful(self._present).read_for(keys, txid, time)
        return values

    def scan_for(self, txid: int, time: float) -> Iterator[pa.Table]:
        """Yield all entries that batch `txid` sees; see `trident_state.store.Forgetful`."""
        return self._pages(lambda store: _forgetful(store).scan_for(txid, time))

    def due(self, asOf: int, until: int, most: int | None = None) -> pa.Table | None:
        """Return the keys that are due; None until the state has its present shape. See `trident_state.store.Timed`."""
        if not self.shareable or not isinstance(self._present, Timed):
            return None
        return self._present.due(asOf, until, most)

    def first_due(self, asOf: int, until: int) -> int | None:
        """Return when the first key is due; see `trident_state.store.Timed`."""
        if not self.shareable or not isinstance(self._present, Timed):
            raise SnapshotMovedError(f"{self._where} keeps no due times")
        return self._present.first_due(asOf, until)

    def count(self) -> int | None:
        """Return the number of keys; see `trident_state.store.Counted`."""
        count: Any = getattr(self._store, "count", None)
        return None if count is None else count()

    def _pages(self, scan: Callable[[Store], Iterator[pa.Table]]) -> Iterator[pa.Table]:
        with self._lock:
            former = self._is_former()
        if not former:
            yield from scan(self._present)
            return
        pages = iter(scan(self._former))
        while True:
            with self._lock:
                if self._phase != "former":
                    raise SnapshotMovedError(f"{self._where} changed its shape during the read")
                page = next(pages, None)
            if page is None:
                return
            values = self._shape.changed(page.column("value").combine_chunks())
            page = page.set_column(page.num_columns - 1, "value", values)
            yield page.filter(values.is_valid()) if values.null_count else page

    # --- end -------------------------------------------------------------------------------------------------

    def _is_former(self) -> bool:
        """Return whether the store has the former shape. Raises StateRecoveringError while it is emptied."""
        if self._phase == "emptying":
            raise StateRecoveringError(f"{self._where} is being converted to its new shape; a read has to wait")
        return self._phase == "former"

    def drop(self, lease: Lease | None = None) -> None:
        if self._phase == "former":
            raise self._lost("is older than its record in the log")
        self._present.drop(lease)
        self._phase = "present"

    def leave(self) -> None:
        """Allow no further write to begin."""
        for store in (self._former, self._present):
            getattr(store, "leave", lambda: None)()

    def close(self) -> None:
        # Not the former store of a state that was born again: it would publish a snapshot in its shape.
        with self._lock:
            for store in (self._former, self._present) if self._phase == "former" else (self._present,):
                store.close()

    @property
    def _store(self) -> Store:
        return self._former if self._phase == "former" else self._present

    def _lost(self, what: str) -> StateLostError:
        return StateLostError(
            f"{self._where} {what} while it has the shape of a former program, and this program cannot write that "
            f"shape. Start the previous program, which restores the state from its log, and then this one"
        )


class SharedEvolvingStore(EvolvingStore):
    """An EvolvingStore on which Spark's executors work; see `trident_state.store.Shared`."""

    def open_batch(self, lease: Lease, update: Update) -> Any:
        """Open a batch in every group."""
        self._evolve_before(lease, update.txid)
        return _shared(self._present).open_batch(lease, update)

    def commit_batch(self, batch: Any, update: Update, puts: Sequence[Put]) -> Applied:
        """Commit a batch of which all keys were put."""
        applied: Applied = _shared(self._present).commit_batch(batch, update, puts)
        return applied

    def open_snapshot(self, asOf: int, time: float | None = None) -> SharedSnapshot:
        """Return the state as of a txid, for other processes to read."""
        snapshot: SharedSnapshot = _shared(self._present).open_snapshot(asOf, time)
        return snapshot


def changing_states(stores: Mapping[str, Store]) -> list[str]:
    """Return the names of the states whose values the first batch of a run changes."""
    return [name for name, store in unwatched(stores).items() if isinstance(store, EvolvingStore)]


def _forgetful(store: Store) -> Any:
    return store


def _shared(store: Store) -> Any:
    return store
