"""The comparison of a published batch with the frozen result: by the list of frozen files, or row by row."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow as pa

from trident.compiler.parquet_files import encoded, split
from trident.frozen.results import FrozenFiles, Result


def digest_of(result: Result) -> str:
    """Return a digest of the files of a large result; "" for a table, whose rows are compared instead."""
    if not isinstance(result, FrozenFiles):
        return ""
    files = sorted((file.name, file.bytes, file.rows, file.checksum) for file in result.files)
    return hashlib.sha256(repr((result.folder, files)).encode()).hexdigest()


def same_rows(
    published: Iterable[pa.Table], frozen: Iterable[pa.Table], schema: pa.Schema, partitions: Sequence[str]
) -> bool:
    """Return whether the files of a batch hold exactly the frozen rows. One file at a time is in memory."""
    given: Counter[bytes] = Counter()
    for table in frozen:
        given.update(_digest(rows, schema) for _, rows in split(table, partitions))
    try:
        return Counter(_digest(table, schema) for table in published) == given
    except pa.ArrowInvalid:  # other types
        return False


def _digest(rows: pa.Table, schema: pa.Schema) -> bytes:
    return hashlib.sha256(encoded(rows.cast(schema))).digest()
