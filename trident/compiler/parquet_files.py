"""Frozen rows as Parquet files, written by the driver or by the workers that read the frozen files.

On a disk a file has a name that no reader looks for until its batch is published, so that no reader sees files that
cancelled or repeated tasks left. On an object store a file has its final name from the start. The name follows from the
frozen rows, so a task that writes the same rows again, however late, finds the object and leaves it unchanged.
"""

import errno
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from trident.base.durable_files import fsync_folder
from trident.base.errors import (
    FilesRefusedError,
    OutputConflictError,
    OutputError,
    OutputRefusedError,
    OutputUnavailableError,
)
from trident.base.folder_names import escaped
from trident.base.value_conversion import to_python
from trident.compiler.partition_functions import Batches, OnWorker
from trident.compiler.row_order import footer_note, noted
from trident.files.disk import DiskFiles
from trident.files.store import FileStore
from trident.frozen.files import read_frozen
from trident.frozen.results import FrozenFiles
from trident_spouts.spark_workers import numbers_of

PART = pa.schema([("name", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())])
"""The row in which a task describes a file that it wrote."""

_NULL = "__HIVE_DEFAULT_PARTITION__"

NEVER_PASSING = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
"""The OSErrors for which a retry is useless. Others (a lost connection, a timeout, a full disk) may pass."""


@dataclass(frozen=True, slots=True)
class Part:
    """A Parquet file of a batch. `name` is its final path, relative to the batch's folder."""

    name: str
    rows: int
    bytes: int

    @property
    def hidden(self) -> str:
        """The path of the file until the batch is published. No pattern for Parquet files matches it."""
        folder, file = os.path.split(self.name)
        return os.path.join(folder, f".{file}.tmp")


class Target(Protocol):
    """The destination of the Parquet files of one batch. It is picklable, because it is sent to workers."""

    @property
    def place(self) -> FileStore:
        """The store of files that workers must reach to write the files."""
        ...

    @property
    def files(self) -> FileStore:
        """The store that contains only the files of the batch."""
        ...

    def stored_as(self, part: Part) -> str:
        """Return the name of a file in `files` before the batch is published."""
        ...

    def write(self, rows: pa.Table, number: int, subfolder: str) -> Part:
        """Write one file durably, with those rows of frozen file `number` that belong into the subfolder."""
        ...


@dataclass(frozen=True, slots=True)
class FolderTarget:
    """The batch's own folder. It exists, and no reader sees it yet."""

    folder: Path

    @property
    def place(self) -> FileStore:
        return DiskFiles(self.folder.parent)

    @property
    def files(self) -> FileStore:
        return DiskFiles(self.folder)

    def stored_as(self, part: Part) -> str:
        return part.hidden

    def __str__(self) -> str:
        return str(self.folder)

    def write(self, rows: pa.Table, number: int, subfolder: str) -> Part:
        """Write a new hidden file with a name that sorts by the number; see `Target.write`."""
        parent = self.folder
        for name in subfolder.split("/") if subfolder else ():
            parent = parent / name
            if not parent.exists():
                parent.mkdir(exist_ok=True)
                fsync_folder(parent.parent)
        name = os.path.join(subfolder, f"part-{number:08}-{secrets.token_hex(8)}.parquet")
        path = self.folder / Part(name, 0, 0).hidden
        with open(path, "xb") as file:
            with pq.ParquetWriter(file, rows.schema, store_schema=False) as writer:
                writer.write_table(rows)
                writer.add_key_value_metadata(footer_note(rows, number))
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        return Part(name, rows.num_rows, size)


@dataclass(frozen=True, slots=True)
class ManifestTarget:
    """The files of one batch that a manifest will name.

    Readers see each file as soon as it is written. `mark` is the start of the log's uuid.
    """

    files: FileStore
    mark: str

    @property
    def place(self) -> FileStore:
        return self.files

    def stored_as(self, part: Part) -> str:
        return part.name

    def __str__(self) -> str:
        return self.files.address

    def write(self, rows: pa.Table, number: int, subfolder: str) -> Part:
        """Write an object, unless an object with the same rows already exists; see `Target.write`.

        Raises OutputConflictError if the object has other rows: then an old copy of the log is at work.
        """
        content = encoded(rows)
        name = f"{subfolder}/" if subfolder else ""
        name += f"part-{number:05}-{self.mark}.parquet"
        if self.files.create(name, content):
            return Part(name, rows.num_rows, len(content))
        present = self.files.read(name)  # perhaps written by another version of the Parquet writer
        found = pq.ParquetFile(pa.BufferReader(pa.py_buffer(present))).read()
        if found.num_rows != rows.num_rows or encoded(found.cast(rows.schema)) != content:
            raise OutputConflictError(
                f"{self.files.path(name)} exists, but its rows differ from those in the log for this batch: the log is "
                f"an old copy, or the object was changed. Restore the newest log, or give the output another path"
            )
        return Part(name, rows.num_rows, memoryview(present).nbytes)


def encoded(rows: pa.Table) -> bytes:
    """Return rows as a Parquet file. Equal rows give equal bytes, as long as the version of the writer is the same."""
    sink = pa.BufferOutputStream()
    # The chunks of the table and the metadata of its schema differ between the driver that froze the rows and a driver
    # that read them from the log.
    pq.write_table(rows.replace_schema_metadata(None).combine_chunks(), sink, store_schema=False)
    return bytes(sink.getvalue())


def write_parts(tables: Iterable[tuple[int, pa.Table]], target: Target, partitions: Sequence[str]) -> Iterator[Part]:
    """Write the table of each frozen file: one Parquet file for each combination of values of the fields `partitions`.

    Each file is durable before it is yielded. Raises OutputUnavailableError if the disk is full or the store does not
    answer.
    """
    try:
        for number, table in tables:
            for subfolder, rows in split(table, partitions):
                yield target.write(rows, number, subfolder)
    except OSError as error:
        raise os_trouble(error, f"the files of a batch could not be written to {target}") from error


def os_trouble(error: OSError, what: str) -> OutputError:
    """Return the error to raise for an error of a disk, a file system or an object store."""
    if isinstance(error, FilesRefusedError):
        return OutputRefusedError(f"{what}: {error}")
    if error.errno == errno.ENAMETOOLONG:
        hint = (
            "a value of partitionBy is too long for the name of a folder; give the output another partitionBy, and "
            "another path"
        )
        return OutputError(f"{what}: {error.strerror} ({hint})")
    kind = OutputError if isinstance(error, NEVER_PASSING) else OutputUnavailableError
    return kind(f"{what}: {error}")


def split(table: pa.Table, partitions: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """Yield the table's rows by subfolder. With partitions, they have a note of their places in the table."""
    if not table.num_rows:
        return
    if not partitions:
        yield "", table
        return
    subfolders, numbers = _subfolders(table, partitions)
    in_order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=len(subfolders)))
    for subfolder, places in zip(subfolders, np.split(in_order, ends[:-1]), strict=True):
        yield subfolder, noted(table.take(places), places)


def _subfolders(table: pa.Table, partitions: Sequence[str]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the subfolders of a table's rows, in the order of their first rows, and the number of each row's.

    A text is made once for each value, because there are few of them and many rows.
    """
    subfolders, numbers = [""], np.zeros(table.num_rows, np.int64)
    for name in partitions:
        encoded = table.column(name).dictionary_encode(null_encoding="encode")  # one dictionary for all chunks
        texts = [f"{escaped(name)}={_shown(value)}" for value in to_python(encoded.chunk(0).dictionary)]
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
        pairs, numbers = np.unique(numbers * len(texts) + codes, return_inverse=True)
        subfolders = [os.path.join(subfolders[pair // len(texts)], texts[pair % len(texts)]) for pair in pairs]
    _, first = np.unique(numbers, return_index=True)
    once: dict[str, int] = {}  # null and "" name one folder
    for number in np.argsort(first):
        once.setdefault(subfolders[number], len(once))
    return list(once), np.array([once[subfolder] for subfolder in subfolders])[numbers]


def _shown(value: object) -> str:
    if value is None or value == "":
        return _NULL
    return escaped(str(value).lower() if isinstance(value, bool) else str(value))


@dataclass(frozen=True, slots=True)
class WriteFrozen(OnWorker):
    """A function by which a worker writes the rows of frozen files into Parquet files.

    It gets the numbers of the frozen files, and yields a row for each Parquet file.
    """

    files: FileStore
    frozen: FrozenFiles
    target: Target
    partitions: tuple[str, ...]

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        numbers = list(numbers_of(batches))
        wanted = tuple(self.frozen.files[number] for number in numbers)
        chosen = FrozenFiles(self.frozen.folder, wanted, self.frozen.schema)
        tables = zip(numbers, read_frozen(self.files, chosen), strict=True)
        parts = [asdict(part) for part in write_parts(tables, self.target, self.partitions)]
        yield pa.RecordBatch.from_pylist(parts, schema=PART)
