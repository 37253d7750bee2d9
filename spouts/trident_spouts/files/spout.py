"""Files as a spout."""

import logging
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath
from time import monotonic
from typing import Any, Literal, TypeVar, get_args

from pyspark.sql.types import StringType, StructType

from trident.base.attempt import TransactionAttempt
from trident.base.errors import SourceUnreadableError, SpoutError, TopologyError, TypeDeclarationError
from trident.base.types import ddl, parse_schema
from trident_spouts.executor import Emission, Metadata, SpoutExecutor, SpoutKind
from trident_spouts.files.jsonlines import JsonFormat, Malformed, with_corrupt_field
from trident_spouts.files.lines import EncodingErrors
from trident_spouts.files.listing import Found, Place, absolute, check_compressed, find, hidden_in, place_of
from trident_spouts.files.parquet import FilesEmission, count_rows, footer_schema
from trident_spouts.files.planner import Limits, Planner, StaleListingError
from trident_spouts.files.ranges import FileRange, PlannedFile, check_unchanged
from trident_spouts.files.read_files import Seen
from trident_spouts.files.reading import LineFormat, LinesEmission, Stretch
from trident_spouts.files.text import TextFormat
from trident_spouts.rows import read_schema
from trident_spouts.user_calls import foreign

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
FileFormat = Literal["text", "json", "parquet"]

_LISTING_SECONDS = 1.0
"""Seconds for which a listing that still has unread files is used: a folder of 100,000 files takes longer to list."""

_LISTINGS = 5
"""The number of listings in one plan, because files are gone, or are others, since they were listed."""


@dataclass(frozen=True, init=False, repr=False)
class FileSpout:
    """The files of a folder or glob, and those that appear there while the topology runs.

    Transactional: a batch's metadata is the exact list of its files with size, modification time and, in text and
    JSON, the byte range; the workers read the bytes. Files come in the order of modification time, then name; each is
    read once, also over a restart.

    Parameters
    ----------
    path : str or path
        A file, a folder (its own files) or a glob (``**`` goes into folders). Files and folders whose names begin with
        ``_`` or ``.`` are left out. The driver and all workers must see it under the same path. In the log, files are
        named relative to the part before the first wildcard, so that a folder can be moved together with the
        checkpoint.
    format : "text", "json" or "parquet"
        * text: each line is a tuple ``line string``. Lines end in ``\\n`` or ``\\r\\n``. Compressed files are refused.
        * json: one object a line; needs `schema`. A missing field is null, others are passed over. Dates and times are
          ISO 8601, binary is base64.
        * parquet: the fields of the first file when they are first asked for, or those of `schema`; columns meet them
          by name.
    schema : str or StructType, optional
        The fields with their types. For text at most another name for the one string field.
    maxBytesPerBatch : int
        Bytes of files in one batch. Longer text and JSON files are cut at line starts; a longer Parquet file is a
        batch of its own.
    maxFilesPerBatch : int, optional
        Files in one batch; default 1,000.
    encodingErrors : "strict" or "replace"
        What becomes of bytes that are no UTF-8: MalformedInputError with file and byte, or U+FFFD in their place.
    malformed : "fail" or "keep"
        What becomes of a JSON line that cannot be read: MalformedInputError with file and line, or a tuple whose
        additional field ``_corrupt string`` holds the line, all others null.
    completeAfterSecs : float
        A file that was modified less than this many seconds ago may still be written to: of text and JSON only whole
        lines are read, Parquet not at all. With 0 a file is complete when it appears (moved in, as most writers do).

    Raises
    ------
    SourceUnreadableError
        No such file or folder, or one that cannot be read; a planned file that has vanished; a compressed file.
    SpoutContractError
        A file that changed between plan and replay, or after it was read; a line that went on after it was read;
        another folder than the one that was read.
    MalformedInputError
        Invalid UTF-8; a malformed line of JSON.

    Examples
    --------
    >>> FileSpout("/data/books/*.txt", maxBytesPerBatch=16_000_000)
    FileSpout('/data/books/*.txt', maxBytesPerBatch=16000000)
    >>> FileSpout("/data/clicks", format="json", schema="user long, page string").schema.names
    ['user', 'page']

    Notes
    -----
    A text or JSON file may grow by whole lines after it was read; reading goes on where it ended. A renamed file is
    followed, a copied or restored one is known again by its content. Any other change to a file that was read is an
    error, not a second reading. The 1,000 latest files are remembered (all that are being written to besides); older
    ones by "read up to this time and name": do not touch those, and do not move files in that are older than the last
    thousand read ones.
    """

    path: str
    format: FileFormat
    maxBytesPerBatch: int
    maxFilesPerBatch: int | None
    encodingErrors: EncodingErrors
    malformed: Malformed
    completeAfterSecs: float
    _declared: StructType | None
    _told: list[StructType] = field(compare=False)
    kind = SpoutKind.TRANSACTIONAL

    def __init__(
        self,
        path: str | PurePath,
        format: FileFormat = "text",
        schema: str | StructType | None = None,
        maxBytesPerBatch: int = 64 << 20,
        maxFilesPerBatch: int | None = None,
        encodingErrors: EncodingErrors = "strict",
        malformed: Malformed = "fail",
        completeAfterSecs: float = 0,
    ) -> None:
        _one_of("format", format, get_args(FileFormat))
        _one_of("encodingErrors", encodingErrors, get_args(EncodingErrors))
        _one_of("malformed", malformed, get_args(Malformed))
        for name, limit in (("maxBytesPerBatch", maxBytesPerBatch), ("maxFilesPerBatch", maxFilesPerBatch)):
            if limit is not None and (not isinstance(limit, int) or limit < 1):
                raise TopologyError(f"FileSpout: {name}={limit!r} is no positive number")
        set_ = object.__setattr__
        set_(self, "path", absolute(path))
        set_(self, "format", format)
        set_(self, "maxBytesPerBatch", maxBytesPerBatch)
        set_(self, "maxFilesPerBatch", maxFilesPerBatch)
        set_(self, "encodingErrors", encodingErrors)
        set_(self, "malformed", malformed)
        set_(self, "completeAfterSecs", completeAfterSecs)
        set_(self, "_declared", _declared(format, schema, malformed))
        set_(self, "_told", [])

    @property
    def schema(self) -> StructType:
        """Return the fields: as declared, or those of the first Parquet file when this was first called. A topology is
        built for these, whichever file comes first when it reads."""
        if self._declared is not None or self._told:
            return self._declared or self._told[0]
        place = place_of(self.path)
        first = next((found for found in find(place) if found.size), None)
        if first is None:
            raise TypeDeclarationError(
                f"FileSpout: no Parquet file at {self.path} yet whose fields could be read; give them: "
                f'schema="word string, n long"'
            )
        self._told.append(footer_schema(place.path(first.name)))
        return self._told[0]

    def open(self) -> SpoutExecutor:
        """Begin to work for one run."""
        return _FileExecutor(self, place_of(self.path))

    def __repr__(self) -> str:
        defaults = {"format": "text", "maxBytesPerBatch": 64 << 20, "maxFilesPerBatch": None, "malformed": "fail"}
        defaults |= {"encodingErrors": "strict", "completeAfterSecs": 0}
        shown = [repr(self.path)]
        shown += [f"{name}={getattr(self, name)!r}" for name, usual in defaults.items() if getattr(self, name) != usual]
        if self.format != "text" and self._declared is not None:
            shown.insert(2, f"schema={ddl(self._declared)!r}")
        return f"FileSpout({', '.join(shown)})"


def _one_of(name: str, given: object, known: tuple[str, ...]) -> None:
    if given not in known:
        raise TopologyError(f"FileSpout: {name}={given!r} is not one of {', '.join(map(repr, known))}")


def _declared(format: FileFormat, schema: str | StructType | None, malformed: Malformed) -> StructType | None:
    if schema is None:
        if format == "json":
            raise TypeDeclarationError('FileSpout: format="json" needs the fields: schema="user long, page string"')
        return parse_schema("line string") if format == "text" else None
    fields = read_schema(schema)
    if format == "text" and [type(each.dataType) for each in fields.fields] != [StringType]:
        raise TypeDeclarationError(
            f'FileSpout: format="text" gives one string a line, not ({ddl(fields)}); write schema="line string", '
            f"and take the line apart with each(...)"
        )
    return with_corrupt_field(fields) if format == "json" and malformed == "keep" else fields


class _FileExecutor(SpoutExecutor):
    plans_ahead = True

    def __init__(self, spout: FileSpout, place: Place) -> None:
        self._spout = spout
        self._place = place
        self._by_lines = spout.format != "parquet"
        limits = Limits(spout.maxBytesPerBatch, spout.maxFilesPerBatch, spout.completeAfterSecs)
        self._planner = Planner(place, limits, self._by_lines)
        self._listing: list[Found] = []
        self._listed = float("-inf")
        self._warned = False
        self._known: tuple[str | None, Seen] = (None, Seen())
        """What the batches up to the last planned one have seen: as text, and as recognized in the listing."""

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float) -> Metadata:
        for _ in range(_LISTINGS):
            anew = monotonic() - self._listed >= _LISTING_SECONDS
            try:
                ranges, after = self._planner.next(self._seen(previous, anew), self._listing, time)
                if ranges:
                    self._known = (after.encode(), after)
                    return {"files": [each.to_json() for each in ranges], "seen": self._known[0]}
                if anew:
                    return None
            except StaleListingError:
                pass
            self._listed = float("-inf")
        raise SourceUnreadableError(f"FileSpout: the files at {self._place} come and go faster than they can be listed")

    def _seen(self, previous: Metadata, anew: bool) -> Seen:
        """Return what the batches up to the previous one have seen, recognized in the listing."""
        text = None if previous is None else _read(previous, "seen", str)
        known, seen = self._known
        if text != known:
            seen = Seen() if previous is None else _read(previous, "seen", Seen.decode)
        if anew:
            self._list(seen)
        if anew or text != known:
            self._known = text, self._planner.recognize(seen, self._listing)
        if anew:
            self._listed = monotonic()
        return self._known[1]

    def _list(self, seen: Seen) -> None:
        """List the files. Warn of those that came too late to be told from read ones, and once if none is there."""
        before = {file.name for file in self._listing}
        self._listing = find(self._place)
        if not self._listing and not self._warned:
            self._warned = True
            hidden = hidden_in(self._place)
            _log.warning(
                "FileSpout: there is no file at %s%s",
                self._place,
                ""
                if hidden is None
                else f" that is not hidden: files and folders whose names begin with _ or ., or end "
                f"in ._COPYING_, are left out, because writers hide so what is not complete. {hidden} is one; rename "
                f"it to have it read",
            )
        if self._by_lines:
            check_compressed(self._listing, self._place)
        for file in self._listing if before else ():
            if file.name not in before and seen.is_past(file):
                _log.warning(
                    "FileSpout: %s appeared with a modification time before that of files read long ago; it is "
                    "taken for one of those and not read. Touch it to have it read.",
                    self._place.path(file.name),
                )

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        ranges = _read(metadata, "files", lambda files: [FileRange(*each) for each in files])
        files = [self._planned_file(each, attempt.txid) for each in ranges]
        if self._by_lines:
            cut = ((file, each.start, each.end) for file, each in zip(files, ranges, strict=True))
            stretches = (Stretch(file.path, start, end, start, end, file) for file, start, end in cut)
            return LinesEmission(tuple(stretches), self._line_format())
        paths, schema = tuple(file.path for file in files), self._spout.schema
        rows = sum(count_rows(path, schema) for path in paths)
        return FilesEmission(paths, schema, rows, planned=tuple(files))

    def _planned_file(self, range_: FileRange, txid: int) -> PlannedFile:
        """Return the planned file, under its own name or, where it was renamed since, under the one that it has now.
        Raise where it is gone or has changed."""
        try:
            return check_unchanged(range_, self._place.path(range_.name), txid, grows=self._by_lines)
        except SpoutError:
            for file in find(self._place):
                if file.inode == range_.inode and file.name != range_.name:
                    with suppress(SpoutError):  # it only has the inode: told is what is wrong under the planned name
                        return check_unchanged(range_, self._place.path(file.name), txid, grows=self._by_lines)
            raise

    def _line_format(self) -> LineFormat:
        spout = self._spout
        if spout.format == "text":
            return TextFormat(spout.schema, spout.encodingErrors)
        return JsonFormat(spout.schema, spout.malformed, spout.encodingErrors)


def _read(metadata: Metadata, key: str, read: Callable[[Any], _T]) -> _T:
    try:
        return read(metadata[key])  # type: ignore[index, call-overload]
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise foreign("FileSpout", error) from None
