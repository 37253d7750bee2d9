"""The removal of files that no kept txid needs, and the record of the first txid that is kept."""

import time
from collections.abc import Callable
from typing import NamedTuple

from trident.base.attempt import Lease
from trident.base.crash_points import reach
from trident_state.delta.data_files import first_batch
from trident_state.delta.past import PastFiles
from trident_state.delta.record import COMPACTIONS, KEPT, TAGS, TableVersion
from trident_state.delta.table import MovedError, StateTable
from trident_state.delta.tags import path_of_tags


class Keep(NamedTuple):
    """The txids that a state keeps: those that were the last one within some hours, and the last few."""

    hours: float
    txids: int


class Cleaner:
    """Deletes old files of one state. A driver deletes files only while it holds the state.

    First a version says from which txid on the state is kept. A driver that takes the state over sets the same number,
    so the version of a former driver, which may keep less, collides with the takeover.
    """

    def __init__(self, table: StateTable, past: PastFiles, keep: Keep, lease: Callable[[], Lease | None]) -> None:
        self._table, self._past, self._keep, self._lease = table, past, keep, lease

    def clean(self, keep: Keep | None = None) -> None:
        """Delete the files that are too old for all txids that are kept."""
        keep = keep or self._keep
        version = self._table.look()
        if version is None or version.dropped or version.lease != self._lease():
            return
        before = time.time() - 3600 * keep.hours
        kept = self._first_kept(version, keep, round(1000 * before))
        needed = self._past.needed(version.files, kept, round(1000 * before))
        needed |= version.tags.paths | {path_of_tags(version.tags.number)}
        # The file of a batch that is not committed yet may be as old.
        gone = [name for name in self._table.old_files(needed, before) if first_batch(name) <= version.marker]
        if kept == version.kept and not gone:
            return
        merges = (
            version.compactions + 1
        )  # a merge that has slept for so long may name files that are to go: it collides
        try:
            numbers = {KEPT: kept, COMPACTIONS: merges, TAGS: version.tags.number}  # a tag collides, too
            self._table.commit(version, numbers, {"kept": kept, "compactions": merges})
        except MovedError:  # another driver has the state now, or a merge or a tag came first; they go another time
            return
        reach("delta.kept")
        self._table.delete_named(gone)

    def _first_kept(self, version: TableVersion, keep: Keep, before: int) -> int:
        since = version.kept_since
        last = max(version.birth, version.marker - keep.txids + 1)
        return max(since, min(last, self._past.last_until(version.files, before, since)))
