"""Limited places of a server (such as requests in flight), shared fairly between the tokens of its clients."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trident.server.errors import RequestError

GiveBack = Callable[[], None]
"""A function that frees a place. A second call does nothing."""


class RequestSlots:
    """Gives out at most `most` places, each to a holder. Only the thread of one event loop may call.

    One holder may have all places, unless the places are `shared`. Then a holder gets a place only while it has fewer
    places than are free, so that each holder leaves some to the others: the first holder gets half of all places, the
    next a quarter.

    >>> places = RequestSlots("readers", 8, shared=True)
    >>> [places.take("shop") is None for _ in range(5)], places.take("operator") is None
    ([False, False, False, False, True], False)
    """

    def __init__(self, what: str, most: int, *, shared: bool, kind: str = "Overloaded") -> None:
        self._what, self._most, self._shared, self._kind = what, most, shared, kind
        self._taken = Counter[str]()

    def take(self, holder: str) -> GiveBack | None:
        """Take a place, and return the function that frees it; None if the holder cannot have one now.

        The check and the count are one step: there is no await between them.
        """
        free, mine = self._most - self._taken.total(), self._taken[holder]
        if free <= 0 or (self._shared and mine >= free):
            return None
        self._taken[holder] += 1
        back = False

        def give_back() -> None:
            nonlocal back
            if not back:
                back = True
                self._taken[holder] -= 1

        return give_back

    def demand(self, holder: str) -> GiveBack:
        """Take a place, and return the function that frees it.

        Raises RequestError if the holder cannot have one now.
        """
        if (give_back := self.take(holder)) is not None:
            return give_back
        mine = self._taken[holder]
        share = f", of which this token already holds its share ({mine})" if self._taken.total() < self._most else ""
        raise RequestError(
            503, self._kind, f"this server allows {self._most} {self._what}{share}; try again", {"Retry-After": "1"}
        )

    @contextmanager
    def taken(self, holder: str) -> Iterator[None]:
        """Hold a place until the end of the block. Raises RequestError if the holder cannot have one now."""
        give_back = self.demand(holder)
        try:
            yield
        finally:
            give_back()
