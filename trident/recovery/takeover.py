"""What a driver meets that is not alone: another one that started meanwhile explains everything strange."""

from collections.abc import Iterator
from contextlib import contextmanager

from trident.base.attempt import Lease
from trident.base.errors import FencedError, LogError, StateError
from trident.log.protocol import TransactionLog


def explained(error: BaseException, log: TransactionLog, lease: Lease | None) -> BaseException:
    """The error, or the FencedError behind it, where another driver has taken the log since it was under `lease`.

    Only writes are refused to a driver that was taken over. What it reads may be gone or ahead of it; it would say that
    the log or a state is lost, and somebody might reset what another driver works on.
    """
    if not isinstance(error, StateError | LogError):
        return error
    try:
        now = log.lease()
    except LogError:
        return error
    if not _later(now, lease):
        return error
    fenced = FencedError(
        f"another driver took this topology over meanwhile (epoch {now.epoch if now else 0}); this one stops. "
        f"What it met: {error}"
    )
    fenced.__cause__ = error
    return fenced


@contextmanager
def explaining(log: TransactionLog, lease: Lease | None) -> Iterator[None]:
    """Raise what `explained` makes of an error."""
    try:
        yield
    except Exception as error:
        why = explained(error, log, lease)
        if why is error:
            raise
        raise why from error


def _later(now: Lease | None, lease: Lease | None) -> bool:
    """Whether another driver took the log. Giving it back, which leaves the epoch and no token, is no taking."""
    if now == lease:
        return False
    return now is None or lease is None or now.epoch != lease.epoch or bool(now.token)
