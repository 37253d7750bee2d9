"""The first txid as of which a state has values.

A state that began with a content has none before it: its store was created empty, one txid earlier. What an earlier
life of the state held then is gone, so a read as of such a txid is refused.
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
            f"state {state!r} began with a content as of txid {first}, so it cannot be read as of txid {txid}: it was "
            f"created, got another shape, or was restored to a savepoint then. Read without asOf",
            range(min(first, committed), committed + 1),
        )
