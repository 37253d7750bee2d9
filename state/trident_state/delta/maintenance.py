"""The upkeep of a state's table in a background thread: merges, log checkpoints, removal of old files."""

import logging
import threading
import time

from trident.base.errors import StateClosedError, TridentError
from trident_state.delta.compaction import Compactor, chosen_files
from trident_state.delta.folding import combine_of
from trident_state.delta.record import TableVersion
from trident_state.delta.table import StateTable
from trident_state.delta.vacuum import Cleaner

_log = logging.getLogger("trident.state")

CHECKPOINT_EVERY = 100
"""The number of versions between checkpoints of the log, where readers start."""
_CLEAN_EVERY = 600.0
"""The seconds between two cleanings."""
_PAUSE = 30.0
"""The seconds to wait after a failure."""
_MANY = 40
"""The number of runs outside the running merge from which a batch waits for the merge, up to `_WAIT` seconds."""
_WAIT = 5.0


class Maintenance:
    """Keeps the numbers of files and versions of a table small. Batches wait for it only if it falls behind."""

    def __init__(self, table: StateTable, compactor: Compactor, cleaner: Cleaner, where: str) -> None:
        self._table, self._compactor, self.cleaner, self._where = table, compactor, cleaner, where
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._not_before = 0.0
        self._checkpoint: int | None = None
        self._cleaned = time.monotonic()

    @property
    def stopped(self) -> bool:
        """Return whether the state is being closed."""
        return self._compactor.stopped.is_set()

    def after(self, version: TableVersion) -> None:
        """Start a thread if a batch's version left work to do. Wait for it if it has fallen behind."""
        if self._due(version):
            self._begin()
            thread = self._thread
            if thread is not None and self._compactor.waiting(version) > _MANY:
                thread.join(_WAIT)

    def run(self) -> None:
        """Do all pending work in the calling thread."""
        merged = self._table.look()
        while merged is not None and not self.stopped:
            last, merged = merged, self._compactor.merge_once()
            self._checkpoint_if_due(merged or last)
        if time.monotonic() - self._cleaned > _CLEAN_EVERY and not self.stopped:
            self._cleaned = time.monotonic()
            self.cleaner.clean()

    def stop(self) -> None:
        """Let a running thread end early, and wait for its end."""
        self._compactor.stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _due(self, version: TableVersion) -> bool:
        if self.stopped or time.monotonic() < self._not_before:
            return False
        added = combine_of(version.rows) is not None
        many = version.version - (self._checkpoint or 0) >= CHECKPOINT_EVERY
        return many or bool(chosen_files(version.files, version.marker, added))

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=f"upkeep of {self._where}", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        try:
            self.run()
        except StateClosedError:
            pass  # the run has ended; the next run merges the files
        except Exception as error:
            self._not_before = time.monotonic() + _PAUSE
            trace = None if isinstance(error, TridentError) else error
            _log.error("%s: merging its files failed (%s) and will be retried", self._where, error, exc_info=trace)

    def _checkpoint_if_due(self, version: TableVersion) -> None:
        if self._checkpoint is None:
            self._checkpoint = version.version - version.version % CHECKPOINT_EVERY
        if version.version - self._checkpoint >= CHECKPOINT_EVERY:
            self._table.checkpoint()
            self._checkpoint = version.version
