"""The files of a state as of an earlier txid: a merged file names the files that it replaced.

These files form a tree, whose leaves are the files of single batches. A read as of a txid in the middle of a merged
file reads the replaced files instead, recursively. So it needs no earlier version of the table, only files that have
not been deleted.
"""

from collections.abc import Sequence

import pyarrow as pa

from trident.base.discard_advice import RESTORE
from trident.base.errors import SnapshotMovedError, SourceUnreadableError, StateCorruptError, StateUnavailableError
from trident.base.short_texts import one_line
from trident_state.delta.data_files import DataFile, DataFiles, FileFacts, check_of, file_of, runs_of


class MissingFileError(StateCorruptError):
    """A data file of a version is missing: either the version was replaced, or the table is damaged."""


class PastFiles:
    """Finds the files of one state as of earlier txids, and the files that kept txids need."""

    def __init__(self, files: DataFiles, where: str) -> None:
        self._files, self._where = files, where

    def as_of(self, files: Sequence[DataFile], txid: int) -> list[DataFile]:
        """Return the files with the rows of the batches up to `txid`, in the order of their batches.

        Raises SnapshotMovedError if the files that a merge replaced are not known, MissingFileError if one is missing.
        """
        found: list[DataFile] = []
        for run in runs_of(files):
            if run[0].high <= txid:
                found += run
            elif run[0].low <= txid:
                replaced = self._replaced_by(run)
                if not replaced:
                    raise SnapshotMovedError(
                        f"{self._where} cannot be read as of txid {txid}: its rows have been merged with later ones"
                    )
                found += self.as_of(replaced, txid)
        return found

    def cutoff(self, files: Sequence[DataFile]) -> int:
        """Return the txid up to which values have expired as of the last batch of some files."""
        return self._facts(files[-1]).cutoff if files else 0

    def written(self, files: Sequence[DataFile]) -> int:
        """Return when the last batch of some files was written, in ms since 1970; 0 if unknown."""
        return self._facts(files[-1]).written if files else 0

    def last_until(self, files: Sequence[DataFile], time: int, kept: int) -> int:
        """Return the last txid among some files that was written at or before a time (ms), at least `kept`."""
        at = kept
        for run in runs_of(files):
            if run[0].high <= kept:
                continue
            facts = self._facts(run[0])
            if facts.written > time:
                return self.last_until(self._replaced_by(run), time, at) if facts.merged else at
            at = run[0].high
        return at

    def txid_at(self, files: Sequence[DataFile], time: int, kept: int) -> int | None:
        """Return the last txid among some files that was written at or before a time (ms); None before `kept`.

        A txid without rows belongs to the txid before it.
        """
        at = self.last_until(files, time, kept)
        if at > kept:
            return at
        first = self.as_of(files, kept)
        return kept if first and self.written(first) <= time else None

    def needed(self, files: Sequence[DataFile], kept: int, made: int) -> set[str]:
        """Return the paths of the files that reads as of the txid `kept` and later ones need.

        They include files that were replaced after the time `made` (ms), because a running read or another program may
        use them.
        """
        found = {file.path for file in files}
        for run in runs_of(files):
            try:
                replaced = self._replaced_by(run) if run[0].high > kept or self._facts(run[0]).made > made else []
            except MissingFileError:  # another program deleted it, and with it the names of the files before it
                continue
            if replaced:
                found |= self.needed(replaced, kept, made)
        return found

    def _replaced_by(self, run: Sequence[DataFile]) -> list[DataFile]:
        """Return the files that a merged run replaced; none for the rows of a single batch."""
        merged = self._facts(run[0]).merged
        replaced = sorted(file_of(path, size, self._where) for path, size in merged)
        if replaced and check_of(replaced) != check_of(run):
            raise StateCorruptError(f"{self._where}: {run[0].path} does not name the files that it replaced. {RESTORE}")
        return replaced

    def _facts(self, file: DataFile) -> FileFacts:
        try:
            return self._files.facts(file)
        except FileNotFoundError as error:
            raise missing(self._where, file) from error
        except (OSError, SourceUnreadableError) as error:
            raise StateUnavailableError(f"{self._where}: cannot read {file.path}: {one_line(error)}") from error
        except (pa.ArrowInvalid, ValueError) as error:
            raise damaged(self._where, file, error) from error


def missing(where: str, file: DataFile) -> MissingFileError:
    """Return the error for a missing data file."""
    return MissingFileError(
        f"{where}: the data file {file.path} of its table is missing. Restore the folder from a copy, or drop the state"
    )


def damaged(where: str, file: DataFile, error: Exception) -> StateCorruptError:
    """Return the error for a data file that cannot be decoded."""
    return StateCorruptError(f"{where}: the data file {file.path} is damaged: {one_line(error)}. {RESTORE}")
