"""Large results by reference: written by the workers that have them, each file durable before it is named.

A file is an Arrow stream of record batches with LZ4. Its name holds a random part, so that no result names the file of
a retried or cancelled task; a result is exactly the files that its manifest lists, and no folder is ever listed.
"""

import os
import secrets
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from trident.base.attempt import TransactionAttempt
from trident.base.errors import LogCorruptError
from trident.base.files import Summed, fsync_folder
from trident.base.values import conform
from trident.compiler.results import FrozenFile, FrozenFiles, Result
from trident.compiler.spark.worker_functions import Batches, OnWorker

MANIFEST = pa.schema([("name", pa.string()), ("bytes", pa.int64()), ("rows", pa.int64()), ("checksum", pa.int64())])
"""The row in which a task describes the file that it wrote."""

FROZEN = "frozen"


@dataclass(frozen=True, slots=True)
class FrozenFolders:
    """The folders for a run's large results, below a checkpoint.

    Each log has folders of its own: epochs and txids, which name the folders, mean nothing across logs.
    """

    checkpoint: Path
    log: str

    def folder(self, group: str, attempt: TransactionAttempt, stage: int) -> "FileFolder":
        """Return the folder for a stage of an attempt.

        The folder's name begins with the epoch, by which a later start knows what to sweep.
        """
        name = f"{attempt.epoch}-{attempt.txid}-{attempt.attempt}-{stage}"
        return FileFolder(self.checkpoint, f"{FROZEN}/{self.log}/{group}/{name}")

    def folders(self, group: str) -> list[Path]:
        """Return the existing folders that `folder` gave in any run of this log.

        Folders of version 0.1.0, whose names had no log, are among them.
        """
        parents = [self.checkpoint / FROZEN / self.log / group, self.checkpoint / FROZEN / group]
        return [folder for parent in parents if parent.is_dir() for folder in parent.iterdir()]


@dataclass(frozen=True, slots=True)
class FileFolder:
    """The folder for an attempt's large results; `folder` is relative to the checkpoint."""

    checkpoint: Path
    folder: str

    @property
    def path(self) -> Path:
        return self.checkpoint / self.folder

    def sync(self) -> None:
        """Make the folder's own name durable.

        The files in the folder and their names are durable already: `write_frozen` flushed them.
        """
        folder = self.path
        while folder != self.checkpoint:
            folder = folder.parent
            fsync_folder(folder)


def write_frozen(batches: Iterator[pa.RecordBatch], folder: Path, part: str, schema: pa.Schema) -> FrozenFile | None:
    """Write batches to one new file in `folder`, flushed to the disk with its name.

    Returns None, and writes nothing, where there are no rows.
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return None
    os.makedirs(folder, exist_ok=True)
    name = f"{part}-{secrets.token_hex(8)}.arrow"
    rows = 0
    with open(folder / f".{name}", "xb") as file:
        summed = Summed(file)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(pa.PythonFile(summed, mode="w"), schema, options=options) as writer:
            for batch in chain([first], batches):
                writer.write_table(conform(pa.Table.from_batches([batch]), schema))
                rows += batch.num_rows
        file.flush()
        os.fsync(file.fileno())
    os.rename(folder / f".{name}", folder / name)
    fsync_folder(folder)
    return FrozenFile(name, summed.bytes, rows, summed.checksum)


@dataclass(frozen=True, slots=True)
class FreezeWriter(OnWorker):
    """A function that writes a partition's batches to a file and gives one manifest row; without rows it gives none."""

    folder: str
    part: str
    schema: pa.Schema

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        file = write_frozen(batches, Path(self.folder), self.part, self.schema)
        if file is not None:
            yield pa.RecordBatch.from_pydict(
                {"name": [file.name], "bytes": [file.bytes], "rows": [file.rows], "checksum": [file.checksum]}
            )


def manifest_of(table: pa.Table, folder: str, schema: pa.Schema) -> FrozenFiles:
    """Return a large result by reference, from the manifest rows that its tasks gave."""
    rows = sorted(table.to_pylist(), key=lambda row: str(row["name"]))
    return FrozenFiles(folder, tuple(FrozenFile(**row) for row in rows), schema)


def read_frozen(folder: Path, frozen: FrozenFiles) -> Iterator[pa.Table]:
    """Yield the tables of a large result, file by file.

    `folder` is the checkpoint that `frozen.folder` is relative to. Raises LogCorruptError if a file is missing, or has
    another size or checksum than was frozen.
    """
    for file in frozen.files:
        path = folder / frozen.folder / file.name
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise LogCorruptError(f"the frozen file {path} is missing; a batch cannot be applied without it") from None
        if len(content) != file.bytes or zlib.crc32(content) != file.checksum:
            raise LogCorruptError(
                f"the frozen file {path} is damaged: it has {len(content)} bytes and CRC32 {zlib.crc32(content)}, "
                f"frozen were {file.bytes} and {file.checksum}"
            )
        with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
            yield reader.read_all()


def read_whole(folder: Path, result: Result) -> pa.Table:
    """Return all rows of a result, from its files where it has some."""
    if isinstance(result, pa.Table):
        return result
    return pa.concat_tables([result.schema.empty_table(), *read_frozen(folder, result)])


def reachable(spark: SparkSession, folder: Path, tasks: int = 4) -> bool:
    """Return whether the executors see this folder of the driver's.

    The executors are asked to read a probe file in the folder, and to answer with a file of their own there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(8)
    probe = folder / f".probe-{token}"
    probe.write_text(token)
    answers: list[Path] = []
    try:
        asked: DataFrame = spark.range(tasks).repartition(tasks).mapInArrow(Probe(str(folder), token), "name string")
        answers = [folder / name for name in asked.toArrow().column(0).to_pylist()]
        return all(path.exists() and path.read_text() == token for path in answers) and len(answers) > 0
    finally:
        for path in [probe, *answers]:
            path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Probe:
    """A function that reads a probe and answers with a file, whose name it gives; "-" says that there was no probe."""

    folder: str
    token: str

    def __call__(self, batches: Batches) -> Batches:
        for _ in batches:
            pass
        folder, name = Path(self.folder), f".answer-{secrets.token_hex(8)}"
        try:
            text = (folder / f".probe-{self.token}").read_text()
            (folder / name).write_text(text)
        except OSError:
            name = "-"
        yield pa.RecordBatch.from_pydict({"name": [name]})
