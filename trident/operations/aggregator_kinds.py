"""An aggregator, read: which kind it is, and the types of what it folds to and of what it gives."""

from typing import Any

from pyspark.sql import types as spark

from trident.base.callsite import site_of
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.step import Step
from trident.base.text import brief
from trident.base.types import type_ddl
from trident.operations.aggregators import Aggregation, AnyAggregation, Emitting, Reduction
from trident.operations.annotations import read_returns
from trident.operations.builtin_aggregators import BuiltinAggregator, called_like
from trident.operations.callables import bind, kind_of
from trident.operations.functions import Declared
from trident.operations.output_fields import own_types

_COMBINER = "a CombinerAggregator: an object with init(tuple), combine(a, b) and zero(), such as Count()"
_REDUCER = "a ReducerAggregator: init() and reduce(curr, tuple)"
_EMITTER = "an Aggregator: init(batchId, collector), aggregate(state, tuple, collector) and complete(state, collector)"


def read_aggregator(
    target: Any, inputs: spark.StructType, declared: Declared, step: Step
) -> tuple[AnyAggregation, spark.StructType]:
    """Read `target` as an aggregator of any kind of these input fields; and the fields that leave it."""
    kind = kind_of(target)
    if kind == "emitter":
        emitting = _read_emitting(target, declared, step)
        return emitting, emitting.outputs
    if kind not in ("aggregator", "reducer"):
        raise _no_aggregator(target, f"{_COMBINER}; {_REDUCER}; or {_EMITTER}", step)
    how: Aggregation | Reduction
    how = (
        _combiner(target, inputs, declared, True, step)
        if kind == "aggregator"
        else _reducer(target, declared, True, step)
    )
    return how, spark.StructType([_leaving(how, declared, step)])


def read_folding(target: Any, inputs: spark.StructType, declared: Declared, step: Step) -> Aggregation | Reduction:
    """Read `target` as what folds tuples to one value that a state can hold: a combiner or a reducer."""
    kind = kind_of(target)
    if kind == "emitter":
        raise step.error(
            TopologyError,
            f"{brief(target)} is an Aggregator, which emits tuples and holds no value for a state; give {_COMBINER}, "
            f"{_REDUCER}, or take aggregate for the batch and a state behind it",
        )
    if kind == "reducer":
        return _reducer(target, declared, False, step)
    if kind != "aggregator":
        raise _no_aggregator(target, f"{_COMBINER}; or {_REDUCER}", step)
    return _combiner(target, inputs, declared, False, step)


def presented_type(aggregation: Aggregation | Reduction) -> spark.DataType | None:
    """The type of what queries see of a stored accumulator; None where ``present`` is not annotated."""
    present = getattr(aggregation.aggregator, "present", None)
    if present is None:
        return aggregation.type
    types = read_returns(present).types(1)
    return types[0] if types else None


# --- the three kinds ----------------------------------------------------------------------------------------------


def _combiner(target: Any, inputs: spark.StructType, declared: Declared, shown: bool, step: Step) -> Aggregation:
    """A combiner. `shown`: what is declared is what it presents, where it does; else it is the accumulator."""
    _check_class(target, step)
    output = _one_field(declared, step)
    kind = output.dataType if declared.typed[0] else None
    if isinstance(target, BuiltinAggregator):
        found = _builtin_type(target, inputs, output.name, kind, step)
        return Aggregation(target, site_of(target), output.name, found, target.native)
    bind(target.init, 1, "init is called with one TridentTuple of the input fields", step)
    bind(target.combine, 2, "combine is called with two accumulators", step)
    bind(target.zero, 0, "zero is called without arguments", step)
    kind = _accumulated(target, output.name, kind, ("zero", "init", "combine"), shown, step)
    return Aggregation(target, site_of(target), output.name, kind)


def _reducer(target: Any, declared: Declared, shown: bool, step: Step) -> Reduction:
    _check_class(target, step)
    output = _one_field(declared, step)
    bind(target.init, 0, "init is called without arguments", step)
    bind(target.reduce, 2, "reduce is called with the value so far and one TridentTuple of the input fields", step)
    kind = output.dataType if declared.typed[0] else None
    kind = _accumulated(target, output.name, kind, ("init", "reduce"), shown, step)
    return Reduction(target, site_of(target), output.name, kind)


def _read_emitting(target: Any, declared: Declared, step: Step) -> Emitting:
    _check_class(target, step)
    bind(target.init, 2, "init is called with the batch's txid and a collector", step)
    bind(target.aggregate, 3, "aggregate is called with the state, one TridentTuple and a collector", step)
    bind(target.complete, 2, "complete is called with the state and a collector", step)
    fields = declared.schema.fields
    if all(declared.typed):
        return Emitting(target, site_of(target), declared.schema)
    types = own_types(target, len(fields), step)
    if types is None:
        first = next(field.name for field, typed in zip(fields, declared.typed, strict=True) if not typed)
        raise step.error(
            TypeDeclarationError,
            f"the type of output field {first!r} is not declared: write it with the field, such as '{first} long', "
            "or give the Aggregator an attribute outputType",
        )
    outputs = [
        field if typed else spark.StructField(field.name, kind)
        for field, typed, kind in zip(fields, declared.typed, types, strict=True)
    ]
    return Emitting(target, site_of(target), spark.StructType(outputs))


def _no_aggregator(target: Any, wanted: str, step: Step) -> TopologyError:
    """What is missing from something that is none of them."""
    _check_class(target, step)
    has = [name for name in ("init", "combine", "zero", "reduce", "aggregate", "complete") if _has(target, name)]
    what = f"has {', '.join(has)} and is no aggregator;" if has else "is no aggregator;"
    known = called_like(getattr(target, "__name__", ""))
    hint = "" if known is None else f" {known}, or"
    return step.error(TopologyError, f"{brief(target)} {what} give{hint} {wanted}")


def _has(target: Any, name: str) -> bool:
    return callable(getattr(target, name, None))


def _check_class(target: Any, step: Step) -> None:
    if isinstance(target, type) and kind_of(target):
        raise step.error(TopologyError, f"{target.__name__} is a class; give an instance of it, {target.__name__}()")


# --- output fields ------------------------------------------------------------------------------------------------


def _one_field(declared: Declared, step: Step) -> spark.StructField:
    if len(declared.schema.names) != 1:
        names = ", ".join(declared.schema.names)
        raise step.error(TopologyError, f"an aggregator gives one field, not {len(declared.schema.names)} ({names})")
    return declared.schema.fields[0]


def _leaving(how: Aggregation | Reduction, declared: Declared, step: Step) -> spark.StructField:
    """The field that leaves an aggregate within the batch: what the aggregator presents, where it does."""
    if not _has(how.aggregator, "present"):
        return spark.StructField(how.output, how.type)
    given = declared.schema.fields[0].dataType if declared.typed[0] else None
    given = None if given is how.type else given  # it was needed for the accumulator
    presented = presented_type(how)
    shown = presented or given
    if shown is None:
        raise step.error(
            TypeDeclarationError,
            f"the type of output field {how.output!r} is not declared: annotate what present(acc) returns",
        )
    if presented is not None and given is not None and given != presented:
        raise step.error(
            TypeDeclarationError,
            f"present(acc) is annotated to give {type_ddl(presented)}, not {type_ddl(given)}; leave the type out",
        )
    return spark.StructField(how.output, shown)


def _builtin_type(
    target: BuiltinAggregator, inputs: spark.StructType, output: str, declared: spark.DataType | None, step: Step
) -> spark.DataType:
    problem = target.problem(inputs)
    if problem:
        wrong_type = len(inputs.names) == 1 and target.native != "count"
        raise step.error(TypeDeclarationError if wrong_type else TopologyError, problem)
    natural = target.type_of(inputs)
    present = getattr(target, "present", None)
    known = [natural] if present is None else [natural, *(read_returns(present).types(1) or ())]
    if declared is not None and declared not in known:
        over = f" over {type_ddl(inputs.fields[0].dataType)}" if inputs.fields else ""
        raise step.error(
            TypeDeclarationError,
            f"{type(target).__name__}{over} gives {type_ddl(known[-1])}, not {type_ddl(declared)}; "
            f"write {output!r}, and cast what comes out with expr",
        )
    return natural


def _accumulated(
    target: Any, output: str, declared: spark.DataType | None, methods: tuple[str, ...], shown: bool, step: Step
) -> spark.DataType:
    """The type of what tuples are folded to: as declared, as the aggregator says, as annotated. A declared type that is
    `shown` is, of an aggregator that presents another one, only the last resort."""
    if declared is not None and not (shown and _has(target, "present")):
        return declared
    types = own_types(target, 1, step)
    for method in methods:
        types = types or read_returns(getattr(target, method)).types(1)
    if types is not None:
        return types[0]
    if declared is None:
        raise step.error(
            TypeDeclarationError,
            f"the type of output field {output!r} is not declared: write it with the field, such as '{output} long', "
            f"give the aggregator an attribute outputType, or annotate what {methods[0]}() returns",
        )
    return declared
