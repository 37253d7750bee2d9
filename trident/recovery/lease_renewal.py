"""A driver renews its lease: it shows those in waiting that it lives, also while it has nothing to write.

Nothing that is exact rests on this. Who waits too short a time takes over a driver that lives, and fences it.
"""

import logging
import threading

from trident.base.attempt import Lease
from trident.base.errors import FencedError, LogError
from trident.base.log_fields import RunLogger
from trident.log.protocol import TransactionLog

logger = logging.getLogger(__name__)

_PART = 4
"""A lease is renewed so many times while it lasts. Two renewals may then be missed: `renew` leaves one out after a
write, and one may come late."""


class LeaseRenewal:
    """Renews a lease from a thread of its own, which no store, spout or function holds up, from `begin` to `stop`."""

    def __init__(self, log: TransactionLog, topology: str, leaseSecs: float) -> None:
        self._log, self._seconds = log, leaseSecs / _PART
        self._logger = RunLogger(logger, topology=topology)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, lease: Lease) -> None:
        self._thread = threading.Thread(target=self._loop, args=(lease,), name="trident-lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the renewals, before the lease is given back."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _loop(self, lease: Lease) -> None:
        silent = False
        while not self._over.wait(self._seconds):
            try:
                self._log.renew(lease)
                silent = False
            except FencedError:  # the watch and the next write say so, and end the run
                return
            except LogError as error:  # a log that is away is away for who waits, too
                self._logger.log(logging.DEBUG if silent else logging.WARNING, "the lease is not renewed: %s", error)
                silent = True
