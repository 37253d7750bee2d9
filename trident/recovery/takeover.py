"""The report of a takeover by another driver as FencedError, even if it first caused another error."""

from collections.abc import Iterator
from contextlib import contextmanager

from trident.base.attempt import Lease
from trident.base.errors import (
    CodeChangedError,
    FencedError,
    LogError,
    OutputConflictError,
    StateError,
    TopologyError,
    TridentError,
)
from trident.log.protocol import TransactionLog

_OF_THE_LOG = (StateError, LogError, OutputConflictError, CodeChangedError, TopologyError)
"""Errors whose cause may be in the log, or in states and outputs. The last two say that a program does not fit."""


class OvertakenError(FencedError):
    """Another driver took the log before a start that was to follow only a given lease.

    The start has written nothing.
    """


def explained(error: BaseException, log: TransactionLog, lease: Lease | None) -> BaseException:
    """Return a FencedError if another driver took the log after `lease` was issued, otherwise the error itself.

    The lease fences only writes. A driver that was taken over still reads, and may find states gone or ahead of it, an
    output with batches that it does not know, or a batch with the fields of another program, on which this library's
    code fails. A start may read groups that were founded after it read the streams. Without this function, the error's
    message would say that the log or a state is lost, that the log is an old copy, or that the program changed, and a
    user might reset a topology on which another driver is working. An error of a user's function is returned unchanged.
    """
    of_a_user = isinstance(error, TridentError) and not isinstance(error, _OF_THE_LOG)
    if of_a_user or not isinstance(error, Exception):
        return error
    try:
        now = log.lease()
    except LogError:  # the log, which could show a takeover, cannot be read: return the first error
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

    A give-back is not a takeover: the epoch stays the same, and the token becomes empty.
    """
    if now == lease:
        return False
    return now is None or lease is None or now.epoch != lease.epoch or bool(now.token)
