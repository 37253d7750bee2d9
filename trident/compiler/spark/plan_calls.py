"""Verbs of DataFrames that send to the JVM only what is new in a batch.

PySpark sends each list of names and expressions element by element, and looks Spark's own classes up again in every
call: a projection of two fields takes a dozen calls, of some tenths of a millisecond each. The plan of a batch has the
names and expressions of the batch before. So the session of a run keeps them in the JVM, and a verb is one call. On
Connect a plan is a message, built without calls, and these are the plain verbs.
"""

import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from trident.base.spark_types import arrow_schema
from trident.compiler.spark.sessions import is_connect
from trident.compiler.spark.sql_names import all_quoted

_MOST_KEPT = 1_000
"""The most objects that a session keeps in the JVM. If there are more, the session begins anew."""

_kept: "weakref.WeakKeyDictionary[SparkSession, dict[Hashable, Any]]" = weakref.WeakKeyDictionary()
"""The objects of each session that its batches use again. A column has no state of a plan, so any plan may hold it."""

_names: "weakref.WeakKeyDictionary[DataFrame, list[str]]" = weakref.WeakKeyDictionary()
"""The names of the fields of frames, if they are known without a call."""

Item: TypeAlias = str | tuple[str, str]
"""A SELECT item: a SQL expression, or one with a name."""


def _keep(session: SparkSession, key: Hashable, make: Callable[[], Any]) -> Any:
    kept = _kept.setdefault(session, {})
    if key not in kept:
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        kept[key] = make()
    return kept[key]


def selected(frame: DataFrame, items: Sequence[Item]) -> DataFrame:
    """Return ``frame.select(*items)``, with SQL expressions as the items."""
    if is_connect(frame.sparkSession):
        return frame.select(*[_column(item) for item in items])
    return like(frame, frame._jdf.select(sent_columns(frame, items)))  # noqa: SLF001


def with_fields(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return the frame with exactly these fields, in this order: `frame` itself, if it is known to have them."""
    if _names.get(frame) == list(names):
        return frame
    return having(selected(frame, all_quoted(names)), names)


def having(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Record these names as the fields of `frame`, and return it."""
    _names[frame] = list(names)
    return frame


def names_of(frame: DataFrame) -> list[str]:
    """Return the names of the fields of `frame`."""
    if frame not in _names:
        _names[frame] = frame.columns
    return _names[frame]


def aggregated_by(frame: DataFrame, keys: Sequence[str], members: Sequence[tuple[str, str]]) -> DataFrame:
    """Return the groups of `frame` by the fields `keys`, with a field for each pair of an aggregate and a name."""
    quoted_keys = all_quoted(keys)
    if is_connect(frame.sparkSession):
        result = frame.groupBy(*quoted_keys).agg(*[_column(member) for member in members])
    else:
        groups = frame._jdf.groupBy(sent_columns(frame, quoted_keys))  # noqa: SLF001
        first = _keep(frame.sparkSession, ("one", members[0]), lambda: _column(members[0]))
        result = like(frame, groups.agg(first._jc, sent_columns(frame, members[1:])))  # noqa: SLF001
    return having(result, [*keys, *(name for _, name in members)])


def to_arrow(frame: DataFrame, schema: StructType) -> pa.Table:
    """Return ``frame.toArrow()``. `schema` is the frame's, for which PySpark would ask the JVM."""
    if is_connect(frame.sparkSession):
        return frame.toArrow()
    classic: Any = frame
    batches = classic._collect_as_arrow()  # noqa: SLF001
    return pa.Table.from_batches(batches) if batches else arrow_schema(schema).empty_table()


def sent_columns(frame: DataFrame, items: Sequence[Item]) -> Any:
    """Return the list of these columns in the JVM."""
    classic: Any = frame
    return _keep(frame.sparkSession, ("all", *items), lambda: classic._jcols(*map(_column, items)))  # noqa: SLF001


def _column(item: Item) -> Column:
    return F.expr(item) if isinstance(item, str) else F.expr(item[0]).alias(item[1])


def like(frame: DataFrame, jdf: Any) -> DataFrame:
    """Return the DataFrame of a Java object, in the session of `frame`."""
    return type(frame)(jdf, frame.sparkSession)
