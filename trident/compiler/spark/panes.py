"""Tuples combined by Catalyst by pane and group, if Catalyst has the window's combiner."""

import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from trident.base.years import FIRST, LAST
from trident.compiler.spark.aggregates import catalyst
from trident.compiler.spark.sql_names import all_quoted, quoted
from trident.compiler.windows.panes import PANE, pane_spec
from trident.plan.nodes import WindowPanes

_COUNT = "__trident_count"


def _literal(micros: int, node: WindowPanes) -> str:
    """Return a time as an SQL literal of the type of the window's times.

    `micros` are microseconds since 1970; a zoned time is in UTC.
    """
    zoned = isinstance(node.schema.fields[0].dataType, TimestampType)
    shown = (datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)).isoformat(" ")
    return f"timestamp_ltz'{shown}Z'" if zoned else f"timestamp_ntz'{shown}'"


def panes_frame(node: WindowPanes, frame: DataFrame) -> DataFrame:
    """Return the panes that the tuples of a frame form."""
    spec = pane_spec(node)
    keys: list[Any] = list(all_quoted(node.group))
    (member,) = spec.fold.members
    value = F.expr(catalyst(member, False)).alias(member.output)
    if spec.time is None:
        panes = frame.groupBy(*keys).agg(value, F.expr("count(1)").alias(_COUNT)).filter(f"{_COUNT} > 0")
        return panes.select(*all_quoted(spec.schema.names))
    time = F.col(quoted(spec.time))
    pane = F.window(time, f"{spec.lattice.pane} microseconds").alias(PANE)
    panes = frame.groupBy(pane, *keys).agg(value, F.max(time).alias(spec.schema.names[-1]))
    panes = panes.filter(f"{PANE}.start BETWEEN {_literal(FIRST, node)} AND {_literal(LAST, node)}")
    start = F.col(f"{PANE}.start").alias(spec.schema.names[0])
    return panes.select(start, *all_quoted(spec.schema.names[1:]))
