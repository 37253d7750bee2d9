"""Functions that read `writeParquet` outputs: whole batches, and only published ones."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from trident.base.spark_types import arrow_schema, parse_schema
from trident.base.value_conversion import conform
from trident.compiler.partition_functions import BATCH_ROWS, Batches, OnWorker
from trident.files.object_options import Storage
from trident.files.store import FileStore
from trident.outputs.parquet_manifests import ManifestBatches
from trident.outputs.parquet_storage import ParquetStorage, check_output, parquet_place
from trident_spouts.emission import spark_path
from trident_spouts.spark_workers import numbers_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def publishedFiles(path: str | Path, *, afterTxid: int = 0, storage: Mapping[str, str] | None = None) -> list[str]:
    """Return the files of the batches that a `writeParquet` output has published, in txid order, as paths or URLs.

    While a topology writes, this returns only complete batches, and every batch up to the last of them. It is for
    readers such as DuckDB or pandas; `readParquet` is for Spark. The files also contain the fields of ``partitionBy``,
    so pandas must not read these fields from the folders' names: ``pandas.read_parquet(files, partitioning=None)``.

    Parameters
    ----------
    path : path
        The path that was given to `writeParquet`.
    afterTxid : int
        Leave out the batches up to this txid. The last path of an earlier result contains the last batch (``txid=7``).
        It is an error if the batch right after it is missing.
    storage : dict of str, optional
        The options of the object store, if `path` is a URL, as they were given to `writeParquet`.

    Raises
    ------
    OutputError
        There is no output at this path. Its subclass OutputConflictError: a published file is gone or has
        another size. `RecordedSpout` compares the content, too.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow.dataset
    >>> from trident import TridentTopology, publishedFiles
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.testing.local import start_local
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"], ["cow"]]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = words.writeParquet(f"{folder}/words")
    ...     with start_local(topology, checkpointLocation=f"{folder}/checkpoint") as running:
    ...         running.processAllAvailable()
    ...     files = publishedFiles(f"{folder}/words")
    ...     pyarrow.dataset.dataset(files).to_table()["word"].to_pylist()
    ['dog', 'cat', 'cow']
    """
    place = parquet_place(path, Storage.of(storage))
    check_output(place)
    return place.files(_after(place, afterTxid), afterTxid)


def readParquet(
    spark: "SparkSession", path: str | Path, *, afterTxid: int = 0, storage: Mapping[str, str] | None = None
) -> "DataFrame":
    """Return a DataFrame of the batches that a `writeParquet` output has published.

    The DataFrame has the fields of the stream. It holds the batches that are published when this is called, and no
    later batches. Objects are read by Spark's workers through this library, so Spark needs no file system for them.
    Parameters and errors are those of `publishedFiles`.
    """
    place = parquet_place(path, Storage.of(storage))
    schema = parse_schema(check_output(place).schema)
    txids = _after(place, afterTxid)
    if isinstance(place, ManifestBatches):
        names = tuple(name for name, _ in place.named(txids, afterTxid))
        if not names:
            return spark.createDataFrame([], schema)
        numbers = spark.range(0, len(names), 1, len(names))
        return numbers.mapInArrow(_ReadManifested(place.place, names, arrow_schema(schema)), schema)
    files = place.files(txids, afterTxid)
    if not files:
        return spark.createDataFrame([], schema)
    paths = [spark_path(file) for file in files]
    return spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*paths)


def _after(place: ParquetStorage, after: int) -> list[int]:
    return [txid for txid in place.txids() if txid > after]


@dataclass(frozen=True, slots=True)
class _ReadManifested(OnWorker):
    """A function that takes the numbers of files and returns their rows."""

    files: FileStore
    names: tuple[str, ...]
    schema: pa.Schema

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for number in numbers_of(batches):
            content = pa.py_buffer(self.files.read(self.names[number]))
            table = pq.ParquetFile(pa.BufferReader(content)).read()
            yield from conform(table, self.schema).to_batches(max_chunksize=BATCH_ROWS)
