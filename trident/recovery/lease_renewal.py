"""The renewal of a driver's lease: it shows standbys that the driver is alive, even if it has nothing to write.

Exactness does not depend on this. If a standby waits too short a time, it takes over from a running driver and fences
it out.
"""

import logging
import threading

from trident.base.attempt import Lease
from trident.base.errors import FencedError, LogError
from trident.base.interruptible_waits import Flag
from trident.base.log_fields import RunLogger
from trident.log.protocol import TransactionLog

logger = logging.getLogger(__name__)

_PART = 4
"""The number of renewals within `leaseSecs`.

Two may be missed: `renew` skips one after a write, and one may be late.
"""


class LeaseRenewal:
    """Renews a lease from `begin` to `stop`, in a separate thread that no store, spout or function can delay."""

    def __init__(self, log: TransactionLog, topology: str, leaseSecs: float) -> None:
        self._log, self._seconds = log, leaseSecs / _PART
        self._logger = RunLogger(logger, topology=topology)
        self._over = Flag()
        self._thread: threading.Thread | None = None

    def begin(self, lease: Lease) -> None:
        self._thread = threading.Thread(target=self._loop, args=(lease,), name="trident-lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the renewals. Call this before the lease is given back."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _loop(self, lease: Lease) -> None:
        silent = False
        while not self._over.wait(self._seconds):
            try:
                self._log.renew(lease)
                silent = False
            except FencedError:  # the fence watch and the next write report it, and end the run
                return
            except LogError as error:  # a log that does not answer does not answer a standby, either
                self._logger.log(logging.DEBUG if silent else logging.WARNING, "the lease is not renewed: %s", error)
                silent = True
