"""Trimming of a group's log: batches that no rewound store and no restart can need are dropped."""

import logging

from trident.base.attempt import Lease
from trident.base.crash_points import reach
from trident.base.errors import AttemptCancelledError, CallHangsError, StateError
from trident.base.log_fields import RunLogger
from trident.commits.committer import Committer
from trident.configuration.settings import Settings
from trident.log.protocol import TransactionLog

logger = logging.getLogger(__name__)

TRIM_EVERY = 64
"""The number of batches after which the log is trimmed. If the batches are large, it is trimmed earlier."""


class Trimming:
    """Trims a group's log.

    The loop calls `count`; one run thread at a time calls the other methods. The counts have no lock: a lost count
    makes a trim come a little earlier or later, and `secured` asks the stores themselves for the last batch that may be
    dropped.
    """

    def __init__(self, group: str, log: TransactionLog, lease: Lease, committer: Committer, settings: Settings) -> None:
        self._group = group
        self._log = log
        self._lease = lease
        self._committer = committer
        self._settings = settings
        self._logger = RunLogger(logger, topology=settings.name, group=group)
        self._batches = 0
        self._frozen_bytes = 0
        """Bytes frozen since the last trim."""
        self._unsecured_bytes = 0
        """Bytes frozen since the stores last needed nothing of the log."""

    def count(self, size: int) -> None:
        """Count the bytes of a frozen batch."""
        self._frozen_bytes += size
        self._unsecured_bytes += size

    def trim_if_due(self, committed: int) -> None:
        """Trim the log if `TRIM_EVERY` batches or many bytes were frozen since the last trim.

        Called after each commit.
        """
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
        except (StateError, OSError) as error:  # a store or its disk does not answer: keep everything for now
            self._logger.warning("group %r: old batches could not be deleted from the log: %s", self._group, error)
            self._batches = -1  # so that the next commit tries again
            return
        settings = self._settings
        gone = self._log.trim(self._lease, self._group, needed, settings.keepBatches, settings.rewindBytes)
        if gone:
            self._log.sync(self._lease)  # otherwise a power loss could restore batches without their files
            self._committer.forget(gone)
        reach("trim.after")

    def secured(self, committed: int) -> int:
        """Return the txid up to which no store needs the log.

        Once more than half of `rewindBytes` is kept, this makes the stores write snapshots. The next commit waits for
        that, so that the log cannot grow without bound because of a memory state.
        """
        stores = self._committer.stores.values()
        if self._unsecured_bytes >= self._settings.rewindBytes // 2:
            for store in stores:
                store.snapshot()
        needed = min([store.durable() for store in stores] + [committed])
        if needed == committed:
            self._unsecured_bytes = 0
        return needed
