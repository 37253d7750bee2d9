"""Report a takeover by another driver as FencedError, whatever error it caused first."""

from collections.abc import Iterator
from contextlib import contextmanager

from trident.base.attempt import Lease
from trident.base.errors import FencedError, LogError, OutputConflictError, StateError, TridentError
from trident.log.protocol import TransactionLog


class OvertakenError(FencedError):
    """Another driver took the log before a start that was to follow one certain lease.

    The start has written nothing.
    """


def explained(error: BaseException, log: TransactionLog, lease: Lease | None) -> BaseException:
    """Return a FencedError if another driver took the log after `lease` was issued, otherwise the error itself.

    The lease fences only writes. A driver that was taken over still reads, and may find states gone or ahead of it, an
    output with batches that it does not know, or a batch with the fields of another program, over which this library's
    own code fails. Without this function, the error's message would say that the log or a state is lost, or the log an
    old copy, and a user might reset what another driver is working on. An error of a user's function is returned
    unchanged.
    """
    of_a_user = isinstance(error, TridentError) and not isinstance(error, StateError | LogError | OutputConflictError)
    if of_a_user or not isinstance(error, Exception):
        return error
    try:
        now = log.lease()
    except LogError:  # the log, which could tell of a takeover, is not there: the first error stands
        return error
    if not _later(now, lease):
        return error
    fenced = FencedError(
        f"another driver has taken this topology over (epoch {now.epoch if now else 0}); this driver stops. "
        f"Its last error: {error}"
    )
    fenced.__cause__ = error
    return fenced


@contextmanager
def explaining(log: TransactionLog, lease: Lease | None) -> Iterator[None]:
    """Raise each error of the block as `explained` returns it."""
    try:
        yield
    except Exception as error:
        explanation = explained(error, log, lease)
        if explanation is error:
            raise
        raise explanation from error


@contextmanager
def overtaken(after: Lease | None) -> Iterator[None]:
    """Raise a FencedError of the block as OvertakenError if the start was to follow only the lease `after`."""
    try:
        yield
    except FencedError as error:
        if after is None:
            raise
        raise OvertakenError(str(error)) from error


def _later(now: Lease | None, lease: Lease | None) -> bool:
    """Return whether another driver took the log after `lease` was issued.

    A give-back is no takeover: the epoch stays the same, and the token becomes empty.
    """
    if now == lease:
        return False
    return now is None or lease is None or now.epoch != lease.epoch or bool(now.token)
