"""Stored triples (txid, prev, value), as three columns."""

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trident_state.binary import spread_rows

NOTHING = -1
"""The txid of a key that is not there."""


class Triples(msgspec.Struct, frozen=True):
    """One triple per row; where nothing is stored, the txid is NOTHING and both values are null."""

    txids: npt.NDArray[np.int64]
    values: pa.Array
    prevs: pa.Array

    @classmethod
    def bare(cls, values: pa.Array) -> "Triples":
        """Return the triples of values without txid and prev: the txid is 0, prev is null."""
        return cls(np.zeros(len(values), np.int64), values, pa.nulls(len(values), values.type))

    def spread(self, present: npt.NDArray[np.bool_]) -> "Triples":
        """Return these triples at the rows that are present, and nothing in between."""
        txids = np.full(len(present), NOTHING, np.int64)
        txids[present] = self.txids
        return Triples(txids, spread_rows(present, self.values), spread_rows(present, self.prevs))

    def take(self, rows: npt.NDArray[np.int64]) -> "Triples":
        """Return these rows, in this order."""
        indices = pa.array(rows)
        return Triples(self.txids[rows], self.values.take(indices), self.prevs.take(indices))
