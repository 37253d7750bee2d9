"""Expressions as texts of Spark SQL. Each conversion is written out, so that Spark adds none of its own."""

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from pyspark.sql.types import DataType

from trident.base.spark_types import type_ddl
from trident.expressions.binding import Bound, BoundCall, BoundCase, BoundField, BoundLiteral
from trident.expressions.rules import RULES, quoted_text
from trident.expressions.time_rules import micros_of, time_sql


def sql_text(part: Bound, inputs: Sequence[str]) -> str:
    """Return an expression as SQL over the columns `inputs`."""
    match part:
        case BoundField(at=at):
            return inputs[at]
        case BoundLiteral(value=value, kind=kind):
            return f"CAST({_literal(value, kind)} AS {type_ddl(kind)})"
        case BoundCase(branches=branches, last=last):
            whens = " ".join(f"WHEN {sql_text(c, inputs)} THEN {sql_text(v, inputs)}" for c, v in branches)
            return f"CASE {whens} ELSE {sql_text(last, inputs)} END"
        case BoundCall(rule=rule, args=args, typed=typed):
            return RULES[rule].sql(typed, *[sql_text(arg, inputs) for arg in args])
    raise TypeError(f"{part!r} is no expression")


def _literal(value: Any, kind: DataType) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case float() | Decimal():
            return quoted_text(str(value))  # Spark reads "inf", "nan" and each digit
        case int():
            return quoted_text(str(value))
        case str():
            return quoted_text(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime.datetime():
            zoned = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
            return time_sql(kind, f"{micros_of(zoned)}L")
        case datetime.date():
            return f"date_from_unix_date({value.toordinal() - datetime.date(1970, 1, 1).toordinal()})"
    raise TypeError(f"{value!r} is not a constant")
