"""The triples (txid, prev, value) of several keys, as three columns."""

from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trident.base.value_conversion import to_python
from trident_state.binary_arrays import spread_rows

NOTHING = -1
"""The txid in the triple of a key for which nothing is stored."""


class FewTriples(NamedTuple):
    """The triples of a few keys, as Python values. A key without a stored triple has txid NOTHING and None twice."""

    txids: list[int]
    values: list[Any]
    prevs: list[Any]


class Triples(msgspec.Struct, frozen=True):
    """The triples of several keys, one per row. The row of a key without a stored triple has txid NOTHING and nulls."""

    txids: npt.NDArray[np.int64]
    values: pa.Array
    prevs: pa.Array

    @classmethod
    def bare(cls, values: pa.Array) -> "Triples":
        """Return triples for values that are stored without txid and prev: every txid is 0, every prev is null."""
        return cls(np.zeros(len(values), np.int64), values, pa.nulls(len(values), values.type))

    def spread(self, present: npt.NDArray[np.bool_]) -> "Triples":
        """Return one row for each entry of `present`: the next triple if it is True, otherwise NOTHING and nulls."""
        txids = np.full(len(present), NOTHING, np.int64)
        txids[present] = self.txids
        return Triples(txids, spread_rows(present, self.values), spread_rows(present, self.prevs))

    def few(self) -> FewTriples:
        """Return the triples as Python values."""
        return FewTriples(self.txids.tolist(), to_python(self.values), to_python(self.prevs))

    def take(self, rows: npt.NDArray[np.int64]) -> "Triples":
        """Return the triples of the given rows, in the order of `rows`."""
        indices = pa.array(rows)
        return Triples(self.txids[rows], self.values.take(indices), self.prevs.take(indices))
