"""An index of the keys of a state by their due times. It is kept beside the state, in this process only."""

import heapq
from collections.abc import Sequence

import pyarrow as pa

from trident.compiler.states.overlay import Stored
from trident.compiler.windows.open_windows import BatchIndex
from trident_state.binary_arrays import one_chunk
from trident_state.keys import decode_keys, encode_keys
from trident_state.state_shape import StateShape


class DueKeys(BatchIndex):
    """The due time of each key of a state whose shape has the function `due`: the end of its first session, a timer.

    The times describe the state after one batch. After a restart, or if a batch is computed once more, they are read
    again from the state.
    """

    def __init__(self, shape: StateShape) -> None:
        assert shape.due is not None
        self._keys, self._due = shape.keys, shape.due
        self._times: dict[bytes, int] = {}
        self._heap: list[tuple[int, bytes]] = []

    def _read(self, stored: Stored) -> None:
        self._times, self._heap = {}, []
        for page in stored.scan():
            times = self._due(one_chunk(page.column(page.num_columns - 1)))
            self.set(page.select(self._keys.names), times.to_pylist())

    def set(self, keys: pa.Table, times: Sequence[int | None]) -> None:
        """Set for each of these keys the time at which it is due; None for a key that is never due."""
        for key, time in zip(encode_keys(keys).to_pylist(), times, strict=True):
            if time is None:
                self._times.pop(key, None)
            elif self._times.get(key) != time:
                self._times[key] = time
                heapq.heappush(self._heap, (time, key))

    def until(self, time: int, most: int | None = None) -> pa.Table:
        """Take out the keys that are due at or before this time, at most `most`, and return them in that order.

        A key that stays due must be set again.
        """
        keys: list[bytes] = []
        while (first := self.first()) is not None and first <= time and len(keys) != most:
            key = heapq.heappop(self._heap)[1]
            del self._times[key]
            keys.append(key)
        return decode_keys(pa.array(keys, pa.binary()), self._keys)

    def first(self) -> int | None:
        """Return the time at which the first key is due; None if no key is."""
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # the key was set to another time later
        return self._heap[0][0] if self._heap else None
