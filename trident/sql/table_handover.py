"""Tables as unnamed files, which another process maps into its memory."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa


@contextmanager
def written(table: pa.Table) -> Iterator[int]:
    """Write a table to an unnamed file and yield the file, which is deleted after the block.

    On Linux the file is in memory. So a table is copied once, and its pages are shared with the process that reads it.
    """
    file = os.memfd_create("table") if hasattr(os, "memfd_create") else _unnamed()
    try:
        with os.fdopen(os.dup(file), "wb") as target, pa.ipc.new_file(target, table.schema) as writer:
            writer.write_table(table)
        yield file
    finally:
        os.close(file)


def _unnamed() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
