"""Sources from which a fork of a topology can continue at the original's position.

A position is enough if reading does not change the source. A queue from which messages are taken, or a server that
keeps the position, can serve only one topology (docs/decisions/0073).
"""

from typing import Protocol, runtime_checkable


@runtime_checkable
class Forkable(Protocol):
    """A spout that declares whether a second topology may read the source from a copied position.

    A spout without this property does not allow it.
    """

    @property
    def forkable(self) -> bool: ...


@runtime_checkable
class Holding(Protocol):
    """A spout that names the resource of its source that only one topology may use."""

    @property
    def holds(self) -> str: ...


def is_forkable(spout: object) -> bool:
    """Return whether a second topology may read the source of `spout` from a copied position.

    >>> from trident_spouts.fixed_batch_spout import FixedBatchSpout
    >>> is_forkable(FixedBatchSpout("n long", [])), is_forkable(object())
    (True, False)
    """
    return isinstance(spout, Forkable) and spout.forkable


def held_by(spout: object) -> str:
    """Return the resource that only one topology may use; "" if the spout names none."""
    return spout.holds if isinstance(spout, Holding) else ""
