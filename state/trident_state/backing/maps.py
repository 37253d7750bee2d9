"""The three ways of bringing a stored value up to date, as rules: which rows a batch writes, and what it combines with.

One row a key of the batch, with what is stored of it: (t, prev, value). Their table is in ``docs/guide/state.md``.
A batch that is applied again was frozen, so it brings the same; the rules differ in whether they lean on that.
(A state without ``groupBy`` is a map with one reserved key; `trident_state.snapshottable` makes one of any map's key.)
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident_state.records.triples import Triples
from trident_state.store import StateKind


@dataclass(frozen=True, slots=True)
class Turn:
    """What batch txid does to some keys: `rows` are written, with ``update(base)``; `base` becomes the value before."""

    rows: npt.NDArray[np.bool_]
    base: pa.Array


class MapRule(Protocol):
    """How stored values meet a batch."""

    kind: ClassVar[StateKind]

    @classmethod
    def turn(cls, stored: Triples, txid: int) -> Turn:
        """What batch `txid` does to these keys. None of them is of a later batch."""
        ...


class NonTransactionalMap:
    """Values alone: a batch that is applied again counts again.

    Meaning: ``org.apache.storm.trident.state.map.NonTransactionalMap``.
    """

    kind: ClassVar[StateKind] = StateKind.NON_TRANSACTIONAL

    @classmethod
    def turn(cls, stored: Triples, txid: int) -> Turn:
        return Turn(np.ones(len(stored.txids), np.bool_), stored.values)


class TransactionalMap:
    """A value that batch txid has written already stays: it is the answer.

    Meaning: ``org.apache.storm.trident.state.map.TransactionalMap``; the value before is kept too, for committed reads.

    >>> stored = Triples(np.array([4, 5]), pa.array([10, 20]), pa.array([1, 2]))
    >>> TransactionalMap.turn(stored, 5).rows.tolist()
    [True, False]
    """

    kind: ClassVar[StateKind] = StateKind.TRANSACTIONAL

    @classmethod
    def turn(cls, stored: Triples, txid: int) -> Turn:
        return Turn(stored.txids < txid, stored.values)


class OpaqueMap:
    """A value that batch txid has written already is made anew from the value before it.

    Meaning: ``org.apache.storm.trident.state.map.OpaqueMap``.

    >>> stored = Triples(np.array([4, 5]), pa.array([10, 20]), pa.array([1, 2]))
    >>> OpaqueMap.turn(stored, 5).base.to_pylist()
    [10, 2]
    """

    kind: ClassVar[StateKind] = StateKind.OPAQUE

    @classmethod
    def turn(cls, stored: Triples, txid: int) -> Turn:
        again = pa.array(stored.txids == txid)
        return Turn(np.ones(len(stored.txids), np.bool_), pc.if_else(again, stored.prevs, stored.values))


RULES: dict[StateKind, type[MapRule]] = {rule.kind: rule for rule in (NonTransactionalMap, TransactionalMap, OpaqueMap)}
