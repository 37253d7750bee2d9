"""Aggregates as DataFrames: by Catalyst if it has the aggregate, otherwise by Python functions.

Python folds tuples in each partition and merges the accumulators by key; or, if an aggregator must see every tuple, it
gets all tuples of a group in one partition.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from trident.base.spark_types import spark_schema, type_ddl
from trident.compiler.aggregates.folds import FoldMember, FoldSpec
from trident.compiler.aggregates.gathers import GatherSpec
from trident.compiler.spark.pending_function import PendingFunction
from trident.compiler.spark.plan_calls import aggregated_by, selected
from trident.compiler.spark.sessions import Profile
from trident.compiler.spark.sql_names import all_quoted, quoted
from trident.compiler.spark.worker_aggregates import MARK, GatherGroups, MergePartials
from trident.operations.sum_overflow import BEYOND


def aggregated(frame: DataFrame, spec: FoldSpec, partial: bool) -> DataFrame:
    """Return one row for each group, aggregated by Catalyst.

    `frame` holds tuples, or accumulators if `partial` is true.
    """
    keys = spec.keys.names
    frame = aggregated_by(frame, keys, [(catalyst(member, partial), member.output) for member in spec.members])
    if spec.bundle is None:
        return frame
    accumulators = ", ".join(all_quoted([member.output for member in spec.members]))
    return selected(frame, [*all_quoted(keys), (f"struct({accumulators})", spec.bundle.name)])


def merged_by_key(frame: DataFrame, spec: FoldSpec, profile: Profile) -> PendingFunction:
    """Return one row for each group: Python merges the partial accumulators in `frame`.

    Without key fields there is one row, even without a tuple.
    """
    return PendingFunction(collocated(frame, spec.keys.names, profile), MergePartials(spec), spec.leaving)


def gathered_by_key(frame: DataFrame, spec: GatherSpec, entering: pa.Schema, profile: Profile) -> PendingFunction:
    """Return the results of aggregators that see every tuple of a group. `entering` are the fields of `frame`.

    Every group is whole in one partition.
    """
    if spec.keys.names:
        return PendingFunction(collocated(frame, spec.keys.names, profile), GatherGroups(spec, entering), spec.leaving)
    marked = collocated(_with_marked_row(frame, entering), (), profile)
    return PendingFunction(marked, GatherGroups(spec, entering.append(pa.field(MARK, pa.bool_()))), spec.leaving)


def _with_marked_row(frame: DataFrame, fields: pa.Schema) -> DataFrame:
    """Return the tuples and one marked row, so that there is a row even without a tuple.

    Spark does not call a function if there are no rows, but an aggregate of no tuples has a result.
    """
    kinds = [(quoted(field.name), type_ddl(field.dataType)) for field in spark_schema(fields).fields]
    tuples = selected(frame, [*(name for name, _ in kinds), f"false AS {MARK}"])
    nulls = [f"CAST(NULL AS {kind}) AS {name}" for name, kind in kinds]
    return tuples.unionAll(frame.sparkSession.range(0, 1, 1, 1).selectExpr(*nulls, f"true AS {MARK}"))


def merged_in_partitions(partials: PendingFunction, spec: FoldSpec) -> PendingFunction:
    """Return one row for each group of each partition.

    Without key fields there is one row for each partition, even for an empty one.
    """
    return partials.then(MergePartials(spec), spec.leaving)


def gathered_in_partitions(tuples: PendingFunction, spec: GatherSpec) -> PendingFunction:
    """Return the results of aggregators over the groups of each partition."""
    return tuples.then(GatherGroups(spec, tuples.leaving), spec.leaving)


def collocated(frame: DataFrame, keys: Sequence[str], profile: Profile) -> DataFrame:
    """Return the rows, repartitioned so that rows with equal keys share a partition.

    Without keys all rows are in one partition, which exists even if `frame` has no partition.
    """
    if keys and not profile.tiny:
        return frame.repartition(profile.partitions, *[F.col(name) for name in all_quoted(keys)])
    return frame.coalesce(1) if profile.small else frame.repartition(1)


def catalyst(member: FoldMember, partial: bool) -> str:
    """Return a built-in aggregate in SQL: over tuples, or over partial accumulators if `partial` is true."""
    native, kind = member.aggregation.native, type_ddl(member.aggregation.type)
    if native == "count" and not partial:
        return f"CAST(count(1) AS {kind})"
    field = quoted(member.output if partial else member.where.inputs[0])
    if native == "count":
        return f"coalesce(sum({field}), 0L)"
    if native == "sum":
        return _total(field, kind)
    if native == "average":
        return _average(member, field, partial)
    return f"CAST({native}({field}) AS {kind})"


def _total(field: str, kind: str) -> str:
    """Return a sum in SQL, which is 0 for no tuples.

    A sum beyond its type is an error; a Spark without ANSI mode would give null or another number.
    """
    if kind == "bigint":
        return _long_total(field)
    total = f"CAST(sum({field}) AS {kind})"
    if not kind.startswith("decimal"):
        return f"coalesce({total}, CAST(0 AS {kind}))"
    return f"if(count({field}) = 0, CAST(0 AS {kind}), coalesce({total}, {_beyond(kind)}))"


def _long_total(field: str) -> str:
    """Return the sum of longs in SQL, which only its final value can bring beyond its type.

    Spark's own sum fails in some orders of the same tuples: for the largest long, 1 and -1. The halves of the longs are
    summed separately. Neither sum leaves its type for less than 2**31 tuples.
    """
    low = f"sum({field} & 4294967295L)"
    high = f"(sum(shiftright(CAST({field} AS bigint), 32)) + shiftright({low}, 32))"
    total = f"shiftleft({high}, 32) | ({low} & 4294967295L)"
    # Spark plans BETWEEN by an expression that no kept plan may have (see `repeatable_plans`).
    beyond = f"{high} < -2147483648L OR {high} > 2147483647L"
    return f"coalesce(if({beyond}, {_beyond('bigint')}, {total}), 0L)"


def _beyond(kind: str) -> str:
    return f"raise_error('{BEYOND} {kind}')"


def _average(member: FoldMember, field: str, partial: bool) -> str:
    """Return an average in SQL: the accumulator (sum and count), or its quotient, which is null for no tuples."""
    total_kind, _ = (type_ddl(field.dataType) for field in member.aggregation.type.fields)  # type: ignore[attr-defined]
    total = _total(f"{field}.total" if partial else field, total_kind)
    count = f"coalesce(sum({field}.count), 0L)" if partial else f"count({field})"
    if member.presented_type is None:
        return f"named_struct('total', {total}, 'count', {count})"
    return f"CAST({total} AS double) / nullif({count}, 0L)"
