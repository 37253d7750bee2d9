"""When the time of the attempts is over that compute."""

from collections.abc import Collection

from trident.base.attempt import TransactionAttempt

_MOST_DOUBLINGS = 10
"""Attempt numbers go on over restarts; a deadline of years is none, and a float overflows."""


class Deadlines:
    """Of attempts, in seconds of one clock. The time doubles at each retry of a batch."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: dict[TransactionAttempt, tuple[float, float]] = {}
        """When its time is over, and how much it was."""

    def __len__(self) -> int:
        return len(self._until)

    def begin(self, attempt: TransactionAttempt, now: float) -> None:
        """The attempt computes from now on."""
        seconds = self._seconds * 2 ** min(attempt.attempt, _MOST_DOUBLINGS)
        self._until[attempt] = now + seconds, seconds

    def next(self, otherwise: float) -> float:
        """When the first one is over."""
        return min([when for when, _ in self._until.values()]) if self._until else otherwise

    def over(self, now: float, computing: Collection[TransactionAttempt]) -> list[tuple[TransactionAttempt, float]]:
        """Those whose time is over, with how much it was, taken out; those that compute no more are forgotten."""
        found = []
        for attempt, (when, seconds) in list(self._until.items()):
            if attempt in computing and now < when:
                continue
            del self._until[attempt]
            if attempt in computing:
                found.append((attempt, seconds))
        return found
