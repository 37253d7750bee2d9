"""A state in a driver's memory, as its log tells it to others: the last snapshot, and the batches frozen since."""

import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.errors import LogError, StateError, StateLostError, StateShapeError
from trident.log.frozen_batches import FrozenBatches
from trident.log.protocol import LogReading
from trident_state.fingerprint import Fingerprint, read_fingerprint
from trident_state.memory import MemoryStore
from trident_state.memory.segments import Manifest, read_manifest
from trident_state.memory.store import Pace
from trident_state.store import Combine, Found, StateShape


class _Life(NamedTuple):
    """What tells a state from every other one that was or will be called like it: its log's uuid, and its birth."""

    log: str
    birth: int
    epoch: int


_NEVER = Pace(bytes=1 << 62, seconds=math.inf)
_TRIES = 20


class MemoryReplica:
    """A copy of the state in this process, brought up to what its driver has committed whenever it is asked how far it
    is. Nothing is written: no lease, no snapshot, no file.

    `combine` tells what a batch's value does to the stored one; None where only the driver's code knows. Then the state
    can be read as far as its last snapshot reaches. Any thread.

    A copy is of one life of the state. Where the state is dropped, or its topology reset, every later call is a
    StateError, also when another state of that name stands there by then: a reader that went on with that one would
    see counts fall, and a copy of the old one must take nothing of the new one's batches.
    """

    def __init__(self, log: LogReading, folder: Path, state: str, combine: Combine | None) -> None:
        self._log, self._folder, self._state, self._combine = log, folder, state, combine
        self._lock = threading.Lock()
        self._text: bytes | None = None
        self._store: MemoryStore | None = None
        self._marker = -1
        self._ended = False
        self._life: _Life | None = None
        self._group = ""
        self._text, self.manifest = self._look()

    @property
    def told(self) -> Fingerprint:
        """Keys, value type and aggregator."""
        return read_fingerprint(self.manifest.fingerprint)

    def committed(self) -> int:
        """Bring the copy up to the last committed batch; returns its txid.

        Raises StateError where the state was dropped or reset, StateLostError where a snapshot's file is gone,
        StateShapeError where only the driver's code could go on.
        """
        with self._lock:
            for _ in range(_TRIES):
                gone = self._advance()
                before = self._text
                self._text, self.manifest = self._look()  # after all that was read: it was of this life
                if gone is None:
                    return self._marker
                if self._text == before:
                    raise gone
                self._store = None
            raise StateLostError(
                f"state {self._state!r}: its driver replaced its snapshot {_TRIES} times while it was read"
            )

    def read(self, keys: pa.Table, asOf: int | None) -> Found:
        return self._loaded().read(keys, asOf)

    def scan(self, asOf: int | None, pageRows: int = 10_000) -> Iterator[pa.Table]:
        return self._loaded().scan(asOf, pageRows)

    def close(self) -> None:
        """Let the copy and the log go."""
        self._store = None
        self._log.close()

    # --- how ---------------------------------------------------------------------------------------------------

    def _loaded(self) -> MemoryStore:
        if self._store is None:
            self.committed()
        assert self._store is not None
        return self._store

    def _advance(self) -> StateError | LogError | None:
        """Go on; an error where files or batches went away meanwhile, because a newer snapshot took their place, or
        another life of the state."""
        try:
            committed = self._log.history(self._group).committed
            if self._store is None:
                self._store = self._load()
            for txid in range(self._marker + 1, committed + 1):
                if self._ended:
                    break
                if (gone := self._apply(self._store, txid)) is not None:
                    return gone
        except (StateError, LogError) as error:
            return error
        return None

    def _load(self) -> MemoryStore:
        told, manifest = self.told, self.manifest
        shape = StateShape(told.keys, told.value, self._combine or Combine(told.aggregator, _unknown))
        store = MemoryStore(manifest.identity, shape, manifest.kind, _Home(self), pace=_NEVER, ttl=manifest.ttl)
        store.read(told.keys.empty_table() if len(told.keys) else _ONE_ROW, None)  # loads the snapshot's files
        self._marker, self._ended = manifest.txid, False
        return store

    def _apply(self, store: MemoryStore, txid: int) -> StateError | None:
        try:
            batches = FrozenBatches(self._log, self._group, self._folder)
            result = batches.of_state(txid, self._state)
        except LookupError:
            return StateLostError(
                f"state {self._state!r}: its snapshot stands at txid {self.manifest.txid}, and the log keeps only the "
                f"batches after {self._log.kept_since(self._group)}; restore the checkpoint from a copy"
            )
        if result is None:  # made by a topology without this state: it stands where that began
            self._ended = True
            return None
        if self._combine is None:
            raise StateShapeError(
                f"state {self._state!r}: its snapshot stands at txid {self._marker}, the log is at {txid} or further, "
                f"and what a batch does to a stored value only {self.told.aggregator} knows: "
                f"say openState(..., aggregator={self.told.aggregator.rpartition('.')[2]}()), "
                f"or stop the topology, which takes a snapshot"
            )
        store.apply(self.manifest.lease, batches.update(txid, result))
        self._marker = txid
        return None

    def _look(self) -> tuple[bytes, Manifest]:
        """The manifest in force. Raises StateError where it is not of the state that was opened."""
        where, birth = f"state {self._state!r}", self._log.births().get(self._state)
        text = self._log.manifest(self._state) or None
        if self._life is None and (birth is None or text is None):
            raise StateError(f"{where} has no snapshot in this log: it is not kept in memory")
        if birth is None or text is None:
            raise self._over(f"{where} was dropped while it was open")
        manifest = read_manifest(text, where)
        life = _Life(manifest.log, birth.txid, birth.epoch)
        if self._life not in (None, life):
            raise self._over(
                f"{where} was dropped while it was open, and began anew after txid {birth.txid}: open it again"
            )
        self._life, self._group = life, birth.group
        return text, manifest

    def _over(self, what: str) -> StateError:
        """Let the copy go, in which there may be batches of another life."""
        self._store = None
        return StateError(what)


_ONE_ROW = pa.Table.from_batches([pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))])


def _unknown(stored: object, delta: object) -> object:
    raise AssertionError("a state whose combiner is not known takes no batch")


class _Home:
    """Where the snapshot's files are, for a store that only reads them."""

    def __init__(self, replica: MemoryReplica) -> None:
        self._replica = replica

    @property
    def folder(self) -> Path:
        return self._replica._folder / "states" / self._replica._state

    def manifest(self) -> bytes | None:
        return self._replica._text

    def publish(self, manifest: bytes, lease: Lease) -> None:
        raise AssertionError("a state that is only read publishes nothing")
