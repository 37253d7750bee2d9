"""Giving a lease back, after a start, a run, a fork or a removal has finished."""

import contextlib

from trident.base.attempt import Lease
from trident.base.errors import FencedError, LogError
from trident.log.protocol import TransactionLog


def give_back(log: TransactionLog, lease: Lease) -> None:
    """Give the log back, as the last call.

    It does not fail: if another driver took the log meanwhile, there is nothing to give back; if the log does not
    answer, the next start counts this driver as dead.
    """
    with contextlib.suppress(FencedError, LogError):
        log.give_back(lease)
