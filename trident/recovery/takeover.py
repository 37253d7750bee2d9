"""Report a takeover by another driver as FencedError, whatever symptom surfaced first."""

from collections.abc import Iterator
from contextlib import contextmanager

from trident.base.attempt import Lease
from trident.base.errors import FencedError, LogError, StateError
from trident.log.protocol import TransactionLog


def explained(error: BaseException, log: TransactionLog, lease: Lease | None) -> BaseException:
    """Return the error, or a FencedError that explains it if another driver took the log after `lease`.

    The lease fences writes only. A driver that was taken over still reads, and may find states gone or ahead of it.
    Without this, its message would say that the log or a state is lost, and its user might reset what another driver
    works on.
    """
    if not isinstance(error, StateError | LogError):
        return error
    try:
        now = log.lease()
    except LogError:  # without the log, nothing tells whether there was a takeover: the first error stands
        return error
    if not _later(now, lease):
        return error
    fenced = FencedError(
        f"another driver took this topology over meanwhile (epoch {now.epoch if now else 0}); this one stops. "
        f"Its last error: {error}"
    )
    fenced.__cause__ = error
    return fenced


@contextmanager
def explaining(log: TransactionLog, lease: Lease | None) -> Iterator[None]:
    """Raise errors of the block as `explained` returns them."""
    try:
        yield
    except Exception as error:
        explanation = explained(error, log, lease)
        if explanation is error:
            raise
        raise explanation from error


def _later(now: Lease | None, lease: Lease | None) -> bool:
    """Return whether another driver took the log. A give-back is no takeover: the epoch stays, the token is empty."""
    if now == lease:
        return False
    return now is None or lease is None or now.epoch != lease.epoch or bool(now.token)
