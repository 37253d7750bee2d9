"""An aggregator, read: whether it is one, and the type of its accumulator."""

from typing import Any

from pyspark.sql import types as spark

from trident.base.callsite import site_of
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.names import brief
from trident.base.step import Step
from trident.base.types import type_ddl
from trident.operations.aggregators import Aggregation, Reduction
from trident.operations.annotations import read_returns
from trident.operations.builtin_aggregators import BuiltinAggregator
from trident.operations.functions import Declared
from trident.operations.outputs import own_types
from trident.operations.reading import bind, kind_of

_WANTED = "a CombinerAggregator: an object with init(tuple), combine(a, b) and zero(), such as Count()"


def read_aggregation(target: Any, inputs: spark.StructType, declared: Declared, step: Step) -> Aggregation:
    """Read `target` as an aggregator of these input fields into the one declared output field."""
    if isinstance(target, type) and kind_of(target):
        raise step.error(TopologyError, f"{target.__name__} is a class; give an instance of it, {target.__name__}()")
    if kind_of(target) != "aggregator":
        reducer = callable(getattr(target, "reduce", None)) or callable(getattr(target, "aggregate", None))
        what = "has no combine(a, b), so partial results cannot meet;" if reducer else "is no aggregator;"
        raise step.error(TopologyError, f"{brief(target)} {what} give {_WANTED}")
    output = _one_field(declared, step)
    kind = output.dataType if declared.typed[0] else None
    if isinstance(target, BuiltinAggregator):
        found = _builtin_type(target, inputs, output.name, kind, step)
        return Aggregation(target, site_of(target), output.name, found, target.native)
    bind(target.init, 1, "init is called with one TridentTuple of the input fields", step)
    bind(target.combine, 2, "combine is called with two accumulators", step)
    bind(target.zero, 0, "zero is called without arguments", step)
    return Aggregation(target, site_of(target), output.name, kind or _own_type(target, output.name, step))


def read_reduction(target: Any, declared: Declared, step: Step) -> Reduction:
    """Read `target` as a reducer into the one declared output field."""
    if isinstance(target, type):
        raise step.error(TopologyError, f"{target.__name__} is a class; give an instance of it, {target.__name__}()")
    output = _one_field(declared, step)
    bind(target.init, 0, "init is called without arguments", step)
    bind(target.reduce, 2, "reduce is called with the value so far and one TridentTuple of the input fields", step)
    kind = output.dataType if declared.typed[0] else _own_type(target, output.name, step, ("init", "reduce"))
    return Reduction(target, site_of(target), output.name, kind)


def _one_field(declared: Declared, step: Step) -> spark.StructField:
    if len(declared.schema.names) != 1:
        names = ", ".join(declared.schema.names)
        raise step.error(TopologyError, f"an aggregator gives one field, not {len(declared.schema.names)} ({names})")
    return declared.schema.fields[0]


def presented_type(aggregation: Aggregation | Reduction) -> spark.DataType | None:
    """The type of what queries see of a stored accumulator; None where ``present`` is not annotated."""
    present = getattr(aggregation.aggregator, "present", None)
    if present is None:
        return aggregation.type
    types = read_returns(present).types(1)
    return types[0] if types else None


def _builtin_type(
    target: BuiltinAggregator, inputs: spark.StructType, output: str, declared: spark.DataType | None, step: Step
) -> spark.DataType:
    problem = target.problem(inputs)
    if problem:
        wrong_type = len(inputs.names) == 1 and target.native != "count"
        raise step.error(TypeDeclarationError if wrong_type else TopologyError, problem)
    natural = target.type_of(inputs)
    if declared is not None and declared != natural:
        over = f" over {type_ddl(inputs.fields[0].dataType)}" if inputs.fields else ""
        raise step.error(
            TypeDeclarationError,
            f"{type(target).__name__}{over} gives {type_ddl(natural)}, not {type_ddl(declared)}; "
            f"write {output!r}, and cast what comes out with expr",
        )
    return natural


def _own_type(
    target: Any, output: str, step: Step, methods: tuple[str, ...] = ("zero", "init", "combine")
) -> spark.DataType:
    types = own_types(target, 1, step)
    for method in methods:
        types = types or read_returns(getattr(target, method)).types(1)
    if types is None:
        raise step.error(
            TypeDeclarationError,
            f"the type of output field {output!r} is not declared: write it with the field, such as '{output} long', "
            f"give the aggregator an attribute outputType, or annotate what {methods[0]}() returns",
        )
    return types[0]
