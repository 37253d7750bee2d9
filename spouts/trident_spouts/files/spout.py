"""FileSpout: a spout of text, JSON, CSV or Parquet files."""

import logging
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from time import monotonic, time
from typing import Any, Literal, TypeVar, get_args

from pyspark.sql.types import StringType, StructType

from trident.base.attempt import TransactionAttempt
from trident.base.checks import check_choice, check_whole_number
from trident.base.durations import Duration, read_seconds
from trident.base.errors import (
    SourceUnreadableError,
    SpoutContractError,
    SpoutError,
    TopologyError,
    TypeDeclarationError,
)
from trident.base.option_names import known_options
from trident.base.types import ddl, parse_schema
from trident.files.object_options import Storage
from trident_spouts.budget import NO_LIMIT, Budget
from trident_spouts.executor import Emission, Metadata, ReadSoFar, SpoutExecutor, SpoutKind
from trident_spouts.files.absent_fields import AbsentFields
from trident_spouts.files.csv_lines import CsvFormat
from trident_spouts.files.csv_rows import CsvOptions
from trident_spouts.files.jsonlines import (
    JsonFormat,
    Malformed,
    with_corrupt_fields,
    without_corrupt_fields,
)
from trident_spouts.files.lines import EncodingErrors
from trident_spouts.files.listing import check_readable, hidden_file, list_files, nested_file
from trident_spouts.files.manifest import Manifest
from trident_spouts.files.manifest_planner import ManifestPlanner, ManifestPosition
from trident_spouts.files.parquet import FilesEmission, checked_footers, columns_of, footer_schema, is_beyond_spark
from trident_spouts.files.places import FilePlace, ListedFile, StaleListingError
from trident_spouts.files.planner import Limits, Planner
from trident_spouts.files.ranges import FileRange, PlannedFile, check_unchanged
from trident_spouts.files.read_files import REMEMBERED, ReadFiles
from trident_spouts.files.reading import LineFormat, LinesEmission, Stretch
from trident_spouts.files.recognition import OnForgotten
from trident_spouts.files.text import TextFormat
from trident_spouts.files.user_paths import absolute, is_object, manifest_of, place_of
from trident_spouts.files.value_options import check_flat, check_options
from trident_spouts.files.values import Numbers, ValueReader
from trident_spouts.rows import read_schema
from trident_spouts.user_calls import foreign_metadata_error

_log = logging.getLogger("trident.spouts")
_T = TypeVar("_T")
FileFormat = Literal["text", "json", "csv", "parquet"]
FileOrder = Literal["time", "name"]

_SPARK_NAMES = {
    "delimiter": "sep",
    "maxBytesPerTrigger": "maxBytesPerBatch",
    "maxFilesPerTrigger": "maxFilesPerBatch",
    "mode": "malformed",
}
"""Spark's names of options that are called otherwise here."""

_LISTING_SECONDS, _LISTING_SHARE = 1.0, 10
"""A listing that still has unread files is used for this many seconds, or for this multiple of the time that it took,
whichever is longer. (Listing 100,000 files takes longer than a second.)"""

_NEWEST = 8
"""The number of planned batches whose records are kept decoded: batches in flight, and some before them."""

_MOST_LISTED = 3_000
"""The most unread files that one listing returns, at a place that lists names in order."""

_LOOK_BACK_SECONDS = 600.0
"""The time (seconds) after which a place that lists names in order is asked again for all names, also for those that
were read long ago."""

_LISTINGS = 5
"""The most listings in one plan. A plan lists again if a listed file is gone, or if another file has its name."""


@dataclass(frozen=True, init=False, repr=False)
class FileSpout:
    r"""A spout of the files of a folder or glob, including files that appear there while the topology runs.

    The spout is transactional: the metadata of a batch is the exact list of its files with size, modification time and,
    for text and JSON, the byte range. The workers read the bytes. Files are read in the order of modification time,
    then name (`orderBy`). Each file is read once, even across restarts.

    Parameters
    ----------
    path : str or path
        A file, a folder (without its subfolders) or a glob (``**`` goes into folders). Files and folders with names
        that begin with ``_`` or ``.`` are left out. The driver and all workers must see the same files under the same
        path. The log names files relative to the part of the path before the first wildcard, so that a folder can be
        moved together with the checkpoint. Or the URL of an object, prefix or glob of an object store:
        ``s3://bucket/in/*``.
    format : "text", "json", "csv" or "parquet"
        * text: each line is a tuple ``line string``. Lines end in ``\n`` or ``\r\n``.
        * json: one object a line; needs `schema`. A missing field is null, an undeclared one is ignored. Dates and
          times are ISO 8601, binary is base64.
        * csv: each row is a tuple; needs `schema`, without nested types. Columns are matched with the fields by the
          names in the header; other columns are ignored.

        Files of text, JSON and CSV may be compressed: ``.gz``, ``.bz2``, ``.zst``.
        * parquet: columns are matched by name with the fields of `schema`; a field without a column is null, and the
        log warns of one that no file of a run's first batch has. Without `schema` the fields are those of
        the first file in order at the time when the fields are first needed.
    schema : str or StructType, optional
        The fields with their types. For text it can only rename the one string field.
    maxBytesPerBatch : int
        The most bytes of files in one batch. Longer files of lines are cut where lines begin. A longer Parquet file,
        compressed file, or CSV file with `multiLine` is a separate batch.
    maxFilesPerBatch : int, optional
        The most files in one batch; default 1,000.
    encodingErrors : "strict" or "replace"
        With "strict", invalid UTF-8 raises MalformedInputError with file and byte; with "replace", it becomes U+FFFD.
    malformed : "fail" or "keep"
        With "fail", a line of JSON or CSV that cannot be read raises MalformedInputError with file and line. With
        "keep", it becomes a tuple with the line (``_corrupt string``) and the reason (``_corrupt_reason string``) in
        additional fields, and null in all others.
    completeAfterSecs : duration
        A file that was modified less than this time ago (seconds, ``"1 minute"``, a timedelta) counts as still being
        written: files of lines are read up to the last whole line, Parquet and compressed files are not read. With 0 a
        file counts as complete as soon as it appears (most writers move finished files in).
    orderBy : "time" or "name"
        The order in which files are read: of their modification times, then names, or of their names (relative to the
        part of the path before the first wildcard, compared as text: ``b10`` comes before ``b2``). Copies of files may
        lose their times; names that hold a date keep the events in order.
    rememberedFiles : int
        The number of files that were read, and are remembered one by one. Of those before them the stream keeps
        evidence by which it notices one more of them, and one that changes (see Notes).
    onForgotten : "fail" or "skip"
        The treatment of a file that may have been read, wholly or in part, long ago. "fail" raises SpoutContractError.
        With "skip" it counts as read, and a warning names it: new data in it is lost.
    sep, quote, escape : str, optional
        For CSV, one character each: the separator of values, the quote that may enclose a value, and the character
        before a quote within quotes; without `escape` such a quote is doubled (RFC 4180). Spark writes ``escape="\\"``.
        An empty `quote` means that no value is enclosed.
    header : bool
        For CSV, whether the first row of each file names the columns. Without it the columns are the fields in order.
    nullValue : str
        For CSV, the value that means null if it has no quotes; by default the empty one. An empty value in a field of
        another type than string is null in any case.
    multiLine : bool
        For CSV, whether values in quotes may hold newlines. Then a file is read as a whole, and must not grow.
    numbers : "strict" or "lenient"
        With "lenient", JSON and CSV may write whole numbers as ``517.0``, and JSON may write numbers as ``"517"``. A
        fraction is never dropped.
    timeZone : str, optional
        The zone of times in JSON and CSV that name no zone, for fields of type ``timestamp``. Without it, times must
        name their zone.

        Meaning of `sep`, `quote`, `escape`, `header`, `nullValue`, `multiLine`, `timeZone`:
        ``pyspark.sql.DataFrameReader.csv``, except for the defaults of `escape` and `header`.

    manifest : bool
        Whether `path` is a manifest: a file that names the files to read, in each line the path of one, relative to the
        manifest's folder or absolute. They are read in that order, each once, and must be complete. More names may be
        appended; other changes are refused. Also read is JSON as for Redshift's COPY: ``{"entries": [{"url":
        "s3://..."}]}``.
    storage : dict of str to str, optional
        The options of an object store, such as ``{"endpoint": "https://host:9000", "region": "eu-central-1"}``, by the
        names of the package obstore (``pip install 'trident-pyspark[objectstore]'``). A value that may be a secret must
        be ``"env:NAME"`` or ``"file:path"``: the variable or file holds it, on the driver and on every worker. Without
        credentials here, those of the environment (``AWS_ACCESS_KEY_ID`` and so on) or of the machine's role are used.

    Raises
    ------
    SourceUnreadableError
        There is no such file or folder, or it cannot be read; a planned file has vanished; a file has an unsupported
        compression; an object store does not answer, or refuses a request.
    SpoutContractError
        A file changed between plan and replay, or after it was read; the last line of a file was extended after it was
        read; the path names another folder than the one that the stream has read; a compressed file holds the content
        of a file that was read unpacked; a file may have been read long ago (`onForgotten`).
    MalformedInputError
        Invalid UTF-8; a malformed line of JSON or CSV; a header without a field; a damaged compressed file.

    Examples
    --------
    >>> FileSpout("/data/books/*.txt", maxBytesPerBatch=16_000_000)
    FileSpout('/data/books/*.txt', maxBytesPerBatch=16000000)
    >>> FileSpout("/data/clicks", format="json", schema="user long, page string").schema.names
    ['user', 'page']
    >>> FileSpout("/data/flights/*.csv.gz", format="csv", schema="carrier string, delay long", nullValue="NA")
    FileSpout('/data/flights/*.csv.gz', format='csv', schema='carrier string, delay bigint', nullValue='NA')

    >>> FileSpout("s3://shop/clicks/*.json.gz", format="json", schema="user long", orderBy="name",
    ...           storage={"region": "eu-central-1", "secret_access_key": "env:SHOP_SECRET"}).storage
    Storage(options=(('region', 'eu-central-1'), ('secret_access_key', 'env:SHOP_SECRET')))

    Notes
    -----
    Objects must not change at all: with another entity tag (ETag) it is another object, even if it is only longer.

    A file of lines may grow by whole lines after it was read: the new lines are read too. A renamed file is
    followed. A copied, touched or restored file is recognized by all of its content. Any other change to a file that
    was read is an error; the file is not read a second time.

    The spout remembers `rememberedFiles` files, and all that are not read to their ends. Of older ones it keeps
    checksums of names, how many are there, and the time of the last change. So a file that comes with an older time is
    read, and one that was read long ago and grows, or is touched or replaced, stops the stream.
    """

    path: str
    format: FileFormat
    maxBytesPerBatch: int
    maxFilesPerBatch: int | None
    encodingErrors: EncodingErrors
    malformed: Malformed
    completeAfterSecs: float
    orderBy: FileOrder
    rememberedFiles: int
    onForgotten: OnForgotten
    csv: CsvOptions
    numbers: Numbers
    timeZone: str | None
    manifest: bool
    storage: Storage
    _declared: StructType | None
    _first_schema: list[StructType] = field(compare=False)
    """A list that holds the fields of the first Parquet file once they were read. (The dataclass is frozen, a list is
    not.)"""
    kind = SpoutKind.TRANSACTIONAL

    @known_options(_SPARK_NAMES)
    def __init__(
        self,
        path: str | PurePath,
        format: FileFormat = "text",
        schema: str | StructType | None = None,
        maxBytesPerBatch: int = 64 << 20,
        maxFilesPerBatch: int | None = None,
        encodingErrors: EncodingErrors = "strict",
        malformed: Malformed = "fail",
        completeAfterSecs: Duration = 0,
        orderBy: FileOrder = "time",
        *,
        sep: str = ",",
        quote: str = '"',
        escape: str | None = None,
        header: bool = True,
        nullValue: str = "",
        multiLine: bool = False,
        numbers: Numbers = "strict",
        timeZone: str | None = None,
        rememberedFiles: int = REMEMBERED,
        onForgotten: OnForgotten = "fail",
        manifest: bool = False,
        storage: Mapping[str, str] | None = None,
    ) -> None:
        check_choice("FileSpout: format", format, get_args(FileFormat))
        check_choice("FileSpout: encodingErrors", encodingErrors, get_args(EncodingErrors))
        check_choice("FileSpout: malformed", malformed, get_args(Malformed))
        check_choice("FileSpout: orderBy", orderBy, get_args(FileOrder))
        check_choice("FileSpout: onForgotten", onForgotten, get_args(OnForgotten))
        check_whole_number("FileSpout: rememberedFiles", rememberedFiles)
        check_whole_number("FileSpout: maxBytesPerBatch", maxBytesPerBatch)
        if maxFilesPerBatch is not None:
            check_whole_number("FileSpout: maxFilesPerBatch", maxFilesPerBatch)
        csv = CsvOptions(sep, quote, escape, header, nullValue, multiLine)
        check_options(format, csv, numbers, timeZone)
        set_ = object.__setattr__
        set_(self, "path", absolute(path))
        set_(self, "storage", Storage.of(storage, "FileSpout: storage"))
        if storage and not is_object(self.path):
            raise TopologyError(f"FileSpout: storage= is an option of object stores, and {self.path} is in none")
        set_(self, "format", format)
        set_(self, "maxBytesPerBatch", maxBytesPerBatch)
        set_(self, "maxFilesPerBatch", maxFilesPerBatch)
        set_(self, "encodingErrors", encodingErrors)
        set_(self, "malformed", malformed)
        set_(self, "completeAfterSecs", read_seconds("FileSpout: completeAfterSecs", completeAfterSecs, zero=True))
        set_(self, "orderBy", orderBy)
        set_(self, "rememberedFiles", rememberedFiles)
        set_(self, "onForgotten", onForgotten)
        set_(self, "csv", csv)
        set_(self, "numbers", numbers)
        set_(self, "timeZone", timeZone)
        set_(self, "manifest", manifest)
        if manifest and orderBy != "time":
            raise TopologyError(
                f"FileSpout: orderBy={orderBy!r} with manifest=True: files are read in the manifest's order; leave "
                f"orderBy out"
            )
        set_(self, "_declared", _declared(format, schema, malformed))
        set_(self, "_first_schema", [])

    @property
    def schema(self) -> StructType:
        """The declared fields; if none are declared, the fields of the first file at the first call.

        The topology is built for the fields of that file, even if another Parquet file is the first when it reads.
        Raises TypeDeclarationError if there is no file yet.
        """
        if self._declared is not None or self._first_schema:
            return self._declared or self._first_schema[0]
        if self.manifest:
            place, files = self._named_files()
        else:
            place = place_of(self.path, self.storage)
            files = iter(list_files(place, self.orderBy == "name", most=_MOST_LISTED))
        first = next((file for file in files if file.size), None)
        if first is None:
            raise TypeDeclarationError(
                f"FileSpout: there is no Parquet file at {self.path} yet to read the fields from{_nested(place)}; give "
                f'them: schema="word string, n long"'
            )
        self._first_schema.append(footer_schema(PlannedFile(place, first, first.size, None, False, "")))
        return self._first_schema[0]

    def _named_files(self) -> tuple[FilePlace, Iterator[ListedFile]]:
        manifest = manifest_of(self.path, self.storage)
        return manifest.place, manifest.files(manifest.names(time(), self.completeAfterSecs))

    @property
    def form(self) -> str:
        """The format and the fields in which files are read, as text. The plan of every batch holds it."""
        return f"{self.format} ({ddl(self.schema)})"

    def changedSince(self, position: Metadata) -> str | None:
        """Return in words how this spout reads files differently from before; None if it reads them in the same way.

        `position` is the plan of the stream's last batch. A start logs the result as a warning.
        """
        before = position.get("as") if isinstance(position, dict) else None
        if before in (None, self.form):
            return None
        return (
            f"its files were read as {before}, and are read as {self.form} from now on. If {self.path} has the rows of "
            f"files that were read before, in another form, they count twice"
        )

    def open(self) -> SpoutExecutor:
        """Return the executor of one run."""
        if self.manifest:
            return _ManifestExecutor(self, manifest_of(self.path, self.storage))
        return _FileExecutor(self, place_of(self.path, self.storage))

    def __repr__(self) -> str:
        defaults = {"format": "text", "maxBytesPerBatch": 64 << 20, "maxFilesPerBatch": None, "malformed": "fail"}
        defaults |= {"encodingErrors": "strict", "completeAfterSecs": 0, "orderBy": "time"}
        defaults |= {"rememberedFiles": REMEMBERED, "onForgotten": "fail"}
        defaults |= {"numbers": "strict", "timeZone": None, "manifest": False}
        shown = [repr(self.path)]
        shown += [f"{name}={getattr(self, name)!r}" for name, value in defaults.items() if getattr(self, name) != value]
        shown += [f"{name}={value!r}" for name, value in vars(self.csv).items() if value != getattr(CsvOptions, name)]
        if self.format != "text" and self._declared is not None:
            shown.insert(2, f"schema={ddl(self._declared)!r}")
        shown += [f"storage={self.storage.shown()!r}"] if self.storage.options else []
        return f"FileSpout({', '.join(shown)})"


def _declared(format: FileFormat, schema: str | StructType | None, malformed: Malformed) -> StructType | None:
    if schema is None:
        if format in ("json", "csv"):
            raise TypeDeclarationError(
                f'FileSpout: format="{format}" needs the fields: schema="user long, page string"'
            )
        return parse_schema("line string") if format == "text" else None
    fields = read_schema(schema)
    if format == "text" and [type(field.dataType) for field in fields.fields] != [StringType]:
        raise TypeDeclarationError(
            f'FileSpout: format="text" gives one string a line, not ({ddl(fields)}); write schema="line string", '
            f"and split the line with each(...)"
        )
    if format == "csv":
        check_flat("FileSpout: format='csv'", fields)
    return with_corrupt_fields(fields) if format in ("json", "csv") and malformed == "keep" else fields


def _nested(place: FilePlace) -> str:
    """Return words about files in subfolders, which are not read without a glob; "" if there are none."""
    name = nested_file(place)
    if name is None:
        return ""
    return (
        f": its files are in subfolders, such as {name}; a glob reads these: {place}/**/*.parquet (a folder's name, "
        f"such as day=1, gives no field)"
    )


class _FileExecutor(SpoutExecutor):
    plans_ahead = True

    def __init__(self, spout: FileSpout, place: FilePlace) -> None:
        self._spout = spout
        self._place = place
        self._lines = spout.format != "parquet"
        limits = Limits(spout.maxBytesPerBatch, spout.maxFilesPerBatch, spout.completeAfterSecs)
        cut, by_name = self._lines and not spout.csv.multiLine, spout.orderBy == "name"
        self._planner = Planner(place, limits, cut, by_name, self._lines, spout.onForgotten)
        self._listing: list[ListedFile] = []
        self._whole = True
        """True if the listing has all files, not only the next ones in the order of their names."""
        self._looks_back = True
        """True if the listing has all files that sort as if they were read."""
        self._looked_back_at = float("-inf")
        self._listed_at = float("-inf")
        self._listing_secs = 0.0
        self._warned = False
        self._absent = AbsentFields()
        self._known: tuple[str | None, ReadFiles] = (None, ReadFiles(remembered=spout.rememberedFiles))
        """The record of files read up to the last planned batch: as text, and as `Planner.recognize` returned it."""
        self._recognized: tuple[ReadFiles | None, bool] = (None, True)
        """The last result of `_recognize`, and whether its listing had all files that sort as if they were read."""
        self._newest: tuple[tuple[str | None, ReadFiles], ...] = ()
        """The records after the batches that were planned last, for `read_so_far`: decoding one takes milliseconds, and
        a text does not tell which late files a look has found."""

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        for _ in range(_LISTINGS):
            anew = monotonic() - self._listed_at >= self._listing_secs
            try:
                ranges, after = self._planner.next(self._seen(previous, anew), self._listing, time, budget)
                if ranges:
                    self._known = (after.encode(), after)
                    self._newest = (*self._newest[1 - _NEWEST :], self._known)
                    files = [range_.to_json() for range_ in ranges]
                    return {"files": files, "seen": self._known[0], "as": self._spout.form}
                if anew:
                    return None
            except StaleListingError:
                pass
            self._listed_at = float("-inf")
        raise SourceUnreadableError(f"FileSpout: the files at {self._place} come and go faster than they can be listed")

    def read_so_far(self, position: Metadata) -> ReadSoFar | None:
        listing, newest = self._listing, self._newest[::-1]  # each is replaced as a whole, by the thread that plans
        if not listing or not self._whole:
            return None
        seen = ReadFiles()
        if position is not None:
            read = _read(position, "seen", str)
            planned = next((record for text, record in newest if text == read), None)
            seen = ReadFiles.decode(read) if planned is None else planned
        return ReadSoFar(sum(map(seen.bytes_read, listing)), sum(file.size for file in listing), "bytes")

    def _seen(self, previous: Metadata, anew: bool) -> ReadFiles:
        """Return the record of the files read up to the previous batch, with the names that they have in the listing.

        With `anew`, list the files first.
        """
        begin = monotonic()
        text = None if previous is None else _read(previous, "seen", str)
        known, seen = self._known
        if text != known:
            seen = ReadFiles() if previous is None else _read(previous, "seen", ReadFiles.decode)
            seen = replace(seen, remembered=self._spout.rememberedFiles)
        former = self._listing
        if anew:
            self._list(seen)
        if text != known or (anew and not self._is_quiet(seen, former)):
            self._known = text, self._recognize(seen)
            self._recognized = self._known[1], self._looks_back
            self._newest = (*self._newest[1 - _NEWEST :], self._known)
        if anew:
            self._listed_at = monotonic()
            self._looked_back_at = self._listed_at if self._looks_back else self._looked_back_at
            self._listing_secs = max(_LISTING_SECONDS, _LISTING_SHARE * (self._listed_at - begin))
        return self._known[1]

    def _is_quiet(self, seen: ReadFiles, former: list[ListedFile]) -> bool:
        """Return whether nothing happened to any file since `seen` was recognized by the listing before, `former`.

        A status proves it, unless a change is too recent.
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
            # A folder is not listed in one moment. A file that was renamed meanwhile may be missing under its new name,
            # while another file has its former name. A second listing shows both files.
            self._list(seen)
            return self._planner.recognize(seen, self._listing, self._looks_back)

    def _list(self, seen: ReadFiles) -> None:
        """List the files. Log a warning once if there is no file at all."""
        after, most = self._listed_after(seen), _MOST_LISTED + len(seen.entries)
        if not after:
            most += seen.forgotten.present.number
        self._listing = list_files(self._place, self._planner.by_name, after, most, seen.has_read)
        if not self._listing and seen.root == self._place.address and not self._place.is_there():
            raise SourceUnreadableError(
                f"FileSpout: cannot list {self._place}: the folder {seen.root}, which was read before, is not there"
            )
        cut = self._place.sorted and self._planner.by_name and len(self._listing) >= most
        self._whole = not after and not cut
        self._looks_back = not after and (not cut or seen.cutoff is None or self._listing[-1].name > seen.cutoff[1])
        if not self._listing and not self._warned:
            self._warned = True
            self._warn_of_none()
        if self._lines:
            check_readable(self._listing, self._place)

    def _listed_after(self, seen: ReadFiles) -> str:
        """Return the name after which a listing may begin, because all files up to it were read long ago.

        Return "" if there is no such name, or if it is time to look whether these files are still the same.
        """
        alike = seen.by_name == self._planner.by_name and seen.root == self._place.address
        if not (self._place.sorted and seen.by_name and alike and seen.cutoff):
            return ""
        due = monotonic() - self._looked_back_at > _LOOK_BACK_SECONDS
        return "" if seen.late or due else seen.cutoff[1]

    def _warn_of_none(self) -> None:
        hidden = hidden_file(self._place)
        why = (
            ""
            if hidden is None
            else (
                f" that is not hidden: files and folders whose names begin with _ or ., or end in ._COPYING_, are left "
                f"out, because writers hide unfinished files so. {hidden} is one; rename it to have it read"
            )
        )
        _log.warning("FileSpout: there is no file at %s%s", self._place, why or _nested(self._place))

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        ranges = _read(metadata, "files", lambda files: [FileRange(*fields) for fields in files])
        files = [self._planned_file(range_, attempt.txid) for range_ in ranges]
        if self._lines:
            stretches = tuple(map(self._stretch, files, ranges))
            if self._spout.format == "json" and stretches:
                fields = without_corrupt_fields(self._spout.schema, self._spout.malformed)
                self._absent.look_in_lines(fields.names, stretches[0])
            return LinesEmission(stretches, self._line_format())
        schema = self._spout.schema
        footers = checked_footers(files, schema)
        self._absent.look_in_files(schema.names, files, columns_of(footers))
        rows, beyond_spark = sum(each.num_rows for each in footers), any(map(is_beyond_spark, footers))
        return FilesEmission(tuple(files), schema, rows, beyond_spark=beyond_spark)

    def _stretch(self, file: PlannedFile, range_: FileRange) -> Stretch:
        bounds, whole = (range_.start, range_.end), not self._planner.cuts(range_.name)
        return Stretch(file, *bounds, *bounds, whole, range_.name)

    def _planned_file(self, range_: FileRange, txid: int) -> PlannedFile:
        """Return the planned file, even if it was renamed since.

        Raises SpoutError if the file is gone or has changed.
        """
        try:
            return check_unchanged(range_, self._place, range_.name, txid, grows=self._planner.grows(range_.name))
        except SpoutError:
            for file in list_files(self._place) if range_.inode else ():
                if file.inode == range_.inode and file.name != range_.name:
                    with suppress(SpoutError):  # only the inode is equal; the first error says more
                        return check_unchanged(
                            range_, self._place, file.name, txid, grows=self._planner.grows(range_.name)
                        )
            raise

    def _line_format(self) -> LineFormat:
        spout = self._spout
        if spout.format == "text":
            return TextFormat(spout.schema, spout.encodingErrors)
        values = ValueReader(spout.numbers == "lenient", spout.timeZone)
        if spout.format == "csv":
            return CsvFormat(spout.schema, spout.csv, spout.malformed, spout.encodingErrors, values)
        return JsonFormat(spout.schema, spout.malformed, spout.encodingErrors, values=values)


class _ManifestExecutor(_FileExecutor):
    def __init__(self, spout: FileSpout, manifest: Manifest) -> None:
        super().__init__(spout, manifest.place)
        self._manifest_planner = ManifestPlanner(manifest, self._planner, spout.completeAfterSecs)

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        planned = self._manifest_planner.next(_manifest_position(previous), time, budget)
        if planned is None:
            return None
        ranges, after = planned
        return {"files": [range_.to_json() for range_ in ranges], "manifest": after.to_json(), "as": self._spout.form}

    def read_so_far(self, position: Metadata) -> ReadSoFar | None:
        read = _manifest_position(position).read
        return ReadSoFar(read, max(read, self._manifest_planner.named), "files")


def _manifest_position(previous: Metadata) -> ManifestPosition:
    return ManifestPosition() if previous is None else _read(previous, "manifest", ManifestPosition.of_json)


def _read(metadata: Metadata, key: str, read: Callable[[Any], _T]) -> _T:
    try:
        return read(metadata[key])  # type: ignore[index, call-overload]
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise foreign_metadata_error("FileSpout", metadata) from error
