"""Limits of the attempts at a batch that fails: their number, the time for them, and the pauses between them."""

from dataclasses import dataclass

from trident.base.errors import BatchFailedError
from trident.base.outages import is_away
from trident.configuration.settings import Settings
from trident.configuration.start_options import OPTIONS

DEFAULT_ATTEMPTS: int = OPTIONS["maxAttempts"].default

OUTAGE_SECONDS = 60.0
"""Seconds for which a batch is retried by default while a service that the user's code needs does not answer."""

_LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class Retries:
    """The limits of one batch's attempts. The batch is given up when both limits are reached.

    most: the number of failures; None: the batch is never given up. seconds: the sum of the pauses. If it is None, the
    limit is `OUTAGE_SECONDS` while a service is unavailable and `most` is the default, and 0 otherwise.
    """

    most: int | None = DEFAULT_ATTEMPTS
    seconds: float | None = None

    def are_over(self, failures: int, waited: float, error: BaseException) -> bool:
        """Return whether a batch is given up after this many failures and this many seconds of pauses."""
        if self.most is None or failures < self.most:
            return False
        return waited >= self._seconds(error)

    def pause(self, failures: int, waited: float, error: BaseException) -> float:
        """Return the seconds before the next attempt: 0 before the first replay, up to a minute before later ones.

        >>> [Retries().pause(n, 0.0, ValueError()) for n in (1, 2, 3, 4)]
        [0.0, 0.1, 0.2, 0.4]
        """
        if failures <= 1:
            return 0.0
        pause = min(_LONGEST_PAUSE, 0.1 * 2.0 ** min(failures - 2, 12))  # min: a higher power would overflow
        if self.most is None or failures < self.most:
            return pause
        return min(pause, max(0.0, self._seconds(error) - waited))

    def _seconds(self, error: BaseException) -> float:
        if self.seconds is not None:
            return self.seconds
        return OUTAGE_SECONDS if self.most == DEFAULT_ATTEMPTS and is_away(error) else 0.0


def retries_of(settings: Settings) -> Retries:
    """Return the limits that the options of a run set."""
    return Retries(settings.maxAttempts, settings.retrySecs)


def longer(error: BaseException) -> str:
    """Return the advice for a batch that was given up while a service was unavailable; "" for other batches."""
    if not is_away(error):
        return ""
    return (
        " (retrySecs= sets how long a batch is retried while a service is unavailable; maxAttempts=None retries "
        "without limit)"
    )


def deadly(txid: int, deaths: int) -> BatchFailedError:
    """Return the error for a batch during which as many drivers died as a batch may have attempts."""
    return BatchFailedError(
        f"the driver died {deaths} times in a row during batch {txid} (maxAttempts={deaths}): perhaps it ran out of "
        f"memory, or some code ends the process. Nothing of the batch was written. This run stops; the next start "
        f"tries the batch again"
    )


@dataclass(slots=True)
class Failures:
    """The failures of one batch: their number, the seconds of pauses so far, and the pause before the next attempt."""

    number: int = 0
    waited: float = 0.0
    pause: float = 0.0

    def count(self, error: BaseException, retries: Retries) -> bool:
        """Count one more failure, and return whether the batch is retried."""
        self.number += 1
        if retries.are_over(self.number, self.waited, error):
            return False
        self.pause = retries.pause(self.number, self.waited, error)
        self.waited += self.pause
        return True
