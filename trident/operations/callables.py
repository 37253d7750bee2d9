"""A user's operation, read: what it is, how it will be called, whether the number of arguments fits."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import Column
from pyspark.util import PythonEvalType

from trident.base.callsite import site_of
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.step import Step
from trident.base.text import brief
from trident.operations.annotations import Returns, read_returns, type_of
from trident.operations.builtin_functions import Expression, expr
from trident.operations.context import has_life
from trident.operations.functions import Call, Operation
from trident.operations.output_fields import shown

_MARKS = {
    "isKeep": ("isKeep",),
    "query": ("batchRetrieve",),
    "aggregator": ("init", "combine", "zero"),
    "reducer": ("init", "reduce"),
    "emitter": ("init", "aggregate", "complete"),
    "updater": ("updateState",),
    "execute": ("execute",),
}
"""By which methods an object is known for what it is; a query function has an `execute` too, so it comes before."""

_MISPLACED = {
    "query": "a query function: it belongs to stateQuery",
    "aggregator": "an aggregator: it belongs to aggregate or persistentAggregate",
    "reducer": "a ReducerAggregator: it belongs to aggregate or persistentAggregate",
    "emitter": "an Aggregator: it belongs to aggregate",
    "updater": "a StateUpdater: it belongs to partitionPersist",
}
_SCALAR_UDFS = (
    PythonEvalType.SQL_BATCHED_UDF,
    PythonEvalType.SQL_ARROW_BATCHED_UDF,
    PythonEvalType.SQL_SCALAR_PANDAS_UDF,
    PythonEvalType.SQL_SCALAR_PANDAS_ITER_UDF,
    PythonEvalType.SQL_SCALAR_ARROW_UDF,
    PythonEvalType.SQL_SCALAR_ARROW_ITER_UDF,
)


def read_operation(target: Any, step: Step, tuples: bool) -> tuple[Operation, Returns]:
    """Read `target`; a plain callable will be called with one TridentTuple (`tuples`) or with one argument a field."""
    call = call_of(target, step, Call.TUPLE if tuples else Call.VALUES)
    operation = Operation(target, site_of(target), call, call is Call.FUNCTION)
    if call in (Call.VALUES, Call.TUPLE):
        returns = read_returns(target)
        if is_coroutine(target):
            raise step.error(TopologyError, "it is an async function, and is never awaited here; give a plain one")
        many = returns.lazy or is_generator(target)
        return Operation(target, operation.site, call, many), returns
    return operation, Returns()


def call_of(target: Any, step: Step, plain: Call) -> Call:
    """What kind of operation this is. No JVM is asked."""
    if isinstance(target, Expression):
        return Call.EXPRESSION
    if isinstance(target, Column):
        return Call.COLUMN
    if is_udf(target):
        if target.evalType not in _SCALAR_UDFS:
            raise step.error(
                TopologyError, "it is a udf over groups or whole batches; a verb takes one that gives a value a row"
            )
        return Call.UDF
    if target is expr:
        raise step.error(TopologyError, "expr makes an expression of text: give expr('upper(line)')")
    kind = kind_of(target)
    if kind and isinstance(target, type):
        raise step.error(TopologyError, f"{target.__name__} is a class; give an instance of it, {target.__name__}()")
    if kind in _MISPLACED:
        raise step.error(TopologyError, f"{brief(target)} is {_MISPLACED[kind]}")
    if kind:
        return Call.FILTER if kind == "isKeep" else Call.FUNCTION
    if not callable(target):
        raise step.error(
            TopologyError, f"{brief(target)} is no operation; give a callable, a Function, a Filter or expr(...)"
        )
    return Call.COLUMN_BUILDER if read_returns(target).column else plain


def check_arguments(operation: Operation, names: tuple[str, ...], step: Step) -> None:
    """Refuse a callable whose signature, where it is knowable, cannot take what it will be given."""
    call, target = operation.call, operation.target
    if call is Call.FILTER:
        bind(target.isKeep, 1, "isKeep is called with one TridentTuple", step)
    elif call is Call.FUNCTION:
        bind(target.execute, 2, "execute is called with a TridentTuple and a collector", step)
    if has_life(target) and not call.native:
        bind(getattr(target, "prepare", _nothing_to), 1, "prepare is called with one OperationContext", step)
        bind(getattr(target, "cleanup", _nothing_to), 0, "cleanup is called without arguments", step)
    if call in (Call.FILTER, Call.FUNCTION):
        return
    if call is Call.TUPLE:
        fitting = _takes(target, len(names)) and len(names) != 1
        hint = f"; name the fields to give it one argument a field: {', '.join(names)!r}" if fitting else ""
        bind(target, 1, f"it is called with one TridentTuple of all fields{hint}", step, yields=True)
    elif call in (Call.VALUES, Call.COLUMN_BUILDER):
        kind = "Column" if call is Call.COLUMN_BUILDER else "argument"
        bind(target, len(names), f"it is called with one {kind} a field ({', '.join(names)})", step, yields=True)
    elif call is Call.UDF:
        bind(
            getattr(target, "func", target),
            len(names),
            f"it is called with one Column a field ({', '.join(names)})",
            step,
        )


def _nothing_to(*_: object) -> None:
    """In the place of a method that is not there."""


def check_predicate(operation: Operation, returns: Returns, step: Step) -> None:
    """Refuse what cannot be a filter."""
    missing = "; a filter gives a bool. To append fields, give outputFields"
    if operation.call is Call.FUNCTION:
        raise step.error(TopologyError, f"{operation.site.name} is a Function, which appends fields{missing}")
    if operation.many:
        raise step.error(TypeDeclarationError, f"it gives many results{missing}")
    if returns.nothing:
        raise step.error(TypeDeclarationError, f"it is annotated to return None{missing}")
    if returns.known:
        kind, several = type_of(returns.hint), returns.arity
        if (kind is not None and kind.typeName() != "boolean") or (several or 1) > 1:
            raise step.error(TypeDeclarationError, f"it is annotated to return {shown(returns)}{missing}")
    if operation.call is Call.UDF and operation.target.returnType.typeName() != "boolean":
        raise step.error(TypeDeclarationError, f"the udf returns {operation.target.returnType.simpleString()}{missing}")


def kind_of(target: Any) -> str:
    """What a Trident-style object is, by its methods: isKeep, query, aggregator (a combiner), reducer, emitter (an
    Aggregator), updater, execute; "" for
    anything else."""
    if isinstance(target, Column):  # it has every attribute that one asks for
        return ""
    for kind, methods in _MARKS.items():
        if all(callable(getattr(target, method, None)) for method in methods):
            return kind
    return ""


def is_udf(target: Any) -> bool:
    """Whether it came from ``pyspark.sql.functions.udf`` or one of its kin."""
    return all(hasattr(target, name) for name in ("evalType", "returnType", "func"))


def is_generator(target: Any) -> bool:
    """Whether calling it runs a generator function."""
    return any(inspect.isgeneratorfunction(each) for each in _behind(target))


def is_coroutine(target: Any) -> bool:
    """Whether calling it gives something to await."""
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in _behind(target))


def _behind(target: Any) -> list[Any]:
    """The target, and what a partial, a wrapper or an object with __call__ leads to."""
    found = [target]
    while hasattr(target, "func") and not inspect.isroutine(target):
        target = target.func
        found.append(target)
    if not inspect.isroutine(target) and not isinstance(target, type):
        found.append(type(target).__call__)
    return found + [inspect.unwrap(each) for each in found if callable(each)]


def _takes(target: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(target).bind(*[None] * count)
    except (TypeError, ValueError):
        return False
    return True


def bind(
    target: Callable[..., Any],
    count: int,
    given: str,
    step: Step,
    keywords: Iterable[str] = (),
    yields: bool = False,
) -> None:
    """Refuse a target whose signature, where it is knowable, does not take `count` arguments and these keywords; and a
    generator where nobody reads what is yielded (not `yields`): its body would never run."""
    if not yields and is_generator(target):
        name = getattr(target, "__name__", type(target).__name__)
        instead = "collector.emit([...])" if "collector" in given else "return"
        raise step.error(
            TopologyError, f"{name} yields, and nobody reads what is yielded here: write {instead}; {given}"
        )
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # a builtin that does not tell
        return
    try:
        signature.bind(*[None] * count, **dict.fromkeys(keywords))
    except TypeError:
        name = getattr(target, "__name__", type(target).__name__)
        shown = signature.replace(return_annotation=signature.empty)
        raise step.error(TopologyError, f"{name}{shown} does not fit: {given}") from None
