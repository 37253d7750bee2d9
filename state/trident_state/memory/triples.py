"""The triple (txid, value, prev) of each slot, together in one place.

The keys of a batch lie anywhere in a large state, and what is not in the processor's cache has to be fetched, line by
line: a row is one line or two, where a column each for txid, values, which of them are there, and so on would be five.
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
        """Bytes a slot takes, apart from objects."""
        return self._rows.itemsize

    def reserve(self, capacity: int) -> None:
        """Room for so many slots. The old rows stay as they were for whoever reads them."""
        larger = np.zeros(capacity, self._rows.dtype)
        larger[: len(self)] = self._rows
        self._rows = larger

    def txids(self, count: int) -> _Txids:
        """Of the first slots; not a copy."""
        return self._rows["txid"][:count]

    def there(self, count: int) -> npt.NDArray[np.bool_]:
        """Which of the first slots hold a value; not a copy."""
        return self._rows["value there"][:count]

    def take(self, slots: Slots | slice) -> Triples:
        """A copy of these slots' triples."""
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
        _pieces(self._rows)[slots] = _pieces(rows)


def _pieces(rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """The rows as bytes, which NumPy copies faster than fields; not where it has to count references."""
    return rows if rows.dtype.hasobject else rows.view(f"V{rows.itemsize}")
