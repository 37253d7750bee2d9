"""Aggregates as DataFrames: Catalyst's own where it knows them, else partial folds that meet by key."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from trident.base.types import type_ddl
from trident.compiler.folds import FoldSpec
from trident.compiler.names import all_quoted, quoted
from trident.compiler.sessions import Profile
from trident.compiler.tails import Tail
from trident.compiler.worker import Merge


def aggregated(frame: DataFrame, spec: FoldSpec, partial: bool) -> DataFrame:
    """One row a group, by Catalyst. `frame` holds tuples, or accumulators where `partial` says so."""
    keys = all_quoted(spec.keys.names)
    grouped = frame.groupBy(*keys) if keys else frame
    return grouped.agg(F.expr(catalyst(spec, partial)).alias(spec.aggregation.output))


def meeting(frame: DataFrame, spec: FoldSpec, profile: Profile) -> Tail:
    """One row a group, where accumulators meet in Python; without key fields one row, also of nothing."""
    if not spec.keys.names:
        one = frame.coalesce(1) if profile.small else frame.repartition(1)  # one partition, also where there was none
        return Tail(one, Merge(spec), spec.schema)
    keyed = frame.repartition(profile.partitions, *[F.col(name) for name in all_quoted(spec.keys.names)])
    return Tail(keyed, Merge(spec), spec.schema)


def catalyst(spec: FoldSpec, partial: bool) -> str:
    """A built-in aggregate in SQL, over tuples or over partial accumulators."""
    native, kind = spec.aggregation.native, type_ddl(spec.aggregation.type)
    if native == "count" and not partial:
        return f"CAST(count(1) AS {kind})"
    field = quoted(spec.aggregation.output if partial else spec.where.inputs[0])
    if native in ("count", "sum"):
        return f"coalesce(CAST(sum({field}) AS {kind}), CAST(0 AS {kind}))"
    return f"CAST({native}({field}) AS {kind})"
