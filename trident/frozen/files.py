"""Large results by reference: the workers that compute them write files. Each file is durable before a result names it.

A file is an Arrow stream of record batches with LZ4. Its name holds a random part, so that no result names the file of
a retried or cancelled task, and the machine that wrote it; a result is exactly the files that its manifest lists, and
no folder is ever listed to find more.
"""

import re
import secrets
import socket
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from trident.base.attempt import TransactionAttempt
from trident.base.durable_files import Summed
from trident.base.errors import LogCorruptError
from trident.base.value_conversion import conform
from trident.files.executor_files import check_found
from trident.files.store import FileStore
from trident.frozen.results import FrozenFile, FrozenFiles, Result

FROZEN = "frozen"
"""The folder of all frozen files, relative to the root of the run's files."""

PROBE, ANSWER = ".probe-", ".answer-"
"""The name prefixes of files by which executors show that they reach the file store."""

_ENDING = ".arrow"
_LONGEST_HOST = 64


@dataclass(frozen=True, slots=True)
class FrozenFolders:
    """The folders for a run's large results, in the store of its files.

    Each log has separate folders: the folders are named by epochs and txids, which cannot be compared between logs.
    """

    files: FileStore
    log: str

    def folder(self, group: str, attempt: TransactionAttempt, stage: int) -> "FileFolder":
        """Return the folder for a stage of an attempt.

        The folder's name begins with the epoch, by which a later start knows which folders to delete.
        """
        name = f"{attempt.epoch}-{attempt.txid}-{attempt.attempt}-{stage}"
        return FileFolder(self.files, f"{FROZEN}/{self.log}/{group}/{name}")

    def folders(self, group: str) -> list[str]:
        """Return the existing folders that `folder` returned in any run of this log."""
        parent = f"{FROZEN}/{self.log}/{group}"
        return [f"{parent}/{name}" for name in self.files.folders(parent)]


@dataclass(frozen=True, slots=True)
class FileFolder:
    """The folder for large results of one stage of an attempt. `folder` is relative to the root of the run's files."""

    files: FileStore
    folder: str

    def sync(self) -> None:
        """Make the folder's name durable.

        The files in the folder and their names are durable already: `write_frozen` has made them so.
        """
        self.files.sync(self.folder)


def write_frozen(
    batches: Iterator[pa.RecordBatch], files: FileStore, folder: str, part: str, schema: pa.Schema
) -> FrozenFile | None:
    """Write batches to one new file in `folder`. The file and its name are durable.

    Returns None, and writes nothing, if there are no rows.
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return None
    name = f"{part}-{secrets.token_hex(8)}_{_machine()}{_ENDING}"
    rows = 0
    with files.writer(f"{folder}/{name}") as file:
        summed = Summed(file)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(pa.PythonFile(summed, mode="w"), schema, options=options) as writer:
            for batch in chain([first], batches):
                writer.write_table(conform(pa.Table.from_batches([batch]), schema))
                rows += batch.num_rows
    return FrozenFile(name, summed.bytes, rows, summed.checksum)


def _machine() -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:_LONGEST_HOST]


def secure(files: FileStore, results: Iterable[FrozenFiles]) -> None:
    """Check that the driver finds the files of new results, and make the names of their folders durable.

    Executors have written the files. Raises SparkFailedError if the driver does not find one of them.
    """
    written: dict[str, dict[str, int]] = {}
    for frozen in results:
        for file in frozen.files:
            written.setdefault(frozen.folder, {})[file.name] = file.bytes
    for folder, sizes in written.items():
        check_found(files.below(folder), sizes, _writer)
        files.sync(folder)


def _writer(name: str) -> str:
    return f"an executor on {name.rpartition('_')[2].removesuffix(_ENDING)}"


def read_frozen(files: FileStore, frozen: FrozenFiles) -> Iterator[pa.Table]:
    """Yield the tables of a large result, file by file.

    `files` is the store that contains `frozen.folder`. Raises LogCorruptError if a file is missing, or has another size
    or checksum than was frozen.
    """
    for file in frozen.files:
        name = f"{frozen.folder}/{file.name}"
        try:
            content = files.read(name)
        except FileNotFoundError:
            raise LogCorruptError(
                f"the frozen file {files.path(name)} is missing on the machine {_machine()}; a batch cannot be applied "
                f"without it. If other machines have the file, mount the same folder there; if it is in another place, "
                f"start with the filesLocation of the run that wrote it (or without filesLocation)"
            ) from None
        size, checksum = memoryview(content).nbytes, zlib.crc32(content)
        if size != file.bytes or checksum != file.checksum:
            raise LogCorruptError(
                f"the frozen file {files.path(name)} is damaged: it has {size} bytes and CRC32 {checksum}, expected "
                f"{file.bytes} and {file.checksum}"
            )
        with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
            yield reader.read_all()


def read_whole(files: FileStore, result: Result) -> pa.Table:
    """Return all rows of a result; they are read from its files if it has files."""
    if isinstance(result, pa.Table):
        return result
    return pa.concat_tables([result.schema.empty_table(), *read_frozen(files, result)])
