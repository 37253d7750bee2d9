"""Conditions of built-in aggregators, ``Count(where=col("price") < 100)``, turned into fields of the stream.

A condition becomes a field before the aggregate, so it is computed like a filter: an expression by Spark or over whole
columns, any other condition by the user's function. The field is dropped together with the other input fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql.types import BooleanType, StructField, StructType

from trident.base.names import free_name
from trident.base.spark_types import select
from trident.base.verb_call import Step
from trident.expressions.tree import ColumnExpression, col, lit, when
from trident.operations.aggregates.base import BuiltinAggregator
from trident.operations.bound_expressions import bound_operation
from trident.operations.callables import check_arguments, check_predicate, read_operation
from trident.operations.filtered_aggregators import CountWhere, Filtered
from trident.operations.functions import Operation
from trident.plan import nodes, step_checks
from trident.stream.arguments import operation_site
from trident.stream.base import StreamBase


@dataclass(frozen=True, slots=True)
class Conditioned:
    """A stream to aggregate, as the user sees it and with the fields of the aggregators' conditions.

    `fields` maps the text of an expression, or the identity of a function, to the name of its field.
    """

    own: StreamBase[Any]
    stream: StreamBase[Any]
    fields: Mapping[str | int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, stream: StreamBase[Any]) -> "Conditioned":
        """Return a stream without conditions."""
        return cls(stream, stream)

    def reading(
        self, aggregator: Any, inputs: tuple[str, ...], step: Step
    ) -> tuple["Conditioned", tuple[str, ...], Any]:
        """Return the stream, the input fields and the aggregator that apply the aggregator's condition.

        A condition that another aggregator already uses shares that one's field.
        """
        condition = aggregator.where if isinstance(aggregator, BuiltinAggregator) else None
        if condition is None:
            return self, inputs, aggregator
        conditioned, counts = self._with_condition(condition, step)
        step = replace(step, label=f"{step.label}.where")
        if aggregator.native == "count":
            conditioned, number = conditioned._with(when(col(counts), 1).otherwise(0), "n_where", step)
            return conditioned, (number,), CountWhere()
        if aggregator.native is not None and len(inputs) == 1:  # the aggregator skips nulls
            conditioned, masked = conditioned._with(when(col(counts), col(inputs[0])), f"{inputs[0]}_where", step)
            return conditioned, (masked,), aggregator
        return conditioned, (*inputs, counts), Filtered(aggregator, select(self.own.schema, inputs))

    def _with_condition(self, condition: Any, step: Step) -> tuple["Conditioned", str]:
        """Return the stream with a field that is true for tuples that satisfy a condition."""
        step = replace(step, label=f"{step.label}.where", function=operation_site(condition))
        if isinstance(condition, ColumnExpression):
            inputs, operation = bound_operation(condition, self.own.schema, step, condition=True)
            self.own._check_reads(inputs, operation, step)
            return self._with(when(condition, lit(True)).otherwise(lit(False)), "where", step)
        if id(condition) in self.fields:
            return self, self.fields[id(condition)]
        inputs = self.own._inputs(None, step)
        operation, returns = read_operation(condition, step, tuples=True)
        check_arguments(operation, inputs, step)
        check_predicate(operation, returns, step)
        self.own._check_reads(inputs, operation, step)
        made = StructField(free_name("where", self.stream.fields), BooleanType(), nullable=operation.call.native)
        return self._adding(id(condition), made, inputs, operation, step)

    def _with(self, expression: ColumnExpression, name: str, step: Step) -> tuple["Conditioned", str]:
        """Return the stream with a field that holds the value of an expression."""
        text = repr(expression)
        if text in self.fields:
            return self, self.fields[text]
        inputs, operation = bound_operation(expression, self.stream.schema, step)
        made = StructField(free_name(name, self.stream.fields), operation.target.outputType.fields[0].dataType)
        return self._adding(text, made, inputs, operation, step)

    def _adding(
        self, key: str | int, made: StructField, inputs: tuple[str, ...], operation: Operation, step: Step
    ) -> tuple["Conditioned", str]:
        stream, outputs = self.stream, StructType([made])
        number = len(self.fields) + 1
        gives = step.gives(step_checks.appended(stream.schema, outputs, step), str(number) if number > 1 else "")
        node = nodes.Each(stream._node, inputs, operation, outputs, **gives)
        stream._register.add(stream._label, node, part=True)
        extended = stream._new(node, stream._label)
        return Conditioned(self.own, extended, {**self.fields, key: made.name}), made.name
