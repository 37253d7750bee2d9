"""Frozen rows as Parquet files: written by the driver, or by the workers that read the frozen files beside them.

A file keeps a dot before its name until the driver has it in its list, so that what a cancelled or repeated task left
is seen by no reader.
"""

import errno
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trident.base.errors import OutputError, OutputUnavailableError
from trident.base.files import fsync_folder
from trident.base.values import to_python
from trident.compiler.engine import FrozenFiles
from trident.compiler.spark.frozen_files import read_frozen
from trident.compiler.spark.worker_functions import Batches, OnWorker
from trident_spouts.workers import numbers_of

PART = pa.schema([("name", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())])
"""What a task tells of a file that it wrote."""

_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(32)}

NEVER_PASSING = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
"""OSErrors that no patience cures: what else there is (a connection, a timeout, a full disk) may go away."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file, relative to its batch's folder, as it will be called."""

    name: str
    rows: int
    bytes: int

    @property
    def hidden(self) -> str:
        """Its name until it is in the list."""
        folder, file = os.path.split(self.name)
        return os.path.join(folder, f".{file}")


def write_parts(tables: Iterable[pa.Table], folder: Path, partitions: Sequence[str]) -> Iterator[Part]:
    """Write each table to new hidden files in `folder`, which must be there, one for each value of the partitions;
    each durable before it is told of. Raises OutputUnavailableError where the disk is full or away."""
    try:
        for table in tables:
            for place, rows in _split(table, partitions):
                yield _write(rows, folder, place)
    except OSError as error:
        raise os_trouble(error, f"the files of a batch could not be written to {folder}") from error


def os_trouble(error: OSError, what: str) -> OutputError:
    """The error for a disk or file system that refuses."""
    if error.errno == errno.ENAMETOOLONG:
        hint = "a value that names a folder is too long; give the output another partitionBy, and another path"
        return OutputError(f"{what}: {error.strerror} ({hint})")
    kind = OutputError if isinstance(error, NEVER_PASSING) else OutputUnavailableError
    return kind(f"{what}: {error}")


def _write(rows: pa.Table, folder: Path, place: str) -> Part:
    where = folder
    for name in place.split("/") if place else ():
        where = where / name
        if not where.exists():
            where.mkdir(exist_ok=True)
            fsync_folder(where.parent)
    name = os.path.join(place, f"part-{secrets.token_hex(8)}.parquet")
    path = folder / Part(name, 0, 0).hidden
    with open(path, "xb") as file:
        pq.write_table(rows, file, store_schema=False)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    return Part(name, rows.num_rows, size)


def _split(table: pa.Table, partitions: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The table's rows by the folder that they belong to."""
    if not partitions:
        if table.num_rows:
            yield "", table
        return
    values = [to_python(table.column(name)) for name in partitions]
    places: dict[str, int] = {}
    of = [
        places.setdefault(
            "/".join(f"{escaped(n)}={_shown(v)}" for n, v in zip(partitions, row, strict=True)), len(places)
        )
        for row in zip(*values, strict=True)
    ]
    marks = pa.array(of, pa.int64())
    for place, number in places.items():
        yield place, table.filter(pc.equal(marks, number))


def _shown(value: object) -> str:
    if value is None or value == "":
        return _NULL
    return escaped(str(value).lower() if isinstance(value, bool) else str(value))


def escaped(text: str) -> str:
    """A text as Spark and Hive write it into the name of a folder; also NUL, which no name can hold.

    >>> escaped("a/b=c"), escaped(chr(0))
    ('a%2Fb%3Dc', '%00')
    """
    return "".join(f"%{ord(sign):02X}" if sign in _ESCAPED else sign for sign in text)


@dataclass(frozen=True, slots=True)
class WriteFrozen(OnWorker):
    """From numbers of frozen files to Parquet files of the same rows, one row told of each."""

    checkpoint: str
    frozen: FrozenFiles
    folder: str
    partitions: tuple[str, ...]

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        numbers = list(numbers_of(batches))
        files = tuple(self.frozen.files[number] for number in numbers)
        chosen = FrozenFiles(self.frozen.folder, files, self.frozen.schema)
        tables = read_frozen(Path(self.checkpoint), chosen)
        parts = [asdict(part) for part in write_parts(tables, Path(self.folder), self.partitions)]
        yield pa.RecordBatch.from_pylist(parts, schema=PART)
