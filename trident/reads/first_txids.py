"""The first txid as of which a state has values.

A state with initial content has no values before the txid of that content: its store was created empty, one txid
earlier. The values of an earlier incarnation of the state are gone, so a read as of such a txid is refused.
"""

from typing import Any, Protocol, runtime_checkable

from trident.base.errors import TxidNotKeptError


@runtime_checkable
class KnowsBirths(Protocol):
    """A source of reads that knows when its states began."""

    def first_txid(self, state: str) -> int:
        """Return the first txid as of which a state has values; 0 if it has none, or began without any."""
        ...


def first_txid(source: Any, state: str) -> int:
    """Return the first txid as of which a state has values, as far as the source knows it."""
    return source.first_txid(state) if isinstance(source, KnowsBirths) else 0


def check_begun(source: Any, state: str, txid: int, committed: int) -> None:
    """Raise TxidNotKeptError if a state had no values as of a txid yet."""
    first = first_txid(source, state)
    if txid < first:
        raise TxidNotKeptError(
            f"state {state!r} begins at txid {first}, at which it was created, changed its shape or was restored to a "
            f"savepoint, so it cannot be read as of txid {txid}. Read it without asOf",
            range(min(first, committed), committed + 1),
        )
