"""Updates whose keys are independent of each other. Spark's workers compute them, each for the keys of its tuples.

An update by key is the same function as on the driver. It gets the tuples of some keys, in their frozen order, and the
state as of the previous batch, restricted to these keys.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.errors import StateKeyError
from trident.base.years import entry_text
from trident.compiler.state_updates import compile_state_update
from trident.compiler.states.overlay import Stored
from trident.compiler.states.update_types import Clock, WindowBatch
from trident.compiler.states.updates import Updated
from trident.plan.nodes import Node, StateSpec, StateUpdate, sources_of, watermarks_of
from trident.plan.state_schema import keys_of
from trident.plan.states import state_traits
from trident_state.binary_arrays import one_chunk
from trident_state.keys import encode_keys, hash_keys


def key_fields(step: StateUpdate) -> tuple[str, ...]:
    """Return the fields of the tuples by which an update can be divided; no fields if it cannot be divided."""
    return state_traits(step).parted_by(step)


def why_not_by_key(step: StateUpdate) -> str | None:
    """Return why executors cannot compute an update key by key; None if they can."""
    return state_traits(step).why_driver(step)


def same_in_parts(step: StateUpdate) -> bool:
    """Return whether an update has the same result for all tuples at once as for one group of keys after another.

    An updater gets a list of tuples, and an object may keep values between calls. So their result for one key may
    depend on the tuples of other keys.
    """
    return state_traits(step).same_in_parts(step)


@dataclass(frozen=True, slots=True)
class KeyedUpdate:
    """An update by key, separated from its plan, so that it can be sent to a worker.

    `keys` are the fields of the tuples that decide which worker gets a tuple.
    """

    step: StateUpdate
    keys: tuple[str, ...]

    @classmethod
    def of(cls, step: StateUpdate) -> "KeyedUpdate":
        """Return the update of a step for which `why_not_by_key` returns None."""
        (before,) = sources_of(step)
        source = Node(step=before.step, site=before.site, schema=before.schema)
        nowhere: Any = None  # the factory may hold an address, and is not needed here
        alone: dict[str, Any] = {"source": source, "state": StateSpec(step.state.name, nowhere)}
        if watermarks_of(step):
            alone["watermark"] = None  # it refers to the whole plan, and `clock` replaces it
        return cls(replace(step, **alone), key_fields(step))

    @property
    def by_event_time(self) -> bool:
        """True if the update has a watermark, and also changes keys that are due by it."""
        return state_traits(self.step).late_by(self.step, 0) is not None

    def owners(self, tuples: pa.Table, tasks: int) -> npt.NDArray[np.int64]:
        """Return for each tuple the number of the task that gets all tuples of its key."""
        hashes = hash_keys(one_chunk(encode_keys(tuples.select(list(self.keys)))))
        return (hashes % np.uint64(tasks)).astype(np.int64)

    def __call__(
        self, tuples: pa.Table, snapshot: Stored, txid: int, time: float, clock: Clock | None = None
    ) -> Updated:
        """Return the result of the update for all tuples of some keys.

        `snapshot` is the state as of the previous batch, `clock` the watermarks of an update by event time.

        Raises StateKeyError for any other key, and all errors of the update.
        """
        own = self._own_keys(tuples, snapshot)
        updated = compile_state_update(self.step)(
            [tuples], own or snapshot, WindowBatch(txid, lambda: time, None, clock=clock)
        )
        if own is not None:
            own.rows(updated.puts.select(list(self.keys)))
        return updated

    def _own_keys(self, tuples: pa.Table, snapshot: Stored) -> "OwnKeys | None":
        """Return the state of the tuples' keys; None for a window, which has entries under other keys."""
        if self.by_event_time or tuple(keys_of(self.step).names) != self.keys:
            return None
        return OwnKeys(f"{self.step.step}: state {self.step.state.name!r}", tuples.select(list(self.keys)), snapshot)


class OwnKeys(Stored):
    """A state as of the previous batch, restricted to some keys. All of them are read in one read."""

    def __init__(self, where: str, keys: pa.Table, snapshot: Stored) -> None:
        encoded = one_chunk(encode_keys(keys)).dictionary_encode()
        first = np.zeros(len(encoded.dictionary), np.int64)
        rows = np.arange(keys.num_rows)
        first[encoded.indices.to_numpy()[::-1]] = rows[::-1]  # if a key has several rows, the last assignment is kept
        self._where, self._snapshot = where, snapshot
        self._keys, self._encoded = keys.take(pa.array(first)), encoded.dictionary
        self._values: pa.Array | None = None

    def rows(self, keys: pa.Table) -> pa.Array:
        """Return the number of each key. Raises StateKeyError for any other key."""
        rows = pc.index_in(encode_keys(keys), value_set=self._encoded)
        if rows.null_count:
            row = rows.is_null().index(True).as_py()
            raise self._refused(f"the call used the key ({entry_text(keys, row)}), which is not one of them")
        return rows

    def read(self, keys: pa.Table) -> pa.Array:
        """Return one stored value for each row; null if there is none."""
        rows = self.rows(keys)
        if self._values is None:
            self._values = self._snapshot.read(self._keys)
        return one_chunk(self._values.take(rows))

    def scan(self) -> Iterator[pa.Table]:
        """Raise StateKeyError, because a list of all entries would include other keys."""
        raise self._refused("the call listed all entries, also those of other keys")

    def _refused(self, what: str) -> StateKeyError:
        return StateKeyError(
            f"{self._where}: Spark's executors update it: each call gets the tuples of some keys, and may read and "
            f"change only these keys; {what}. Declare the state with writers='driver'"
        )


@dataclass(frozen=True, slots=True)
class OwnDue(Stored):
    """A state as of the previous batch, with a given table of some keys that are due."""

    snapshot: Stored
    keys: pa.Table

    def read(self, keys: pa.Table) -> pa.Array:
        """Return one stored value for each row; null if there is none."""
        return self.snapshot.read(keys)

    def scan(self) -> Iterator[pa.Table]:
        """Yield all entries, also those of other keys."""
        return self.snapshot.scan()

    def due(self, until: int, most: int | None = None) -> pa.Table:
        """Return the given keys. They were read with the same `until`."""
        return self.keys
