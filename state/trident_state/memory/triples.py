"""The triples (txid, value, prev) of all slots, one row each.

The keys of a batch lie anywhere in a large state, and whatever is not in the processor's cache is fetched line by line.
A row takes one line or two; columns for txid, value, prev and their validity would take five.
"""

import msgspec
import numpy as np
import numpy.typing as npt

from trident_state.memory.value_columns import Cells, Column, Slots

_Txids = npt.NDArray[np.int64]


class Triples(msgspec.Struct, frozen=True):
    """The triples of some slots, copied. `prevs` is None in a non-transactional state."""

    txids: _Txids
    values: Cells
    prevs: Cells | None

    def __len__(self) -> int:
        return len(self.txids)

    def __getitem__(self, rows: slice | Slots) -> "Triples":
        return Triples(self.txids[rows], self.values[rows], None if self.prevs is None else self.prevs[rows])


class Rows:
    """Triples by slot; txid 0 and nulls where none was put."""

    def __init__(self, column: Column, versioned: bool) -> None:
        fields: list[tuple[str, npt.DTypeLike]] = [("txid", np.int64), ("value", column.dtype)]
        flags: list[tuple[str, npt.DTypeLike]] = [("value there", np.bool_)]
        if versioned:
            fields.append(("prev", column.dtype))
            flags.append(("prev there", np.bool_))
        self._versioned = versioned
        self._rows = np.zeros(0, np.dtype(fields + flags, align=True))

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def width(self) -> int:
        """The bytes of a slot, objects not included."""
        return self._rows.itemsize

    def reserve(self, capacity: int) -> None:
        """Make room for `capacity` slots; the old rows stay as they are for their readers."""
        larger = np.zeros(capacity, self._rows.dtype)
        larger[: len(self)] = self._rows
        self._rows = larger

    def txids(self, count: int) -> _Txids:
        """Return the txids of the first `count` slots; not a copy."""
        return self._rows["txid"][:count]

    def has_value(self, count: int) -> npt.NDArray[np.bool_]:
        """Return which of the first `count` slots hold a value; not a copy."""
        return self._rows["value there"][:count]

    def take(self, slots: Slots | slice) -> Triples:
        """Return a copy of these slots' triples."""
        rows = self._rows[slots].copy() if isinstance(slots, slice) else self._rows.take(slots)
        prevs = Cells(rows["prev"], rows["prev there"]) if self._versioned else None
        return Triples(rows["txid"], Cells(rows["value"], rows["value there"]), prevs)

    def put(self, slots: Slots, triples: Triples) -> None:
        """Overwrite the triples of these slots, each as a whole."""
        rows = np.empty(len(slots), self._rows.dtype)
        rows["txid"] = triples.txids
        rows["value"], rows["value there"] = triples.values.data, triples.values.valid
        if triples.prevs is not None:
            rows["prev"], rows["prev there"] = triples.prevs.data, triples.prevs.valid
        _as_bytes(self._rows)[slots] = _as_bytes(rows)


def _as_bytes(rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Return the rows as bytes, which NumPy copies faster than fields; unchanged where they hold object references."""
    return rows if rows.dtype.hasobject else rows.view(f"V{rows.itemsize}")
