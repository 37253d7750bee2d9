"""The sources from which a copy of a topology may continue at the position of the first one.

A position is enough if reading changes nothing in the source. A source that takes messages out of a queue, or whose
server keeps the position, has room for one topology only (docs/decisions/0073).
"""

from typing import Protocol, runtime_checkable


@runtime_checkable
class Forkable(Protocol):
    """A spout that says whether a second topology may read the source from a copied position.

    A spout without this property says no.
    """

    @property
    def forkable(self) -> bool: ...


@runtime_checkable
class Holding(Protocol):
    """A spout that knows the name of the resource of its source that only one topology may use."""

    @property
    def holds(self) -> str: ...


def is_forkable(spout: object) -> bool:
    """Return whether a second topology may read the source of `spout` from a copied position.

    >>> from trident_spouts.fixed import FixedBatchSpout
    >>> is_forkable(FixedBatchSpout("n long", [])), is_forkable(object())
    (True, False)
    """
    return isinstance(spout, Forkable) and spout.forkable


def held_by(spout: object) -> str:
    """Return the resource that only one topology may use; "" if the spout names none."""
    return spout.holds if isinstance(spout, Holding) else ""
