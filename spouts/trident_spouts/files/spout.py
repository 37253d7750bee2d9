"""FileSpout: a spout of text, JSON, CSV or Parquet files."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from time import time
from typing import Literal, get_args

from pyspark.sql.types import StructType

from trident.base.argument_checks import check_choice, check_whole_number
from trident.base.descriptions import described, keep
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.option_names import known_options
from trident.base.short_texts import typed_brief
from trident.base.spark_types import ddl
from trident.files.object_options import Storage
from trident_spouts.configurable import configurable
from trident_spouts.executor import Metadata, SpoutExecutor, SpoutKind
from trident_spouts.files.executor import FileExecutor, read_metadata
from trident_spouts.files.file_ranges import PlannedFile
from trident_spouts.files.folder_fields import Folders
from trident_spouts.files.folder_watch import Watch
from trident_spouts.files.formats import FileFormat, FormatName, format_of
from trident_spouts.files.glob_patterns import matches
from trident_spouts.files.listing import MOST_LISTED, list_files, nested_hint
from trident_spouts.files.manifest_executor import ManifestExecutor
from trident_spouts.files.manifest_planner import ManifestPosition
from trident_spouts.files.moved_options import MOVED
from trident_spouts.files.parquet import footer_schema
from trident_spouts.files.read_files import ReadFiles
from trident_spouts.files.reread_executor import RereadFileExecutor
from trident_spouts.files.storage import FileStorage, ListedFile
from trident_spouts.files.user_paths import Manifest, absolute, is_object, manifest_of, place_of
from trident_spouts.rereadable_sources import End
from trident_spouts.rows import read_schema

FileOrder = Literal["time", "name"]

_WATCH = Watch()


@configurable
@dataclass(frozen=True, init=False, repr=False)
class FileSpout:
    r"""A spout of the files of a folder or glob, including files that appear there while the topology runs.

    The spout is transactional: the metadata of a batch is the exact list of its files with size, modification time and,
    for text and JSON, the byte range. The workers read the bytes. Files are read in the order of modification time,
    then name (`orderBy`). Each file is read once, even across restarts.

    Parameters
    ----------
    path : str, path, Manifest or Folders
        A file, a folder (without its subfolders) or a glob (``**`` goes into folders). Files and folders with names
        that begin with ``_`` or ``.`` are left out. The driver and all workers must see the same files under the same
        path. The log names files relative to the part of the path before the first wildcard, so that a folder can be
        moved together with the checkpoint. Or the URL of an object, prefix or glob of an object store:
        ``s3://bucket/in/*``. Or a `Manifest`, which names the files to read, or
        `Folders`, whose names are values of fields.
    format : "text", "json", "csv", "parquet", or `Text`, `Json`, `Csv`, `Parquet`
        The format by its name, with the defaults of all its options, or as an object with the options that belong to
        it: ``Csv(sep=";", header=False)``, ``Json(malformed="keep")``. JSON and CSV need a `schema`. Files of text,
        JSON and CSV may be compressed: ``.gz``, ``.bz2``, ``.zst``.
    schema : str or StructType, optional
        The fields with their types; here, or as the first argument of a format. For text it can only rename the one
        string field. Without it, the fields of Parquet are those of the first file in order at the time when the
        fields are first needed.
    maxBytesPerBatch : int
        The most bytes of files in one batch. Longer files of lines are divided between lines. A longer Parquet file,
        compressed file, or file of CSV or JSON with ``multiLine=True`` is a separate batch.
    maxFilesPerBatch : int, optional
        The most files in one batch; default 1,000.
    orderBy : "time" or "name"
        The order in which files are read: of their modification times, then names, or of their names (relative to the
        part of the path before the first wildcard, compared as text: ``b10`` comes before ``b2``). Copies of files may
        lose their times; names that hold a date keep the events in order.
    watch : Watch
        When a file that is being written is complete, and how many of the files that were read are remembered:
        ``Watch(completeAfterSecs="1 minute", rememberedFiles=5_000)``.
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
        read; the path names a folder other than the one that the stream has read; a compressed file holds the content
        of a file that was read unpacked; a file may have been read long ago (see `Watch`).
    MalformedInputError
        Invalid UTF-8; a malformed line of JSON or CSV; a header without a field; a damaged compressed file.

    Examples
    --------
    >>> FileSpout("/data/books/*.txt", maxBytesPerBatch=16_000_000)
    FileSpout('/data/books/*.txt', maxBytesPerBatch=16000000)
    >>> FileSpout("/data/clicks", "json", "user long, page string").schema.names
    ['user', 'page']
    >>> from trident.spouts import Csv
    >>> FileSpout("/data/flights/*.csv.gz", Csv(nullValue="NA"), "carrier string, delay long")
    FileSpout('/data/flights/*.csv.gz', Csv(nullValue='NA'), 'carrier string, delay bigint')

    >>> FileSpout("s3://shop/clicks/*.json.gz", "json", "user long", orderBy="name",
    ...           storage={"region": "eu-central-1", "secret_access_key": "env:SHOP_SECRET"}).storage
    Storage(options=(('region', 'eu-central-1'), ('secret_access_key', 'env:SHOP_SECRET')))

    Notes
    -----
    Objects must not change at all: an object with another entity tag (ETag) is another object, even if it is only
    longer.

    A file of lines may grow by whole lines after it was read: the new lines are read too. A renamed file is recognized.
    A copied, touched or restored file is recognized by all of its content. Any other change to a file that was read is
    an error; the file is not read a second time.

    The spout remembers the number of files that `watch` sets, and all files that are not read to their ends. For older
    files it keeps checksums of their names, their number, and the time of the last change. So a new file with an older
    time is read, and a file that was read long ago stops the stream if it grows, or is touched or replaced.
    """

    path: str
    format: FileFormat
    maxBytesPerBatch: int
    maxFilesPerBatch: int | None
    orderBy: FileOrder
    watch: Watch
    storage: Storage
    manifest: bool
    """True if `path` is the path of a manifest."""
    folders: Folders | None
    """The fields that are in the names of folders."""
    _declared: StructType | None
    _first_schema: list[StructType] = field(compare=False)
    """A list that holds the fields of the first Parquet file once they were read. (The dataclass is frozen, but a
    list can change.)"""
    _shown_schema: str | None = field(compare=False)
    kind = SpoutKind.TRANSACTIONAL
    forkable = True

    @known_options(MOVED)
    def __init__(
        self,
        path: str | PurePath | Manifest | Folders,
        format: FormatName | FileFormat = "text",
        schema: str | StructType | None = None,
        *,
        maxBytesPerBatch: int = 64 << 20,
        maxFilesPerBatch: int | None = None,
        orderBy: FileOrder = "time",
        watch: Watch = _WATCH,
        storage: Mapping[str, str] | None = None,
    ) -> None:
        files = format_of(format)
        check_choice("FileSpout: orderBy", orderBy, get_args(FileOrder))
        check_whole_number("FileSpout: maxBytesPerBatch", maxBytesPerBatch)
        if maxFilesPerBatch is not None:
            check_whole_number("FileSpout: maxFilesPerBatch", maxFilesPerBatch)
        if not isinstance(watch, Watch):
            raise TopologyError(f"FileSpout: watch={typed_brief(watch)}: expected Watch(...), of trident.spouts")
        if schema is not None and files.schema is not None:
            raise TopologyError(
                f"FileSpout: schema={schema!r} and {files!r} both declare fields: give only one of them"
            )
        given = files.schema if schema is None else schema
        fields = None if given is None else read_schema(given)
        place = _address(path)
        stored = Storage.of(storage, "FileSpout: storage")
        if stored.options and not is_object(place):
            raise TopologyError(
                f"FileSpout: storage= is an option of object stores, but {place} is not in an object store"
            )
        if isinstance(path, Manifest) and orderBy != "time":
            raise TopologyError(
                f"FileSpout: orderBy={orderBy!r} with {path!r}: files are read in the manifest's order; leave orderBy "
                f"out"
            )
        keep(
            self,
            path=place,
            format=files,
            maxBytesPerBatch=maxBytesPerBatch,
            maxFilesPerBatch=maxFilesPerBatch,
            orderBy=orderBy,
            watch=watch,
            storage=stored,
            manifest=isinstance(path, Manifest),
            folders=path if isinstance(path, Folders) else None,
            _declared=files.fields(fields),
            _first_schema=[],
            _shown_schema=None if schema is None or fields is None else ddl(fields),
        )
        if self._declared is not None:
            self._with_folders(self._declared)

    @property
    def schema(self) -> StructType:
        """The declared fields; if none are declared, the fields of the first file at the first call.

        The topology is built for the fields of that file, even if another Parquet file is the first when it reads.
        Raises TypeDeclarationError if there is no file yet.
        """
        return self._with_folders(self._own_fields())

    def _with_folders(self, own: StructType) -> StructType:
        return own if self.folders is None else self.folders.after(own)

    def _own_fields(self) -> StructType:
        if self._declared is not None or self._first_schema:
            return self._declared or self._first_schema[0]
        if self.manifest:
            place, files = self._named_files()
        else:
            place = place_of(self.path, self.storage)
            files = iter(list_files(place, self.orderBy == "name", most=MOST_LISTED))
        first = next((file for file in files if file.size), None)
        if first is None:
            raise TypeDeclarationError(
                f"FileSpout: the fields come from a Parquet file, but there is none at {self.path} "
                f'yet{nested_hint(place)}; declare the fields: schema="word string, n long"'
            )
        self._first_schema.append(footer_schema(PlannedFile(place, first, first.size, None, False, "")))
        return self._first_schema[0]

    def _named_files(self) -> tuple[FileStorage, Iterator[ListedFile]]:
        manifest = manifest_of(self.path, self.storage)
        return manifest.place, manifest.files(manifest.names(time(), self.watch.completeAfterSecs))

    @property
    def form(self) -> str:
        """The format and the fields in which files are read, as text. The plan of every batch holds it."""
        return f"{self.format.name} ({ddl(self.schema)})"

    def changedSince(self, position: Metadata) -> str | None:
        """Return how this spout reads files differently than before, as text; None if nothing differs.

        `position` is the plan of the stream's last batch. A start logs the result as a warning.
        """
        before = position.get("as") if isinstance(position, dict) else None
        if before in (None, self.form):
            return None
        return (
            f"its files were read as {before} before, and are read as {self.form} from now on. If {self.path} contains "
            f"rows that were already read in the other format, they count twice"
        )

    def open(self) -> SpoutExecutor:
        """Return the executor of one run."""
        if self.manifest:
            return ManifestExecutor(self, manifest_of(self.path, self.storage))
        return FileExecutor(self, place_of(self.path, self.storage))

    def parts_read(self, position: Metadata) -> Collection[str]:
        """Return the remembered files that the batches up to a position have read; none for a manifest."""
        if not isinstance(position, dict) or "seen" not in position:
            return []
        read = read_metadata(position, "seen", ReadFiles.decode)
        return [f"{read.root}/{name}" for name in read.entries]

    @staticmethod
    def position_by_part(position: Metadata) -> dict[str, Metadata]:
        """Return the bytes that were read of each remembered file, and the last of the earlier files.

        For a manifest: the number of its files that were read, and the bytes of a file that was read in part.
        """
        if isinstance(position, dict) and "manifest" in position:
            manifest = read_metadata(position, "manifest", ManifestPosition.of_json)
            return {"files": manifest.read, **manifest.begun.bytes_by_file}
        return read_metadata(position, "seen", ReadFiles.decode).bytes_by_file

    def reads_part(self, part: str) -> bool:
        """Return whether a file has a name that this spout reads."""
        if self.manifest:
            return False
        place = place_of(self.path, self.storage)
        name = part.removeprefix(f"{place.address}/")
        return name != part and (matches(name, place.pattern) if place.pattern else "/" not in name)

    def why_not_again(self) -> str | None:
        """Return why the files cannot be read again, for an error message; None if they can be."""
        return "the first names in a manifest may have been removed" if self.manifest else None

    def open_again(self, end: End) -> SpoutExecutor:
        """Return the executor of a run that reads the files before a position again."""
        return RereadFileExecutor(self, place_of(self.path, self.storage), end)

    def amount_before(self, end: Metadata) -> str | None:
        """Return the number of bytes of the remembered files before a position, in words."""
        read = read_metadata(end, "seen", ReadFiles.decode)
        least = "at least " if read.forgotten.present.number or read.forgotten.more else ""
        return f"{least}{sum(entry.end for entry in read.entries.values()):,} bytes"

    def __repr__(self) -> str:
        path = self.folders or (Manifest(self.path) if self.manifest else self.path)
        plain = self.format == type(self.format)()
        return described(
            self,
            path=path,
            format=self.format.name if plain else self.format,
            schema=self._shown_schema,
            storage=self.storage.shown() or None,
        )


def _address(path: str | PurePath | Manifest | Folders) -> str:
    """Return the absolute path of a manifest, or of files."""
    if isinstance(path, Folders):
        return path.pattern(absolute(path.path))
    return absolute(path.path if isinstance(path, Manifest) else path)
