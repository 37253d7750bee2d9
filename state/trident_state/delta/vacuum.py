"""The removal of files that no kept txid needs, and the record of the first kept txid."""

import time
from collections.abc import Callable
from typing import NamedTuple

from trident.base.attempt import Lease
from trident.base.crash_points import reach
from trident_state.delta.data_files import first_batch
from trident_state.delta.past_files import PastFiles
from trident_state.delta.record import COMPACTIONS, KEPT, TAGS, TableVersion
from trident_state.delta.table import MovedError, StateTable
from trident_state.delta.tags import path_of_tags


class Retention(NamedTuple):
    """The txids that a state keeps: those of the last `hours`, and at least the last `txids` of them."""

    hours: float
    txids: int


class Cleaner:
    """Deletes old files of one state. A driver deletes files only while it holds the state.

    Before the deletion, a version of the table records the first kept txid. A driver that takes the state over sets
    the same number, so a conflicting version of the previous driver fails.
    """

    def __init__(self, table: StateTable, past: PastFiles, keep: Retention, lease: Callable[[], Lease | None]) -> None:
        self._table, self._past, self._keep, self._lease = table, past, keep, lease

    def clean(self, keep: Retention | None = None) -> None:
        """Delete the files that no kept txid needs."""
        keep = keep or self._keep
        version = self._table.look()
        if version is None or version.dropped or version.lease != self._lease():
            return
        before = time.time() - 3600 * keep.hours
        kept = self._first_kept(version, keep, round(1000 * before))
        needed = self._past.needed(version.files, kept, round(1000 * before))
        needed |= version.tags.paths | {path_of_tags(version.tags.number)}
        # The file of a batch that is not committed yet may be just as old.
        gone = [name for name in self._table.old_files(needed, before) if first_batch(name) <= version.marker]
        if kept == version.kept and not gone:
            return
        # a merge that was suspended for that long may name deleted files: its commit conflicts
        merges = version.compactions + 1
        try:
            numbers = {KEPT: kept, COMPACTIONS: merges, TAGS: version.tags.number}  # a tag conflicts, too
            self._table.commit(version, numbers, {"kept": kept, "compactions": merges})
        # another driver has taken the state, or a merge or a tag was committed first; the next cleaning
        # deletes the files
        except MovedError:
            return
        reach("delta.kept")
        self._table.delete_named(gone)

    def _first_kept(self, version: TableVersion, keep: Retention, before: int) -> int:
        since = version.kept_since
        last = max(version.birth, version.marker - keep.txids + 1)
        return max(since, min(last, self._past.last_until(version.files, before, since)))
