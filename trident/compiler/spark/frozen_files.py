"""Large results by reference: the workers that hold them write files. Each file is durable before a result names it.

A file is an Arrow stream of record batches with LZ4. Its name holds a random part, so that no result names the file of
a retried or cancelled task; a result is exactly the files that its manifest lists, and no folder is ever listed.
"""

import logging
import secrets
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from trident.base.attempt import TransactionAttempt
from trident.base.errors import LogCorruptError, TridentError
from trident.base.files import Summed
from trident.base.values import conform
from trident.compiler.results import FrozenFile, FrozenFiles, Result
from trident.compiler.spark.worker_functions import Batches, OnWorker
from trident.files.store import FileStore

logger = logging.getLogger(__name__)

MANIFEST = pa.schema([("name", pa.string()), ("bytes", pa.int64()), ("rows", pa.int64()), ("checksum", pa.int64())])
"""The row in which a task describes the file that it wrote."""

FROZEN = "frozen"
"""The folder of all frozen files, relative to the place of the run's files."""

PROBE, ANSWER = ".probe-", ".answer-"
"""The beginnings of the names of files by which executors show that they reach the place."""


@dataclass(frozen=True, slots=True)
class FrozenFolders:
    """The folders for a run's large results, in the place of its files.

    Each log has folders of its own: epochs and txids, which name the folders, mean nothing across logs.
    """

    files: FileStore
    log: str

    def folder(self, group: str, attempt: TransactionAttempt, stage: int) -> "FileFolder":
        """Return the folder for a stage of an attempt.

        The folder's name begins with the epoch, by which a later start knows what to sweep.
        """
        name = f"{attempt.epoch}-{attempt.txid}-{attempt.attempt}-{stage}"
        return FileFolder(self.files, f"{FROZEN}/{self.log}/{group}/{name}")

    def folders(self, group: str) -> list[str]:
        """Return the existing folders that `folder` returned in any run of this log.

        Folders of version 0.1.0, whose names had no log, are among them.
        """
        parents = (f"{FROZEN}/{self.log}/{group}", f"{FROZEN}/{group}")
        return [f"{parent}/{name}" for parent in parents for name in self.files.folders(parent)]


@dataclass(frozen=True, slots=True)
class FileFolder:
    """The folder for large results of one stage of an attempt. `folder` is relative to the place of the run's files."""

    files: FileStore
    folder: str

    def sync(self) -> None:
        """Make the folder's own name durable.

        The files in the folder and their names are durable already: `write_frozen` saw to that.
        """
        self.files.sync(self.folder)


def write_frozen(
    batches: Iterator[pa.RecordBatch], files: FileStore, folder: str, part: str, schema: pa.Schema
) -> FrozenFile | None:
    """Write batches to one new file in `folder`. The file and its name are durable.

    Returns None, and writes nothing, where there are no rows.
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return None
    name = f"{part}-{secrets.token_hex(8)}.arrow"
    rows = 0
    with files.writer(f"{folder}/{name}") as file:
        summed = Summed(file)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(pa.PythonFile(summed, mode="w"), schema, options=options) as writer:
            for batch in chain([first], batches):
                writer.write_table(conform(pa.Table.from_batches([batch]), schema))
                rows += batch.num_rows
    return FrozenFile(name, summed.bytes, rows, summed.checksum)


@dataclass(frozen=True, slots=True)
class FreezeWriter(OnWorker):
    """A function that writes a partition's batches to a file, and yields a manifest row if there are rows."""

    folder: FileFolder
    part: str
    schema: pa.Schema

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        file = write_frozen(batches, self.folder.files, self.folder.folder, self.part, self.schema)
        if file is not None:
            yield pa.RecordBatch.from_pydict(
                {"name": [file.name], "bytes": [file.bytes], "rows": [file.rows], "checksum": [file.checksum]}
            )


def manifest_of(table: pa.Table, folder: str, schema: pa.Schema) -> FrozenFiles:
    """Return a large result by reference. `table` holds the manifest rows that the tasks returned."""
    rows = sorted(table.to_pylist(), key=lambda row: str(row["name"]))
    return FrozenFiles(folder, tuple(FrozenFile(**row) for row in rows), schema)


def read_frozen(files: FileStore, frozen: FrozenFiles) -> Iterator[pa.Table]:
    """Yield the tables of a large result, file by file.

    `files` is the place that `frozen.folder` is relative to. Raises LogCorruptError if a file is missing, or has
    another size or checksum than was frozen.
    """
    for file in frozen.files:
        name = f"{frozen.folder}/{file.name}"
        try:
            content = files.read(name)
        except FileNotFoundError:
            raise LogCorruptError(
                f"the frozen file {files.path(name)} is missing; a batch cannot be applied without it. If it lies "
                f"elsewhere, start with the filesLocation (or without one) under which the batch was frozen"
            ) from None
        size, checksum = memoryview(content).nbytes, zlib.crc32(content)
        if size != file.bytes or checksum != file.checksum:
            raise LogCorruptError(
                f"the frozen file {files.path(name)} is damaged: it has {size} bytes and CRC32 {checksum}, "
                f"frozen were {file.bytes} and {file.checksum}"
            )
        with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
            yield reader.read_all()


def read_whole(files: FileStore, result: Result) -> pa.Table:
    """Return all rows of a result; they are read from its files if it has files."""
    if isinstance(result, pa.Table):
        return result
    return pa.concat_tables([result.schema.empty_table(), *read_frozen(files, result)])


# --- who reaches the files ----------------------------------------------------------------------------------------


def reachable(spark: SparkSession, files: FileStore, tasks: int = 4) -> bool:
    """Return whether the executors reach the same place of files as the driver.

    The executors are asked to read a probe file, and to answer with a file of their own there. Where one of them says
    why it cannot, that is logged.
    """
    token = secrets.token_hex(8)
    probe = f"{PROBE}{token}"
    answers: list[str] = []
    files.create(probe, token.encode())
    try:
        asked: DataFrame = (
            spark.range(tasks).repartition(tasks).mapInArrow(Probe(files, token), "name string, why string")
        )
        said = asked.toArrow().to_pylist()
        answers = [row["name"] for row in said if row["name"]]
        reasons = {row["why"]: None for row in said if row["why"]}
        for why in reasons:
            logger.warning("an executor does not reach %s: %s; large results come to the driver", files.address, why)
        return len(said) > 0 and not reasons and all(_holds(files, name, token) for name in answers)
    finally:
        files.delete([probe, *answers])


def _holds(files: FileStore, name: str, token: str) -> bool:
    try:
        return bytes(files.read(name)) == token.encode()
    except FileNotFoundError:
        return False


@dataclass(frozen=True, slots=True)
class Probe:
    """A function that reads the probe file and writes an answer file. It yields that file's name, or why it failed."""

    files: FileStore
    token: str

    def __call__(self, batches: Batches) -> Batches:
        for _ in batches:
            pass
        name, why = f"{ANSWER}{secrets.token_hex(8)}", None
        try:
            self.files.create(name, bytes(self.files.read(f"{PROBE}{self.token}")))
        except (OSError, TridentError) as error:
            why = str(error)
        yield pa.RecordBatch.from_pydict(
            {"name": pa.array([None if why else name], pa.string()), "why": pa.array([why], pa.string())}
        )
