"""What the log may let go: neither a store that lost its last writes nor a restart can need it any more."""

import logging

from trident.base.attempt import Lease
from trident.base.crash_points import reach
from trident.base.errors import AttemptCancelledError, CallHangsError, StateError
from trident.log.protocol import TransactionLog
from trident.recovery.settings import Settings
from trident.run.committer import Committer

logger = logging.getLogger(__name__)

TRIM_EVERY = 64
"""Batches, unless they are large."""


class Trimming:
    """Keeps a group's log short. Of one thread, but for `froze`."""

    def __init__(self, group: str, log: TransactionLog, lease: Lease, committer: Committer, settings: Settings) -> None:
        self._group = group
        self._log = log
        self._lease = lease
        self._committer = committer
        self._settings = settings
        self._batches = 0
        self._frozen_bytes = 0
        """Since the last trim, and (the next) since every store could do without them."""
        self._unsecured_bytes = 0

    def froze(self, size: int) -> None:
        """So many bytes more are in the log."""
        self._frozen_bytes += size
        self._unsecured_bytes += size

    def after(self, committed: int) -> None:
        """Trim, if it is time, after a commit."""
        self._batches += 1
        if self._batches % TRIM_EVERY and self._frozen_bytes < self._settings.rewindBytes // 8:
            return
        reach("trim.before")
        self._frozen_bytes = 0
        try:
            needed = self.secured(committed)
        except CallHangsError:
            raise
        except AttemptCancelledError:  # the run ends
            return
        except (StateError, OSError) as error:  # a store or its disk is away just now: the log keeps all until then
            logger.warning("group %r: the log is not trimmed: %s", self._group, error)
            self._batches = -1
            return
        settings = self._settings
        gone = self._log.trim(self._lease, self._group, needed, settings.keepBatches, settings.rewindBytes)
        if gone:
            self._log.sync(self._lease)  # else a power loss brings batches back whose files are gone
            self._committer.forget(gone)
        reach("trim.after")

    def secured(self, committed: int) -> int:
        """The txid up to which no store needs the log. Near `rewindBytes` the next commit waits for snapshots, so that
        the log cannot grow without bound behind a state in memory."""
        stores = self._committer.stores.values()
        if self._unsecured_bytes >= self._settings.rewindBytes // 2:
            for store in stores:
                store.snapshot()
        needed = min([store.durable() for store in stores] + [committed])
        if needed == committed:
            self._unsecured_bytes = 0
        return needed
