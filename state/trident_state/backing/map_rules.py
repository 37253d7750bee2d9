"""The update rules of Trident's three kinds of states: which rows a batch writes, and which values it combines with.

There is one row per key of the batch, with the triple that is stored of it: (txid, prev, value). The table of the
rules is in ``docs/guide/state.md``. A batch that is applied again was frozen, so it holds the same values; the rules
differ in whether they rely on that.
(A state without ``groupBy`` is a map with one reserved key; `trident_state.snapshottable` makes one of any map's key.)
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident_state.records.triples import Triples
from trident_state.state_shape import StateKind


@dataclass(frozen=True, slots=True)
class BatchEffect:
    """The effect of a batch on some keys: `rows` are written, with ``update(base)``, and `base` becomes prev."""

    rows: npt.NDArray[np.bool_]
    base: pa.Array


class MapRule(Protocol):
    """The rule by which a batch updates stored values."""

    kind: ClassVar[StateKind]

    @classmethod
    def turn(cls, stored: Triples, txid: int) -> BatchEffect:
        """Return the effect of batch `txid` on these keys; no later batch has changed any of them."""
        ...


class NonTransactionalMap:
    """The rule for values without txid: a batch that is applied again counts again.

    Meaning: ``org.apache.storm.trident.state.map.NonTransactionalMap``.
    """

    kind: ClassVar[StateKind] = StateKind.NON_TRANSACTIONAL

    @classmethod
    def turn(cls, stored: Triples, txid: int) -> BatchEffect:
        return BatchEffect(np.ones(len(stored.txids), np.bool_), stored.values)


class TransactionalMap:
    """The rule under which a value that this batch has written already stays: it is the result.

    Meaning: ``org.apache.storm.trident.state.map.TransactionalMap``; the value before is kept too, for committed reads.

    >>> stored = Triples(np.array([4, 5]), pa.array([10, 20]), pa.array([1, 2]))
    >>> TransactionalMap.turn(stored, 5).rows.tolist()
    [True, False]
    """

    kind: ClassVar[StateKind] = StateKind.TRANSACTIONAL

    @classmethod
    def turn(cls, stored: Triples, txid: int) -> BatchEffect:
        return BatchEffect(stored.txids < txid, stored.values)


class OpaqueMap:
    """The rule under which a value that this batch has written already is computed again from the value before it.

    Meaning: ``org.apache.storm.trident.state.map.OpaqueMap``.

    >>> stored = Triples(np.array([4, 5]), pa.array([10, 20]), pa.array([1, 2]))
    >>> OpaqueMap.turn(stored, 5).base.to_pylist()
    [10, 2]
    """

    kind: ClassVar[StateKind] = StateKind.OPAQUE

    @classmethod
    def turn(cls, stored: Triples, txid: int) -> BatchEffect:
        again = pa.array(stored.txids == txid)
        return BatchEffect(np.ones(len(stored.txids), np.bool_), pc.if_else(again, stored.prevs, stored.values))


RULES: dict[StateKind, type[MapRule]] = {rule.kind: rule for rule in (NonTransactionalMap, TransactionalMap, OpaqueMap)}
