"""Aggregates as DataFrames: Catalyst's own where it knows them, else partial folds that meet by key."""

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from trident.base.types import arrow_schema, select, spark_schema, type_ddl
from trident.compiler.folds import FoldSpec
from trident.compiler.names import all_quoted, quoted
from trident.compiler.sessions import Profile
from trident.compiler.worker import Chain, Merge, Partial
from trident.plan.nodes import Aggregate, PersistentAggregate

_FLAG = "__trident_some"


def partials_of_chain(chain: Chain, frame: DataFrame, spec: FoldSpec) -> DataFrame:
    """One accumulator a key and partition, folded where the Python operations before it ran."""
    return frame.mapInArrow(Partial(chain, spec), spark_schema(spec.schema))


def partials(frame: DataFrame, spec: FoldSpec, node: Aggregate | PersistentAggregate) -> DataFrame:
    """One accumulator a key and partition."""
    wanted = {*node.group, *node.inputs}
    names = [name for name in node.source.schema.names if name in wanted] or node.source.schema.names[:1]
    schema = arrow_schema(select(node.source.schema, names))
    return partials_of_chain(Chain((), schema, schema), frame.select(*all_quoted(names)), spec)


def aggregated(
    frame: DataFrame, spec: FoldSpec, node: Aggregate | PersistentAggregate, profile: Profile, merge: bool
) -> DataFrame:
    """One row a group. `frame` holds tuples, or partial accumulators where `merge` says so."""
    if node.aggregation.native is not None:
        what = _catalyst(spec, partial=merge)
        keys = all_quoted(spec.keys.names)
        return (frame.groupBy(*keys) if keys else frame).agg(F.expr(what).alias(spec.aggregation.output))
    if node.group:
        keyed = frame.repartition(profile.partitions, *[F.col(name) for name in all_quoted(spec.keys.names)])
        return keyed.mapInArrow(Merge(spec), spark_schema(spec.schema))
    return _global(frame, spec, profile)


def _catalyst(spec: FoldSpec, partial: bool) -> str:
    """A built-in aggregate in SQL, over tuples or over partial accumulators."""
    native, kind = spec.aggregation.native, type_ddl(spec.aggregation.type)
    if native == "count" and not partial:
        return f"CAST(count(1) AS {kind})"
    field = quoted(spec.aggregation.output if partial else spec.where.inputs[0])
    if native in ("count", "sum"):
        return f"coalesce(CAST(sum({field}) AS {kind}), CAST(0 AS {kind}))"
    return f"CAST({native}({field}) AS {kind})"


def _global(frame: DataFrame, spec: FoldSpec, profile: Profile) -> DataFrame:
    """One row in all, also of nothing: a row without an accumulator keeps Spark from cutting the plan of an empty
    relation down to nothing."""
    output = quoted(spec.aggregation.output)
    kind = type_ddl(spec.aggregation.type)
    some = frame.selectExpr(output, f"true AS {_FLAG}")
    none = frame.sparkSession.range(1).selectExpr(
        f"CAST(NULL AS {kind}) AS {output}", f"CAST(NULL AS BOOLEAN) AS {_FLAG}"
    )
    both = reduce(lambda left, right: left.unionAll(right), [some, none])
    one = both.coalesce(1) if profile.small else both.repartition(1)
    return one.mapInArrow(Merge(spec, or_zero=True), spark_schema(spec.schema))
