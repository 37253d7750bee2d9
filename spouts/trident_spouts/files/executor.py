"""The executor of a FileSpout: it lists the files, plans batches of them, and emits references to the files."""

import logging
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Any, Protocol, TypeVar

from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.errors import MalformedInputError, SourceUnreadableError, SpoutContractError, SpoutError
from trident.base.spark_types import arrow_schema
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata, ReadSoFar, SpoutExecutor
from trident_spouts.files.absent_fields import AbsentFields
from trident_spouts.files.file_ranges import FileRange, PlannedFile, check_unchanged
from trident_spouts.files.folder_fields import Folders, InFolders
from trident_spouts.files.folder_watch import Watch
from trident_spouts.files.formats import Csv, FileFormat, Json, Parquet
from trident_spouts.files.json_documents import LONGEST_DOCUMENT, too_long
from trident_spouts.files.json_lines import without_corrupt_fields
from trident_spouts.files.line_reader import LinesEmission, Stretch
from trident_spouts.files.listing import MOST_LISTED, check_readable, hidden_file, list_files, nested_hint
from trident_spouts.files.parquet import FilesEmission, checked_footers, columns_of, is_beyond_spark
from trident_spouts.files.planner import Limits, Planner
from trident_spouts.files.read_files import Entry, ReadFiles
from trident_spouts.files.storage import FileStorage, ListedFile, StaleListingError
from trident_spouts.user_calls import foreign_metadata_error

_log = logging.getLogger("trident.spouts")
_T = TypeVar("_T")

_LISTING_SECONDS, _LISTING_SHARE = 1.0, 10
"""A listing that still has unread files is used for this many seconds, or for this multiple of the time that it took,
whichever is longer. (Listing 100,000 files takes longer than a second.)"""

_NEWEST = 8
"""The number of planned batches whose records are kept decoded: batches in flight, and a few earlier batches."""

_LOOK_BACK_SECONDS = 600.0
"""The time (seconds) after which a listing in the order of names covers all names again, including those of files that
were read long ago."""

_LISTINGS = 5
"""The most listings in one plan. A plan lists again if a listed file is gone, or if another file has its name."""


class FileSource(Protocol):
    """The options of a FileSpout that its executor uses."""

    @property
    def format(self) -> FileFormat: ...
    @property
    def schema(self) -> StructType: ...
    @property
    def folders(self) -> Folders | None: ...
    @property
    def maxBytesPerBatch(self) -> int: ...
    @property
    def maxFilesPerBatch(self) -> int | None: ...
    @property
    def orderBy(self) -> str: ...
    @property
    def watch(self) -> Watch: ...
    @property
    def form(self) -> str: ...


class FileExecutor(SpoutExecutor):
    """The executor of a FileSpout over a folder or a glob."""

    plans_ahead = True

    def __init__(self, spout: FileSource, place: FileStorage) -> None:
        self._spout = spout
        self._place = place
        format, watch = spout.format, spout.watch
        self._format = None if isinstance(format, Parquet) else format
        """The format of lines; None if the files are Parquet."""
        limits = Limits(spout.maxBytesPerBatch, spout.maxFilesPerBatch, watch.completeAfterSecs)
        lines, by_name = self._format is not None, spout.orderBy == "name"
        cut = lines and not (isinstance(format, Csv | Json) and format.multiLine)
        self._planner = Planner(place, limits, cut, by_name, lines, watch.onForgotten)
        self._listing: list[ListedFile] = []
        self._whole = True
        """True if the listing has all files, not only the next files in the order of their names."""
        self._looks_back = True
        """True if the listing has all files whose sort order says that they were read."""
        self._looked_back_at = float("-inf")
        self._listed_at = float("-inf")
        self._listing_secs = 0.0
        self._warned = False
        self._absent = AbsentFields()
        self._known: tuple[str | None, ReadFiles] = (None, ReadFiles(remembered=spout.watch.rememberedFiles))
        """The record of files read up to the last planned batch: as text, and as `Planner.recognize` returned it."""
        self._saved: dict[str, Entry] = {}
        """The entries of the last planned batch's record."""
        self._moved = False
        """True if `_saved` lacks a name or inode by which a file is recognized; see `_has_moved`."""
        self._recognized: tuple[ReadFiles | None, bool] = (None, True)
        """The last result of `_recognize`, and whether its listing had all files whose sort order says that they were
        read."""
        self._until: ReadFiles | None = None
        """The record of another reader, beyond which nothing is read."""
        self._newest: tuple[tuple[str | None, ReadFiles], ...] = ()
        """The records after the last planned batches, for `read_so_far`.

        To decode a record takes milliseconds, and the encoded record does not hold the names of late files.
        """

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        for _ in range(_LISTINGS):
            anew = monotonic() - self._listed_at >= self._listing_secs
            try:
                ranges, after = self._planner.next(self._seen(previous, anew), self._listing, time, budget, self._until)
                if ranges or self._moved:
                    self._known, self._saved, self._moved = (after.encode(), after), after.entries, False
                    self._newest = (*self._newest[1 - _NEWEST :], self._known)
                    files = [range_.to_json() for range_ in ranges]
                    return {"files": files, "seen": self._known[0], "as": self._spout.form}
                if anew:
                    return None
            except StaleListingError:
                pass
            self._listed_at = float("-inf")
        raise SourceUnreadableError(
            f"FileSpout: the files at {self._place} change faster than they can be listed; the batch is planned again"
        )

    def read_so_far(self, position: Metadata) -> ReadSoFar | None:
        listing, newest = self._listing, self._newest[::-1]  # the planning thread replaces each attribute as a whole
        if not listing or not self._whole:
            return None
        seen = ReadFiles()
        if position is not None:
            read = read_metadata(position, "seen", str)
            planned = next((record for text, record in newest if text == read), None)
            seen = ReadFiles.decode(read) if planned is None else planned
        return ReadSoFar(sum(map(seen.bytes_read, listing)), sum(file.size for file in listing), "bytes")

    def _seen(self, previous: Metadata, anew: bool) -> ReadFiles:
        """Return the record of the files read up to the previous batch, with the names that they have in the listing.

        With `anew`, list the files first.
        """
        begin = monotonic()
        text = None if previous is None else read_metadata(previous, "seen", str)
        known, seen = self._known
        if text != known:
            seen = ReadFiles() if previous is None else read_metadata(previous, "seen", ReadFiles.decode)
            seen = replace(seen, remembered=self._spout.watch.rememberedFiles)
        former = self._listing
        if anew:
            self._list(seen)
        if text != known or (anew and not self._is_quiet(seen, former)):
            if text != known:
                self._saved = seen.entries
            self._recognized = None, True  # if this check is refused, the next one is not quiet either
            self._known = text, self._recognize(seen)
            self._moved = self._until is None and self._has_moved(self._known[1].entries)
            self._recognized = self._known[1], self._looks_back
            self._newest = (*self._newest[1 - _NEWEST :], self._known)
        if anew:
            self._listed_at = monotonic()
            self._looked_back_at = self._listed_at if self._looks_back else self._looked_back_at
            self._listing_secs = max(_LISTING_SECONDS, _LISTING_SHARE * (self._listed_at - begin))
        return self._known[1]

    def _has_moved(self, entries: dict[str, Entry]) -> bool:
        """Return whether the record of the last batch lacks a name or an inode by which a file is recognized.

        Then a batch without tuples saves them. Otherwise a file that was renamed in a quiet hour, and copied before the
        next start, would be a new file: only its inode has shown which file it is. Some file systems show another inode
        at each look. There the status of the file has not changed.
        """
        if self._saved.keys() - entries.keys():
            return True
        pairs = [(self._saved[name], entry) for name, entry in entries.items() if name in self._saved]
        return any(was.inode != now.inode and not (now.changed and was.changed == now.changed) for was, now in pairs)

    def _is_quiet(self, seen: ReadFiles, former: list[ListedFile]) -> bool:
        """Return whether no file has changed since the previous listing, `former`, recognized `seen`.

        The status of each file proves it, unless its last change is too recent.
        """
        recognized, looked_back = self._recognized
        if seen is not recognized or seen.late or self._looks_back != looked_back or self._listing != former:
            return False
        return all(file.changed or file.tag for file in former)

    def _recognize(self, seen: ReadFiles) -> ReadFiles:
        """Return the record with the names in the listing.

        Raises SpoutContractError if a name belongs to another file.
        """
        try:
            return self._planner.recognize(seen, self._listing, self._looks_back)
        except SpoutContractError:
            # A listing takes time. A file that is renamed during the listing may be missing under its new name, while
            # another file has its former name. A second listing shows both files.
            self._list(seen)
            return self._planner.recognize(seen, self._listing, self._looks_back)

    def _list(self, seen: ReadFiles) -> None:
        """List the files. Log a warning once if there is no file at all."""
        after, most = self._listed_after(seen), MOST_LISTED + len(seen.entries)
        if not after:
            most += seen.forgotten.present.number
        self._listing = list_files(self._place, self._planner.by_name, after, most, seen.has_read)
        # A folder may be created later if nothing was read from it yet: until then it has no file, and a warning says
        # so.
        has_read = seen.entries or seen.forgotten.present.number
        if not self._listing and has_read and seen.root == self._place.address and not self._place.is_there():
            raise SourceUnreadableError(
                f"FileSpout: cannot list {self._place}: the folder {seen.root}, which was read before, no longer exists"
            )
        cut = self._place.sorted and self._planner.by_name and len(self._listing) >= most
        self._whole = not after and not cut
        self._looks_back = not after and (not cut or seen.cutoff is None or self._listing[-1].name > seen.cutoff[1])
        self._warn_of_none()
        if self._format is not None:
            check_readable(self._listing, self._place)

    def _listed_after(self, seen: ReadFiles) -> str:
        """Return the name after which a listing may begin, because all files up to it were read long ago.

        Return "" if there is no such name, or if it is time to check whether these files are unchanged.
        """
        alike = seen.by_name == self._planner.by_name and seen.root == self._place.address
        if not (self._place.sorted and seen.by_name and alike and seen.cutoff):
            return ""
        due = monotonic() - self._looked_back_at > _LOOK_BACK_SECONDS
        return "" if seen.late or due else seen.cutoff[1]

    def _warn_of_none(self) -> None:
        if self._listing or self._warned:
            return
        self._warned = True
        hidden = hidden_file(self._place)
        why = (
            ""
            if hidden is None
            else (
                f" that is not hidden: files and folders whose names begin with _ or ., or end in ._COPYING_, are "
                f"skipped, because programs hide unfinished files in this way. {hidden} is such a file; rename it to "
                f"read it"
            )
        )
        _log.warning("FileSpout: there is no file at %s%s", self._place, why or nested_hint(self._place))

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        ranges = read_metadata(metadata, "files", lambda files: [FileRange(*fields) for fields in files])
        files = [self._planned_file(range_, attempt.txid) for range_ in ranges]
        schema, format, folders = self._spout.schema, self._format, self._spout.folders
        own = schema if folders is None else folders.own(schema)
        if folders is not None:
            files = [folders.placed(file, range_.name) for file, range_ in zip(files, ranges, strict=True)]
        if format is None and not files:  # a batch that only saves the names of moved files
            return ArrowEmission(arrow_schema(schema).empty_table())
        if format is None:
            return self._of_parquet(files, schema, own)
        stretches = tuple(map(self._stretch, files, ranges))
        if isinstance(format, Json) and format.multiLine:
            _check_documents(files)
        elif isinstance(format, Json) and stretches:
            self._absent.look_in_lines(without_corrupt_fields(own, format.malformed).names, stretches[0])
        lines = format.lines(own)
        return LinesEmission(stretches, lines if folders is None else InFolders(lines, folders.fields))

    def _of_parquet(self, files: list[PlannedFile], schema: StructType, own: StructType) -> Emission:
        """Return the emission of Parquet files. `own` are the fields that do not come from the names of folders."""
        folders, footers = self._spout.folders, checked_footers(files, own)
        if folders is not None:
            folders.check_columns(files, [columns_of([each]) for each in footers])
        self._absent.look_in_files(own.names, files, columns_of(footers))
        rows = sum(each.num_rows for each in footers)
        # Spark's scan of single files does not know the values of their folders.
        beyond_spark = folders is not None or any(is_beyond_spark(each, schema) for each in footers)
        return FilesEmission(tuple(files), schema, rows, beyond_spark=beyond_spark)

    def _stretch(self, file: PlannedFile, range_: FileRange) -> Stretch:
        bounds, whole = (range_.start, range_.end), not self._planner.cuts(range_.name)
        return Stretch(file, *bounds, *bounds, whole, range_.name)

    def _planned_file(self, range_: FileRange, txid: int) -> PlannedFile:
        """Return the planned file, even if it was renamed after the plan.

        Raises SpoutError if the file is gone or has changed.
        """
        try:
            return check_unchanged(range_, self._place, range_.name, txid, grows=self._planner.grows(range_.name))
        except SpoutError:
            for file in list_files(self._place) if range_.inode else ():
                if file.inode == range_.inode and file.name != range_.name:
                    with suppress(SpoutError):  # only the inode is equal, so the first error is more precise
                        return check_unchanged(
                            range_, self._place, file.name, txid, grows=self._planner.grows(range_.name)
                        )
            raise


def _check_documents(files: list[PlannedFile]) -> None:
    """Raise MalformedInputError for a file that is too long to be one JSON document, before it is read."""
    for file in files:
        if file.file.size > LONGEST_DOCUMENT:
            raise MalformedInputError(f"FileSpout: {too_long(file, file.file.size)}")


def read_metadata(metadata: Metadata, key: str, read: Callable[[Any], _T]) -> _T:
    """Return the entry `key` of a batch's metadata, converted by `read`.

    Raises an error if another kind of spout wrote the metadata.
    """
    try:
        return read(metadata[key])  # type: ignore[index, call-overload]
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise foreign_metadata_error("FileSpout", metadata) from error
