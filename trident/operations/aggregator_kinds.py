"""Functions that inspect a user's aggregator: its kind, and its accumulator and output types."""

from typing import Any

from pyspark.sql import types as spark

from trident.base.callsite import site_of
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.short_texts import brief
from trident.base.spark_types import type_ddl
from trident.base.verb_call import Step
from trident.operations.aggregates.base import BuiltinAggregator
from trident.operations.aggregates.registry import called_like
from trident.operations.aggregators import Aggregation, AnyAggregation, Emitting, PandasAggregation, Reduction
from trident.operations.annotations import Returns, read_returns
from trident.operations.bundles import BundleMember, bundle_of
from trident.operations.callables import (
    bind,
    check_no_lifecycle,
    check_not_class,
    check_pandas_arguments,
    operation_kind,
)
from trident.operations.checked_aggregators import check_returns
from trident.operations.filtered_aggregators import as_written
from trident.operations.functions import Declared
from trident.operations.output_fields import own_types, typed_outputs
from trident.operations.pandas_forms import PandasForm, read_pandas_form

_COMBINER = "a CombinerAggregator: an object with init(tuple), combine(a, b) and zero(), such as Count()"
_REDUCER = "a ReducerAggregator: init() and reduce(curr, tuple)"
_EMITTER = "an Aggregator: init(batchId, collector), aggregate(state, tuple, collector) and complete(state, collector)"
_PANDAS = "a function of pandas objects to one value, such as f(price: pd.Series) -> float"


def read_aggregator(
    target: Any, inputs: spark.StructType, declared: Declared, step: Step
) -> tuple[AnyAggregation, spark.StructType]:
    """Read `target` as an aggregator of any kind over `inputs`. Return its plan form and its output fields."""
    kind = operation_kind(target)
    if kind == "emitter":
        emitting = _read_emitting(target, declared, step)
        return emitting, emitting.outputs
    form = None if kind else read_pandas_form(target, step)
    if form is not None:
        over_pandas = _read_pandas(target, form, inputs, declared, step)
        return over_pandas, spark.StructType([spark.StructField(over_pandas.output, over_pandas.type)])
    if kind not in ("aggregator", "reducer"):
        raise _not_an_aggregator(target, f"{_COMBINER}; {_REDUCER}; {_EMITTER}; or {_PANDAS}", step)
    folding: Aggregation | Reduction
    folding = (
        _read_combiner(target, inputs, declared, step, presents=True)
        if kind == "aggregator"
        else _read_reducer(target, declared, step, presents=True)
    )
    return folding, spark.StructType([_presented_field(folding, declared, step)])


def read_folding(target: Any, inputs: spark.StructType, declared: Declared, step: Step) -> Aggregation | Reduction:
    """Read `target` as a combiner or a reducer, the kinds whose values a state can hold."""
    kind = operation_kind(target)
    if not kind:
        check_not_pandas(target, step)
    if kind == "emitter":
        raise step.error(
            TopologyError,
            f"{brief(target)} is an Aggregator, which emits tuples and has no value to store in a state; give "
            f"{_COMBINER}, {_REDUCER}, or use aggregate for the batch and a state after it",
        )
    if kind == "reducer":
        return _read_reducer(target, declared, step, presents=False)
    if kind != "aggregator":
        raise _not_an_aggregator(target, f"{_COMBINER}; or {_REDUCER}", step)
    return _read_combiner(target, inputs, declared, step, presents=False)


def check_not_pandas(target: Any, step: Step) -> None:
    """Refuse a function of pandas objects, which cannot combine the values of several batches or panes."""
    if read_pandas_form(target, step) is not None:
        raise step.error(
            TopologyError,
            f"{brief(target)} is a function of pandas objects: it needs all tuples of a batch at once, and its values "
            "for two batches cannot be combined. Use aggregate for the batch and a state after it, or write a "
            "CombinerAggregator, whose initColumn(columns, groups, count) also works on whole columns",
        )


def presented_type(aggregation: Aggregation | Reduction) -> spark.DataType | None:
    """Return the type of the values that queries see; None if ``present`` is not annotated."""
    bundle = bundle_of(aggregation)
    if bundle is not None:
        return bundle.shown
    return presented_type_of(aggregation.aggregator, aggregation.type)


def presented_type_of(aggregator: Any, accumulator: spark.DataType) -> spark.DataType | None:
    """Return the type of the values that queries see for this accumulator type; see `presented_type`."""
    present = getattr(aggregator, "present", None)
    if present is None:
        return accumulator
    own = aggregator.presented_type(accumulator) if isinstance(aggregator, BuiltinAggregator) else None
    if own is not None:
        return own
    types = read_returns(present).types(1)
    return types[0] if types else None


def bundle_member(inputs: tuple[str, ...], folding: Aggregation | Reduction, step: Step) -> BundleMember:
    """Return an aggregator as a member of a bundle, which combines several combiners.

    Raises an error for a reducer, or a ``present`` without annotation.
    """
    if isinstance(folding, Reduction):
        raise step.error(
            TopologyError,
            f"{brief(folding.aggregator)} is a ReducerAggregator, but several aggregators in one state must be "
            f"CombinerAggregators; give it a separate state, or make it a combiner",
        )
    presented = presented_type(folding)
    if presented is None:
        raise step.error(
            TypeDeclarationError,
            f"the type of {folding.output!r} is not declared: annotate the return type of present(acc), such as -> "
            f"float",
        )
    return BundleMember(inputs, folding, presented)


# --- the three kinds ----------------------------------------------------------------------------------------------


def _read_combiner(
    target: Any, inputs: spark.StructType, declared: Declared, step: Step, *, presents: bool
) -> Aggregation:
    """Read `target` as a combiner.

    The declared type is the accumulator's, unless `presents` is true and the combiner has a ``present``: then it is the
    type of the presented value.
    """
    check_not_class(target, step)
    check_no_lifecycle(target, step)
    output = _one_field(declared, step)
    kind = output.dataType if declared.typed[0] else None
    if isinstance(target, BuiltinAggregator):
        natural = _builtin_type(target, inputs, output.name, kind, step)
        return Aggregation(target, site_of(as_written(target)), output.name, natural, target.native)
    bind(target.init, 1, "init is called with one TridentTuple of the input fields", step)
    bind(target.combine, 2, "combine is called with two accumulators", step)
    bind(target.zero, 0, "zero is called without arguments", step)
    check_returns(target.init, step)
    check_returns(target.combine, step)
    _check_column_methods(target, step)
    kind = _accumulator_type(target, output.name, kind, ("zero", "init", "combine"), presents, step)
    return Aggregation(target, site_of(target), output.name, kind)


def _check_column_methods(target: Any, step: Step) -> None:
    """Refuse column methods with unfitting parameters, or a combineColumn without an initColumn."""
    if _has(target, "initColumn"):
        bind(target.initColumn, 3, "initColumn is called with a RecordBatch, group numbers and their count", step)
    if _has(target, "combineColumn"):
        bind(target.combineColumn, 2, "combineColumn is called with two columns of accumulators", step)
        if not _has(target, "initColumn"):
            problem = f"{brief(target)} has combineColumn but no initColumn, which creates the columns to combine"
            raise step.error(TopologyError, f"{problem}: add initColumn(columns, groups, count)")


def _read_reducer(target: Any, declared: Declared, step: Step, *, presents: bool) -> Reduction:
    check_not_class(target, step)
    check_no_lifecycle(target, step)
    output = _one_field(declared, step)
    bind(target.init, 0, "init is called without arguments", step)
    bind(target.reduce, 2, "reduce is called with the value so far and one TridentTuple of the input fields", step)
    check_returns(target.reduce, step)
    kind = output.dataType if declared.typed[0] else None
    kind = _accumulator_type(target, output.name, kind, ("init", "reduce"), presents, step)
    return Reduction(target, site_of(target), output.name, kind)


def _read_emitting(target: Any, declared: Declared, step: Step) -> Emitting:
    check_not_class(target, step)
    check_no_lifecycle(target, step)
    bind(target.init, 2, "init is called with the batch's txid and a collector", step)
    bind(target.aggregate, 3, "aggregate is called with the state, one TridentTuple and a collector", step)
    bind(target.complete, 2, "complete is called with the state and a collector", step)
    return Emitting(target, site_of(target), typed_outputs(target, declared, step, "Aggregator"))


def _read_pandas(
    target: Any, form: PandasForm, inputs: spark.StructType, declared: Declared, step: Step
) -> PandasAggregation:
    if form.gives is not None:
        problem = f"it is annotated to return a {form.gives}, but an aggregate is one value: return a scalar"
        raise step.error(TopologyError, f"{problem}, or use each, map or flatMap, which return a row for each tuple")
    check_no_lifecycle(target, step)
    output = _one_field(declared, step)
    check_pandas_arguments(target, form.call, inputs.names, step)
    types = (output.dataType,) if declared.typed[0] else own_types(target, 1, step) or Returns(form.value).types(1)
    if types is None:
        raise step.error(
            TypeDeclarationError,
            f"the type of output field {output.name!r} is not declared: write it with the field, such as "
            f"'{output.name} double', or annotate the return type of the function, such as -> float",
        )
    return PandasAggregation(target, site_of(target), output.name, types[0], form.call)


def _not_an_aggregator(target: Any, accepted: str, step: Step) -> TopologyError:
    """Return the error for a `target` that is not an aggregator.

    The message names the aggregator methods that `target` has.
    """
    check_not_class(target, step)
    has = [name for name in ("init", "combine", "zero", "reduce", "aggregate", "complete") if _has(target, name)]
    problem = f"has {', '.join(has)} but is not an aggregator;" if has else "is not an aggregator;"
    builtin = called_like(getattr(target, "__name__", ""))
    hint = "" if builtin is None else f" {builtin}, or"
    return step.error(TopologyError, f"{brief(target)} {problem} give{hint} {accepted}")


def _has(target: Any, name: str) -> bool:
    return callable(getattr(target, name, None))


# --- output fields ------------------------------------------------------------------------------------------------


def _one_field(declared: Declared, step: Step) -> spark.StructField:
    if len(declared.schema.names) != 1:
        names = ", ".join(declared.schema.names)
        raise step.error(TopologyError, f"an aggregator returns one field, not {len(declared.schema.names)} ({names})")
    return declared.schema.fields[0]


def _presented_field(folding: Aggregation | Reduction, declared: Declared, step: Step) -> spark.StructField:
    """Return the output field of an aggregate: the result of ``present``, otherwise the accumulator."""
    if not _has(folding.aggregator, "present"):
        return spark.StructField(folding.output, folding.type)
    written = declared.schema.fields[0].dataType if declared.typed[0] else None
    written = None if written is folding.type else written  # the same object that declared the accumulator's type
    presented = presented_type(folding)
    kind = presented or written
    if kind is None:
        raise step.error(
            TypeDeclarationError,
            f"the type of output field {folding.output!r} is not declared: annotate the return type of present(acc)",
        )
    if presented is not None and written is not None and written != presented:
        raise step.error(
            TypeDeclarationError,
            f"present(acc) is annotated to return {type_ddl(presented)}, not {type_ddl(written)}; remove the type",
        )
    return spark.StructField(folding.output, kind)


def _builtin_type(
    target: BuiltinAggregator, inputs: spark.StructType, output: str, declared: spark.DataType | None, step: Step
) -> spark.DataType:
    problem = target.problem(inputs)
    if problem:
        wrong_type = len(inputs.names) == 1 and target.native != "count"
        raise step.error(TypeDeclarationError if wrong_type else TopologyError, problem)
    natural = target.type_of(inputs)
    present = getattr(target, "present", None)
    own = target.presented_type(natural)
    presented = (own,) if own is not None else () if present is None else read_returns(present).types(1) or ()
    known = [natural, *presented]
    if declared is not None and declared not in known:
        over = f" over {type_ddl(inputs.fields[0].dataType)}" if inputs.fields else ""
        raise step.error(
            TypeDeclarationError,
            f"{type(as_written(target)).__name__}{over} returns {type_ddl(known[-1])}, not {type_ddl(declared)}; "
            f"write {output!r} without a type, and cast the result with expr",
        )
    return natural


def _accumulator_type(
    target: Any, output: str, declared: spark.DataType | None, methods: tuple[str, ...], presents: bool, step: Step
) -> spark.DataType:
    """Return the accumulator type: the declared one, otherwise from ``outputType``, otherwise from an annotation.

    If `presents` is true and the aggregator has a ``present``, the declared type is that of the presented value; it is
    also the accumulator's if nothing else declares one.
    """
    if declared is not None and not (presents and _has(target, "present")):
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
            f"give the aggregator an attribute outputType, or annotate the return type of {methods[0]}()",
        )
    return declared
