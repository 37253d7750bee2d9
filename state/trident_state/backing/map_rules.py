"""The update rules of Trident's three kinds of states: which keys a batch writes, and with which values it combines.

A rule gets one row for each key of the batch: the triple (txid, prev, value) that is stored for the key. The table of
the rules is in ``docs/guide/state.md``. A batch that is applied again was frozen, so it has the same values as before;
the rules differ in whether they rely on that.

(A state without ``groupBy`` is a map with one reserved key; `trident_state.snapshottable_map` turns any key of a map
into such a state.)
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
    """The effect of a batch on some keys: the keys that it writes (`rows`), and the values to combine with (`base`).

    The new value of a written key is its `base` combined with the batch's value, and its `base` becomes prev.
    """

    rows: npt.NDArray[np.bool_]
    base: pa.Array


class MapRule(Protocol):
    """The rule by which a batch updates the stored values of one kind of state."""

    kind: ClassVar[StateKind]

    @classmethod
    def turn(cls, stored: Triples, txid: int) -> BatchEffect:
        """Return the effect of batch `txid` on keys with the triples `stored`.

        No later batch has changed these keys.
        """
        ...


class NonTransactionalMap:
    """The rule for values stored without txid: a reapplied batch counts again.

    Meaning: ``org.apache.storm.trident.state.map.NonTransactionalMap``.
    """

    kind: ClassVar[StateKind] = StateKind.NON_TRANSACTIONAL

    @classmethod
    def turn(cls, stored: Triples, txid: int) -> BatchEffect:
        return BatchEffect(np.ones(len(stored.txids), np.bool_), stored.values)


class TransactionalMap:
    """The rule by which a reapplied batch leaves the values that it already wrote unchanged.

    Meaning: ``org.apache.storm.trident.state.map.TransactionalMap``; here the state also keeps the previous value, for
    committed reads.

    >>> stored = Triples(np.array([4, 5]), pa.array([10, 20]), pa.array([1, 2]))
    >>> TransactionalMap.turn(stored, 5).rows.tolist()
    [True, False]
    """

    kind: ClassVar[StateKind] = StateKind.TRANSACTIONAL

    @classmethod
    def turn(cls, stored: Triples, txid: int) -> BatchEffect:
        return BatchEffect(stored.txids < txid, stored.values)


class OpaqueMap:
    """The rule by which a reapplied batch recomputes the values that it wrote, from prev.

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
