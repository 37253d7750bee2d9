"""Large results that workers write into files: each task describes its file in a row."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from trident.compiler.partition_functions import Batches, OnWorker
from trident.frozen.files import FileFolder, write_frozen
from trident.frozen.results import FrozenFile, FrozenFiles

MANIFEST = pa.schema([("name", pa.string()), ("bytes", pa.int64()), ("rows", pa.int64()), ("checksum", pa.int64())])
"""The row in which a task describes the file that it wrote."""


@dataclass(frozen=True, slots=True)
class FreezeWriter(OnWorker):
    """A function that writes a partition's batches to a file, and yields a manifest row if there are rows."""

    folder: FileFolder
    part: str
    schema: pa.Schema

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        number = 0 if task is None else task.partitionId()
        part = f"{self.part}-{number:08}"  # files are read in the order of their names, which is that of the tuples
        file = write_frozen(batches, self.folder.files, self.folder.folder, part, self.schema)
        if file is not None:
            yield pa.RecordBatch.from_pydict(
                {"name": [file.name], "bytes": [file.bytes], "rows": [file.rows], "checksum": [file.checksum]}
            )


def manifest_of(table: pa.Table, folder: str, schema: pa.Schema) -> FrozenFiles:
    """Return a large result by reference. `table` holds the manifest rows that the tasks returned."""
    rows = sorted(table.to_pylist(), key=lambda row: str(row["name"]))
    return FrozenFiles(folder, tuple(FrozenFile(**row) for row in rows), schema)
