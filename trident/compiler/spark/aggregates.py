"""Aggregates as DataFrames: Catalyst's own where it knows them, else partial folds that meet by key, or whole groups
brought together."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from trident.base.types import spark_schema, type_ddl
from trident.compiler.aggregates.folds import FoldMember, FoldSpec
from trident.compiler.aggregates.gathers import GatherSpec
from trident.compiler.spark.pending_function import Tail
from trident.compiler.spark.sessions import Profile
from trident.compiler.spark.sql_names import all_quoted, quoted
from trident.compiler.spark.worker_aggregates import MARK, Gathering, Merge


def aggregated(frame: DataFrame, spec: FoldSpec, partial: bool) -> DataFrame:
    """One row a group, by Catalyst. `frame` holds tuples, or accumulators where `partial` says so."""
    keys = all_quoted(spec.keys.names)
    grouped = frame.groupBy(*keys) if keys else frame
    return grouped.agg(*[F.expr(catalyst(each, partial)).alias(each.output) for each in spec.members])


def meeting(frame: DataFrame, spec: FoldSpec, profile: Profile) -> Tail:
    """One row a group, where accumulators meet in Python; without key fields one row, also of nothing."""
    return Tail(together(frame, spec.keys.names, profile), Merge(spec), spec.leaving)


def gathering(frame: DataFrame, spec: GatherSpec, entering: pa.Schema, profile: Profile) -> Tail:
    """What aggregators make of whole groups, where every tuple counts. `frame` has the fields `entering`."""
    if spec.keys.names:
        return Tail(together(frame, spec.keys.names, profile), Gathering(spec, entering), spec.leaving)
    one = together(_with_mark(frame, entering), (), profile)
    return Tail(one, Gathering(spec, entering.append(pa.field(MARK, pa.bool_()))), spec.leaving)


def _with_mark(frame: DataFrame, fields: pa.Schema) -> DataFrame:
    """The tuples, and one row more that is marked: Spark leaves out what reads nothing, and here nothing counts too."""
    kinds = [(quoted(field.name), type_ddl(field.dataType)) for field in spark_schema(fields).fields]
    tuples = frame.selectExpr(*[name for name, _ in kinds], f"false AS {MARK}")
    nulls = [f"CAST(NULL AS {kind}) AS {name}" for name, kind in kinds]
    return tuples.unionAll(frame.sparkSession.range(0, 1, 1, 1).selectExpr(*nulls, f"true AS {MARK}"))


def met_in_place(partials: Tail, spec: FoldSpec) -> Tail:
    """One row a group of each partition; without key fields one row a partition, also of nothing."""
    return partials.then(Merge(spec), spec.leaving)


def gathered_in_place(tuples: Tail, spec: GatherSpec) -> Tail:
    """What aggregators make of the groups of each partition."""
    return tuples.then(Gathering(spec, tuples.leaving), spec.leaving)


def together(frame: DataFrame, keys: Sequence[str], profile: Profile) -> DataFrame:
    """Rows of equal keys in one partition; without keys all of them, in one partition also where there was none."""
    if keys:
        return frame.repartition(profile.partitions, *[F.col(name) for name in all_quoted(keys)])
    return frame.coalesce(1) if profile.small else frame.repartition(1)


def catalyst(member: FoldMember, partial: bool) -> str:
    """A built-in aggregate in SQL, over tuples or over partial accumulators."""
    native, kind = member.aggregation.native, type_ddl(member.aggregation.type)
    if native == "count" and not partial:
        return f"CAST(count(1) AS {kind})"
    field = quoted(member.output if partial else member.where.inputs[0])
    if native in ("count", "sum"):
        return _total(field, kind)
    if native == "average":
        return _average(member, field, partial)
    return f"CAST({native}({field}) AS {kind})"


def _total(field: str, kind: str) -> str:
    """A sum, and 0 of nothing. A decimal sum beyond its type, for which a lenient Spark gives null, is an error."""
    total = f"CAST(sum({field}) AS {kind})"
    if not kind.startswith("decimal"):
        return f"coalesce({total}, CAST(0 AS {kind}))"
    overflow = f"raise_error('a sum is beyond {kind}')"
    return f"if(count({field}) = 0, CAST(0 AS {kind}), coalesce({total}, {overflow}))"


def _average(member: FoldMember, field: str, partial: bool) -> str:
    """Sum and count, or what they are presented as: their quotient, null of nothing."""
    total_kind, _ = (type_ddl(field.dataType) for field in member.aggregation.type.fields)  # type: ignore[attr-defined]
    total = _total(f"{field}.total" if partial else field, total_kind)
    count = f"coalesce(sum({field}.count), 0L)" if partial else f"count({field})"
    if member.presented_type is None:
        return f"named_struct('total', {total}, 'count', {count})"
    return f"CAST({total} AS double) / nullif({count}, 0L)"
