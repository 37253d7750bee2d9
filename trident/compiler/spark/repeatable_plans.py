"""The proof that a plan of Spark gives the result of its leaf each time that it is executed.

Spark keeps results in a plan: those of a shuffle, a broadcast, a subquery, a cached table. It also replaces expressions
by values while it plans: the time, the user, a variable. A plan is repeatable only if it consists of classes that are
known to do neither. An unknown class makes the plan unrepeatable; which costs time, but is always correct.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame

from trident.compiler.columns.kernels import in_sql
from trident.compiler.stage_layout import StageLayout, is_filter_null
from trident.operations.functions import Call
from trident.plan.traits import operation_of

_SQL = "org.apache.spark.sql."

OPERATORS = frozenset(
    f"{_SQL}execution.{name}"
    for name in """
    CoalesceExec FilterExec GenerateExec InputAdapter ProjectExec RDDScanExec UnionExec WholeStageCodegenExec
    aggregate.HashAggregateExec aggregate.ObjectHashAggregateExec aggregate.SortAggregateExec SortExec
    """.split()
)
"""The physical operators that keep nothing between two executions."""

EXPRESSIONS = frozenset(
    f"{_SQL}catalyst.expressions.{name}"
    for name in """
    Alias AttributeReference Cast Literal SortOrder
    Add Subtract Multiply Divide IntegralDivide Remainder Pmod UnaryMinus UnaryPositive Abs Greatest Least
    BitwiseAnd BitwiseOr BitwiseXor BitwiseNot ShiftLeft ShiftRight
    Ceil Floor Round BRound Sqrt Cbrt Exp Log Log10 Log2 Pow Signum Sin Cos Tan
    And Or Not EqualTo EqualNullSafe GreaterThan GreaterThanOrEqual LessThan LessThanOrEqual In InSet
    IsNull IsNotNull IsNaN NaNvl Coalesce NullIf If CaseWhen RaiseError
    Concat ConcatWs Upper Lower Length OctetLength Substring StringTrim StringTrimLeft StringTrimRight StringReplace
    StringSplit StringInstr StringLPad StringRPad StringRepeat StringTranslate Reverse InitCap Ascii Chr
    Contains StartsWith EndsWith Like RLike RegExpReplace RegExpExtract RegExpExtractAll SubstringIndex
    Md5 Sha1 Sha2 Crc32 Murmur3Hash XxHash64 Hex Unhex Base64 UnBase64
    CreateArray CreateNamedStruct CreateMap GetStructField GetArrayItem GetMapValue GetArrayStructFields ElementAt
    Size ArrayContains ArrayDistinct ArrayMax ArrayMin ArrayPosition ArrayRemove ArrayJoin ArraysOverlap Slice Sequence
    SortArray Flatten MapKeys MapValues MapEntries Explode PosExplode Inline
    aggregate.AggregateExpression aggregate.Count aggregate.Sum aggregate.Min aggregate.Max aggregate.Average
    """.split()
)
"""The expressions whose value depends on their arguments and on settings of the session, and on nothing else."""

RELATIONS = frozenset(
    f"{_SQL}{name}"
    for name in """
    catalyst.plans.logical.Aggregate catalyst.plans.logical.Filter catalyst.plans.logical.Generate
    catalyst.plans.logical.Project catalyst.plans.logical.Repartition catalyst.plans.logical.Union execution.LogicalRDD
    """.split()
)
"""The logical operators of a repeatable plan."""

_TIME = re.compile("date|time", re.IGNORECASE)
"""Types for which Spark takes words such as "now" in literals and in casts of them, and plans with the time."""


def made_by_data(layout: StageLayout) -> bool:
    """Return whether a stage's plan depends only on its program, so that no code runs in the driver for each batch.

    A function that returns a Column, or gets a DataFrame, may make another plan each time.
    """
    nodes = [node for node in layout.nodes if not (id(node) in layout.inputs or is_filter_null(node) or in_sql(node))]
    operations = filter(None, map(operation_of, nodes))
    return all(operation.call in (Call.EXPRESSION, Call.COLUMN) for operation in operations)


def why_not_repeatable(frame: DataFrame, rdd: int) -> str | None:
    """Return the first reason why a frame's plan may not be executed again; None if it is proved that it may.

    `rdd` is the number of the RDD that every leaf must read.
    """
    classic: Any = frame
    query = classic._jdf.queryExecution()  # noqa: SLF001
    for part in _parts(query.analyzed()):
        if part["class"] not in EXPRESSIONS | RELATIONS:
            return f"{part['class']} may be replaced by a value in planning"
        if part["class"].endswith((".Literal", ".Cast")) and _TIME.search(json.dumps(part.get("dataType"))):
            return f"{part['class']} to a time may be replaced by a value in planning"
    plan = query.executedPlan()
    for part in _parts(plan):
        if part["class"] not in EXPRESSIONS | OPERATORS:
            return f"{part['class']} may keep a result"
    if any(leaf.rdd().id() != rdd for leaf in leaves_of(plan)):
        return "a leaf has rows of its own"
    return None


def leaves_of(plan: Any) -> list[Any]:
    """Return the leaves of a physical plan in the JVM."""
    leaves = plan.collectLeaves()
    return [leaves.apply(at) for at in range(leaves.size())]


def _parts(plan: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the operators of a plan, and all expressions within them. Each has its class as "class"."""
    waiting: list[Any] = [json.loads(plan.toJSON())]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "class" in part:
                yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
