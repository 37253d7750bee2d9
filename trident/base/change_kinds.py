"""The kinds of change that tuples of a stream of changes carry.

The names are those of Delta's change data feed and of Spark's change data capture. An update is two tuples: the row
before it, then the row after it.
"""

from typing import Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StringType, StructField, StructType

CHANGE = "_change_type"
"""The field of a stream of changes that holds the kind of each tuple."""

KIND = StructType([StructField(CHANGE, StringType())])
"""The field with the kind of each tuple, with its type, as a schema of one field."""

ChangeKind = Literal["insert", "update_preimage", "update_postimage", "delete"]
"""The kinds: a new row; the row before an update; the row after it; a row that was deleted."""

KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)

ADDS = frozenset({"insert", "update_postimage"})
"""The kinds that add a row to a table. The other two take one away."""


def adding(kinds: pa.Array) -> pa.Array:
    """Return for each kind whether its tuple adds a row.

    >>> adding(pa.array(["update_postimage", "delete"])).to_pylist()
    [True, False]
    """
    return pc.is_in(kinds, pa.array(sorted(ADDS)))
