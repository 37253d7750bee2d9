"""Functions that read `writeParquet` outputs: whole batches, and only published ones."""

from pathlib import Path
from typing import TYPE_CHECKING

from trident.base.paths import local_path
from trident.base.types import parse_schema
from trident.outputs import parquet_folder
from trident_spouts.emission import spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def publishedFiles(path: str | Path, *, afterTxid: int = 0) -> list[str]:
    """Return the files of the batches that a `writeParquet` output has published, in txid order.

    While a topology writes, this returns whole batches, and all batches up to the last of them. It is for readers such
    as DuckDB or pandas; `readParquet` is for Spark.

    Parameters
    ----------
    path : path
        The path that was given to `writeParquet`.
    afterTxid : int
        Leave out the batches up to this one. The last path of an earlier answer names the last batch (``txid=7``).

    Raises
    ------
    OutputError
        There is no output at this path. Its subclass OutputConflictError: a published file is gone or was changed.

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
    root = local_path("path", path)
    parquet_folder.check_output(root)
    return _files(root, afterTxid)


def readParquet(spark: "SparkSession", path: str | Path, *, afterTxid: int = 0) -> "DataFrame":
    """Return a DataFrame of the batches that a `writeParquet` output has published.

    The DataFrame has the fields of the stream. It holds the batches that are published when this is called, and no
    later ones. Parameters and errors are those of `publishedFiles`.
    """
    root = local_path("path", path)
    owner = parquet_folder.check_output(root)
    schema = parse_schema(owner.schema)
    files = _files(root, afterTxid)
    if not files:
        return spark.createDataFrame([], schema)
    paths = [spark_path(file) for file in files]
    return spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*paths)


def _files(root: Path, after: int) -> list[str]:
    files: list[str] = []
    for txid in parquet_folder.txids(root):
        batch = parquet_folder.batch_of(root, txid) if txid > after else None
        if batch is not None:
            parquet_folder.check_files(batch)
            files += [str(batch.folder / part.name) for part in batch.parts]
    return files
