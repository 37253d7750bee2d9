"""Stored triples (txid, prev, value), a column each."""

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trident_state.binary import spread

NOTHING = -1
"""The txid of a key that is not there."""


class Triples(msgspec.Struct, frozen=True):
    """One triple a row; where nothing is stored, the txid is NOTHING and both values are null."""

    txids: npt.NDArray[np.int64]
    values: pa.Array
    prevs: pa.Array

    @classmethod
    def bare(cls, values: pa.Array) -> "Triples":
        """Values that have neither txid nor prev: 0 and null."""
        return cls(np.zeros(len(values), np.int64), values, pa.nulls(len(values), values.type))

    def spread(self, there: npt.NDArray[np.bool_]) -> "Triples":
        """These triples at the rows that are there, nothing between them."""
        txids = np.full(len(there), NOTHING, np.int64)
        txids[there] = self.txids
        return Triples(txids, spread(there, self.values), spread(there, self.prevs))

    def take(self, rows: npt.NDArray[np.int64]) -> "Triples":
        """These rows, in this order."""
        place = pa.array(rows)
        return Triples(self.txids[rows], self.values.take(place), self.prevs.take(place))
