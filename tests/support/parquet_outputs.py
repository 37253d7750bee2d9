"""A Parquet output of one field, ``word string``, without a run."""

from pathlib import Path

from tests.support.topologies import DeclaredSpout
from trident.base.callsite import CallSite
from trident.base.spark_types import parse_schema
from trident.files.disk import DiskFiles
from trident.files.object_options import Storage
from trident.outputs.parquet_outlet import ParquetOutlet
from trident.outputs.run_identity import RunIdentity
from trident.plan.nodes import SpoutSource, WriteParquet
from trident.testing.contracts.outputs import OUTPUT, Take
from trident_spouts.executor import SpoutKind


def parquet_output(path: str, run: RunIdentity, storage: Storage | None = None) -> Take:
    """Open the output for a driver, and return the function that hands batches over."""
    site, schema = CallSite("x"), parse_schema("word string")
    source = SpoutSource("s", DeclaredSpout(SpoutKind.TRANSACTIONAL), step="s/0", site=site, schema=schema)
    given = Storage() if storage is None else storage
    sink = WriteParquet(source, OUTPUT, path, (), given, step="s/1:writeParquet", site=site, schema=schema)
    return ParquetOutlet(sink, run, DiskFiles(Path("/nowhere")), None).take
