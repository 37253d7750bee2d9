"""Compaction: the files of successive batches become one sorted file for each range of buckets.

A merge replaces files of batches before the last one in one version of the table. The content as of the marker, and as
of the txid before it, does not change. Two concurrent merges, by this driver or by another, conflict in the number of
compactions; the second one has no effect.

A merge of many rows takes minutes. Meanwhile batches continue, so the same thread merges newer files in between. The
numbers of these compactions are consecutive, so a compaction by another driver among them still conflicts.
"""

import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from trident.base.crash_points import reach
from trident.base.errors import StateClosedError
from trident.base.interruptible_waits import Flag
from trident_state.delta.columns import TableColumns, buckets_of
from trident_state.delta.data_files import DataFile, DataFiles, FileFacts, check_of, runs_of
from trident_state.delta.folding import Folded, combine_of, in_range, used_range
from trident_state.delta.reading import TableReads
from trident_state.delta.record import COMPACTIONS, TableVersion
from trident_state.delta.table import MovedError, StateTable
from trident_state.expiry import without_expired
from trident_state.keys import decode_keys

NO_BATCH = -1
"""A txid before all batches, and before the initial content of a state."""

LEAST = 8
"""The least number of consecutive runs to merge. A run is the files of the same batches."""
MOST = 32
"""The number of runs from which half of them are merged, whatever their sizes."""
_SMALL = 4_096
"""The least rows that a run counts as: smaller runs cost as much as one of this size."""
_ROWS = 1_000_000
"""The approximate most rows in a file that a merge writes."""


class Compactor:
    """Merges the files of one state. Setting `stopped` ends a running merge without effect."""

    def __init__(
        self, table: StateTable, files: DataFiles, reads: TableReads, columns: TableColumns, where: str
    ) -> None:
        self._table, self._files, self._reads, self._columns = table, files, reads, columns
        self._where, self.stopped = where, Flag()
        self._merging = NO_BATCH
        """The last batch whose file the running merge takes."""
        self._count = 0
        """The number of compactions after the last one that this driver knows to be its own."""

    def waiting(self, version: TableVersion) -> int:
        """Return the number of runs that no merge has taken yet."""
        merging = self._merging
        return len({file.low for file in version.files if file.low > merging})

    def merge_once(self) -> TableVersion | None:
        """Merge some files if there are enough. Return the new version; None if nothing was merged."""
        version = self._table.look()
        if version is None or version.dropped:
            return None
        chosen = chosen_files(version.files, version.marker, combine_of(version.rows) is not None)
        self._count = version.compactions
        try:
            return self._merge(version, chosen) if chosen else None
        finally:
            self._merging = NO_BATCH

    def _merge(self, version: TableVersion, chosen: Sequence[DataFile]) -> TableVersion | None:
        written: list[DataFile] = []
        try:
            base = self._write(version, chosen, written)
            reach("delta.merged")
            count = self._count + 1
            becomes = {"compactions": count}
            merged = self._table.commit(base, {COMPACTIONS: count}, becomes, added=written, removed=chosen)
        except MovedError:
            return self._refused(written)
        except StateClosedError:
            self._table.delete(written)
            raise
        self._count = count
        reach("delta.compacted")
        return merged

    def _newer_merged(self, base: TableVersion, last: int) -> TableVersion:
        """Merge files of batches after `last` if there are enough, during a merge of older files.

        Return the version that the older merge must follow: that of the last compaction, or `base` if there was none.
        Raises MovedError if another driver has compacted the table or dropped the state meanwhile.
        """
        while True:
            version = self._table.look()
            if version is None or version.compactions != self._count:
                raise MovedError(
                    f"{self._where}: another driver has merged files of its table; this merge was abandoned"
                )
            chosen = chosen_files(version.files, version.marker, combine_of(version.rows) is not None, last)
            if not chosen:
                return base
            merged = self._merge(version, chosen)
            if merged is None or merged.compactions != self._count:
                raise MovedError(f"{self._where}: another merge of newer files of its table was committed first")
            base = merged

    def _refused(self, written: Sequence[DataFile]) -> TableVersion | None:
        """Delete the files of a merge whose commit conflicted. Return the version if it is this merge's own.

        That happens if the reply was lost: the object store's client then repeats the commit, and conflicts with its
        own version.
        """
        version = self._table.look()
        named = set() if version is None else {file.path for file in version.files}
        self._table.delete(file for file in written if file.path not in named)
        if not any(file.path in named for file in written):
            return None
        self._count += 1
        return version

    def _write(self, version: TableVersion, chosen: Sequence[DataFile], written: list[DataFile]) -> TableVersion:
        """Write the files that replace the chosen ones. The last file's number keeps the check of all files correct.

        Return the version that the merge must follow: that of the last compaction of newer files, if any ran in
        between.
        """
        low, high, facts = chosen[0].low, max(file.high for file in chosen), self._facts(chosen)
        self._merging, base = max(self._merging, high), version
        combine = combine_of(version.rows)
        gone = version.expiry.before if chosen[0] == version.files[0] else None
        last: tuple[pa.Table, int] = self._columns.schema.empty_table(), 0
        for keys, folded in self._reads.spans(chosen, combine, _ROWS):
            if self.stopped.is_set():
                raise StateClosedError(f"{self._where}: the run has ended; a merge of its files was abandoned")
            base = self._newer_merged(base, high)
            keys, values, txids = _kept(keys, folded, combine is not None, gone)
            if not len(keys):
                continue
            if len(last[0]):
                written.append(self._files.write(last[0], low, high, last[1], facts))
            named = decode_keys(keys, self._reads.keys)
            last = self._columns.table(named, values, txids, buckets_of(keys)), used_range(combine, values)
        tag = check_of(chosen) ^ check_of(written)
        written.append(self._files.write(last[0], low, high, last[1], facts, tag))
        return base

    def _facts(self, chosen: Sequence[DataFile]) -> FileFacts:
        """Return the facts of a merge.

        A value that expired as of the merge's last batch has expired for every reader.
        """
        past, merged = self._reads.past, tuple((file.path, file.size) for file in chosen)
        return FileFacts(past.cutoff(chosen), past.written(chosen), round(1000 * time.time()), merged)


def chosen_files(files: Sequence[DataFile], marker: int, added: bool, after: int = NO_BATCH) -> list[DataFile]:
    """Return the consecutive files to merge, all of batches after `after`; none if no merge is needed.

    The newest runs are chosen, and older ones as long as these are not larger than all newer ones together. So there
    are few runs, and a row is merged again only when the state has doubled. The files of the last batch are left out,
    because a read as of the txid before must be able to skip them. `added`: the rows are deltas; a partial merge of
    deltas must not overflow their type, even if the whole sum does not.
    """
    runs = [run for run in runs_of(files) if run[0].low > after]
    while runs and runs[-1][0].high >= marker:
        runs.pop()
    count = _newest([sum(file.rows for file in run) for run in runs])
    if count < LEAST:
        return []
    taken = runs[len(runs) - count :]
    if added and not in_range(sum(file.used for run in taken for file in run)):
        taken = runs if after == NO_BATCH else []
    return [file for run in taken for file in run]


def _newest(sizes: Sequence[int]) -> int:
    """Return how many of the newest runs to merge. The argument has the rows of all runs, oldest first.

    Batches of about the same size differ a little, so one of the first runs may be twice as large as all newer ones.
    """
    least = len(sizes) // 2 if len(sizes) > MOST else 1
    count, rows = 0, 0
    for size in reversed(sizes):
        if count >= least and max(_SMALL, size) > (rows if count >= LEAST else 2 * rows):
            break
        rows += max(_SMALL, size)
        count += 1
    return count


def _kept(
    keys: pa.Array, folded: Folded, added: bool, gone: int | None
) -> tuple[pa.Array, pa.Array, "np.ndarray[tuple[int], np.dtype[np.int64]]"]:
    """Return the rows that a merge keeps.

    A null delta changes nothing. A removed or expired value must remain as a row without value while an older run may
    have the key: then `gone` is None. Otherwise `gone` is the txid up to which values have expired for every reader,
    or 0.
    """
    values, txids = folded.values, folded.txids
    if not added and gone is None:
        return keys, values, txids
    rows = (values if added else without_expired(values, txids, gone or 0)).is_valid().to_numpy(zero_copy_only=False)
    if rows.all():
        return keys, values, txids
    kept = pa.array(rows)
    return keys.filter(kept), values.filter(kept), txids[rows]
