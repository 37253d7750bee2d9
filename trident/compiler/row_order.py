"""The positions of rows in their batch, which files in `partitionBy` folders record in their footers for a replay."""

import base64
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_PLACES = b"trident.places"
"""The name of this record in the metadata of a table, and in a file's footer."""


def noted(rows: pa.Table, places: npt.NDArray[np.int64]) -> pa.Table:
    """Return rows with a record of their positions in the source table, which must ascend."""
    steps = np.diff(places, prepend=0).astype("<u4")
    return rows.replace_schema_metadata({_PLACES: base64.b64encode(zlib.compress(steps.tobytes()))})


def footer_note(rows: pa.Table, number: int) -> dict[bytes, bytes]:
    """Return the record for the footer of a file with rows of table `number` of a batch; empty without positions."""
    packed = (rows.schema.metadata or {}).get(_PLACES)
    return {} if packed is None else {_PLACES: b"%d %s" % (number, packed)}


def in_order(tables: Sequence[pa.Table], footers: Sequence[dict[bytes, bytes]]) -> pa.Table:
    """Return the rows of the files of a batch in the order that the batch had. `footers`: the metadata of each file.

    >>> first, second = (noted(pa.table({"n": rows}), np.array(rows)) for rows in ([1, 2], [0, 3]))
    >>> in_order([first, second], [footer_note(first, 0), footer_note(second, 0)])["n"].to_pylist()
    [0, 1, 2, 3]
    """
    notes = [footer[_PLACES].split(b" ") for footer in footers]
    places = [np.cumsum(np.frombuffer(zlib.decompress(base64.b64decode(packed)), "<u4")) for _, packed in notes]
    numbers = [np.full(len(own), int(number)) for (number, _), own in zip(notes, places, strict=True)]
    return pa.concat_tables(tables).take(np.lexsort((np.concatenate(places), np.concatenate(numbers))))
