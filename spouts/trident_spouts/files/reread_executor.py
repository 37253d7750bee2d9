"""The executor that reads the files of a FileSpout again, up to the record of another reader."""

from dataclasses import replace

from trident.base.attempt import TransactionAttempt
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.executor import Metadata
from trident_spouts.files.executor import FileExecutor, FileSource, read_metadata
from trident_spouts.files.read_files import ReadFiles
from trident_spouts.files.storage import FileStorage, ListedFile
from trident_spouts.rereadable_sources import End, beginning_lost, left_out


class RereadFileExecutor(FileExecutor):
    """Reads the bytes that are in the record of another reader, and no others."""

    def __init__(self, spout: FileSource, place: FileStorage, end: End) -> None:
        super().__init__(spout, place)
        self._end = end
        self._text: str | None = None
        self._read = ReadFiles()
        """The record at the position that `end` last returned, with the names that its files had."""

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        end = self._end()
        if end is None:
            return None
        text = read_metadata(end, "seen", str)
        if text != self._text:
            read = read_metadata(end, "seen", ReadFiles.decode)
            self._text, self._read = text, replace(read, remembered=self._spout.watch.rememberedFiles)
            self._listed_at = float("-inf")  # the listing has only files of the earlier record
        return super().plan(attempt, previous, time, budget)

    def _list(self, seen: ReadFiles) -> None:
        super()._list(seen)
        self._until = until = self._without_doubt(self._planner.recognize(self._read, self._listing, self._looks_back))
        if self._whole:
            self._check_there(until, self._listing)
        # A file that the other reader has not read yet must not count as known, so that it is read later.
        self._listing = [file for file in self._listing if until.bytes_read(file)]

    def _recognize(self, seen: ReadFiles) -> ReadFiles:
        return self._without_doubt(super()._recognize(seen))

    def _without_doubt(self, read: ReadFiles) -> ReadFiles:
        """Return the record. Raises DataLossError if it counts unread files, or unread parts, as read."""
        if read.skipped:
            what = f"{read.skipped:,} file(s) of {self._place} were skipped because of Watch(onForgotten='skip')"
            raise left_out("FileSpout", what)
        return read

    def _listed_after(self, seen: ReadFiles) -> str:
        return ""  # files that were read long ago are read again, too

    def _check_there(self, until: ReadFiles, listing: list[ListedFile]) -> None:
        """Raise DataLossError if files that the other reader has read are gone.

        A file is not noticed if it was gone before that reader's last check, and its checksum was already forgotten.
        """
        gone = sorted(until.entries.keys() - {file.name for file in listing})
        there = sum(file.name in until.entries or until.is_past(file) for file in listing)
        # Use the record as stored: after recognition it has only files that still exist.
        read = self._read
        least = len(read.entries) + read.forgotten.present.number - there
        number = max(least, len(gone) + read.forgotten.gone(listing))
        if number > 0:
            shown = f", such as {gone[0]}" if gone else ""
            raise beginning_lost("FileSpout", f"{number:,} file(s) of {self._place} that were read are gone{shown}")
