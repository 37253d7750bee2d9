"""Functions that inspect a user's operation: its kind, its call, and whether it accepts the arguments."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.util import PythonEvalType

from trident.base.callsite import site_of
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.short_texts import brief
from trident.base.verb_call import Step
from trident.expressions.tree import ColumnExpression
from trident.operations.annotations import Returns, read_returns, type_of
from trident.operations.context import has_lifecycle
from trident.operations.expressions import Expression, expr
from trident.operations.functions import Call, Operation
from trident.operations.output_fields import shown
from trident.operations.pandas_forms import PandasForm, read_pandas_form

_METHODS = {
    "isKeep": ("isKeep",),
    "query": ("batchRetrieve",),
    "aggregator": ("init", "combine", "zero"),
    "reducer": ("init", "reduce"),
    "emitter": ("init", "aggregate", "complete"),
    "updater": ("updateState",),
    "execute": ("execute",),
}
"""The methods by which each kind of object is recognized. "query" comes first, because it also has `execute`."""

_MISPLACED = {
    "query": "a query function: use it in stateQuery",
    "aggregator": "an aggregator: use it in aggregate or persistentAggregate",
    "reducer": "a ReducerAggregator: use it in aggregate or persistentAggregate",
    "emitter": "an Aggregator: use it in aggregate",
    "updater": "a StateUpdater: use it in partitionPersist",
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
    """Read `target` as an operation. Return it with its return annotation.

    A plain callable is called with one TridentTuple if `tuples` is true, otherwise with one argument for each field. A
    callable with pandas annotations always gets pandas objects.
    """
    call = call_of(target, step, Call.TUPLE if tuples else Call.VALUES)
    form = read_pandas_form(target, step) if call in (Call.VALUES, Call.TUPLE) else None
    if form is not None:
        return _pandas_operation(target, form, step)
    operation = Operation(target, site_of(target), call, call is Call.FUNCTION)
    if call in (Call.VALUES, Call.TUPLE):
        returns = read_returns(target)
        if is_coroutine(target):
            raise step.error(
                TopologyError, "it is an async function, which is never awaited here; use a plain function"
            )
        many = returns.lazy or is_generator(target)
        return Operation(target, operation.site, call, many), returns
    return operation, Returns()


def _pandas_operation(target: Any, form: PandasForm, step: Step) -> tuple[Operation, Returns]:
    """Return a function of pandas objects as an operation. Refuse one that returns a single value for all tuples."""
    if form.gives is None:
        problem = f"it is annotated to return {shown(Returns(form.value))} for all tuples at once"
        hint = "only an aggregate accepts such a function; to return a value for each tuple, return a pd.Series"
        raise step.error(TopologyError, f"{problem}; {hint}")
    return Operation(target, site_of(target), form.call), Returns(pandas=form.gives)


def call_of(target: Any, step: Step, plain: Call) -> Call:
    """Return how `target` is called, without using a JVM. A plain callable is called as `plain` says.

    Raises TopologyError if `target` is not an operation, or is one for another verb.
    """
    if isinstance(target, Expression):
        return Call.EXPRESSION
    if isinstance(target, Column):
        return Call.COLUMN
    if isinstance(target, ColumnExpression | Mapping):
        raise step.error(
            TopologyError,
            (
                f"{brief(target)} is an expression without a name: only each, filter and map take one; add it as a "
                "field first"
            ),
        )
    if is_udf(target):
        if target.evalType not in _SCALAR_UDFS:
            raise step.error(
                TopologyError,
                "it is a udf over groups or whole batches; expected a udf that returns a value for each row",
            )
        return Call.UDF
    if target is expr:
        raise step.error(TopologyError, "write a SQL expression as expr('upper(line)')")
    check_not_class(target, step)
    kind = operation_kind(target)
    if kind in _MISPLACED:
        raise step.error(TopologyError, f"{brief(target)} is {_MISPLACED[kind]}")
    if kind:
        return Call.FILTER if kind == "isKeep" else Call.FUNCTION
    if not callable(target):
        raise step.error(
            TopologyError, f"{brief(target)} is not an operation; give a callable, a Function, a Filter or expr(...)"
        )
    return Call.COLUMN_BUILDER if read_returns(target).column else plain


def check_arguments(operation: Operation, names: tuple[str, ...], step: Step) -> None:
    """Refuse an operation that does not accept its arguments.

    A callable without a known signature is accepted.
    """
    call, target = operation.call, operation.target
    if call is Call.FILTER:
        bind(target.isKeep, 1, "isKeep is called with one TridentTuple", step)
    elif call is Call.FUNCTION:
        bind(target.execute, 2, "execute is called with a TridentTuple and a collector", step)
    if has_lifecycle(target) and not call.native:
        bind(
            getattr(target, "prepare", _absent),
            1,
            "prepare is called with one OperationContext, whose attribute config has your configuration",
            step,
        )
        bind(getattr(target, "cleanup", _absent), 0, "cleanup is called without arguments", step)
    if call in (Call.FILTER, Call.FUNCTION):
        return
    if call is Call.TUPLE:
        takes_fields = _takes(target, len(names)) and len(names) != 1
        hint = f"; to pass one argument for each field, name the fields: {', '.join(names)!r}" if takes_fields else ""
        bind(target, 1, f"it is called with one TridentTuple of all fields{hint}", step, yields=True)
    elif call.pandas:
        check_pandas_arguments(target, call, names, step)
    elif call in (Call.VALUES, Call.COLUMN_BUILDER):
        kind = "Column" if call is Call.COLUMN_BUILDER else "argument"
        bind(target, len(names), f"it is called with one {kind} for each field ({', '.join(names)})", step, yields=True)
    elif call is Call.UDF:
        bind(
            getattr(target, "func", target),
            len(names),
            f"it is called with one Column for each field ({', '.join(names)})",
            step,
        )


def check_pandas_arguments(target: Any, call: Call, names: Sequence[str], step: Step) -> None:
    """Refuse a function of pandas objects that cannot be called with these fields."""
    fields = ", ".join(names)
    if call is Call.SERIES:
        bind(target, len(names), f"it is called with one pandas Series for each field ({fields})", step)
    else:
        bind(target, 1, f"it is called with one pandas DataFrame of the fields ({fields})", step)


def _absent(*_: object) -> None:
    """Do nothing. Replaces a method that the operation lacks."""


def check_predicate(operation: Operation, returns: Returns, step: Step) -> None:
    """Refuse an operation that cannot be a predicate because it appends fields or does not return one bool."""
    hint = "; a filter returns a bool. To append fields, name outputFields"
    if operation.call is Call.FUNCTION:
        raise step.error(TopologyError, f"{operation.site.name} is a Function, which appends fields{hint}")
    if operation.many:
        raise step.error(TypeDeclarationError, f"it returns many results{hint}")
    if returns.nothing:
        raise step.error(TypeDeclarationError, f"it is annotated to return None{hint}")
    if returns.pandas == "DataFrame":
        problem = "it is annotated to return a DataFrame; a filter over pandas objects returns a Series of bool"
        raise step.error(TypeDeclarationError, f"{problem}. To append fields, name outputFields")
    if returns.known:
        kind = type_of(returns.hint)
        if (kind is not None and kind.typeName() != "boolean") or (returns.arity or 1) > 1:
            raise step.error(TypeDeclarationError, f"it is annotated to return {shown(returns)}{hint}")
    if operation.call is Call.UDF and operation.target.returnType.typeName() != "boolean":
        raise step.error(TypeDeclarationError, f"the udf returns {operation.target.returnType.simpleString()}{hint}")


def check_not_class(target: Any, step: Step) -> None:
    """Refuse a class of operations if an instance is expected."""
    if isinstance(target, type) and operation_kind(target):
        raise step.error(TopologyError, f"{target.__name__} is a class; give an instance of it, {target.__name__}()")


def check_no_lifecycle(target: Any, step: Step) -> None:
    """Refuse an object with `prepare` or `cleanup` in a step that calls neither."""
    for name in ("prepare", "cleanup"):
        if callable(getattr(target, name, None)):
            raise step.error(
                TopologyError,
                f"its method {name} would never be called: only a Function, a Filter and a MultiReducer have "
                f"prepare and cleanup. Create its resources in __init__, or at the first use with "
                f"functools.cached_property",
            )


def operation_kind(target: Any) -> str:
    """Return the kind of a Trident-style object, found by its methods; "" for other objects.

    The kinds are isKeep, query, aggregator (a combiner), reducer, emitter (an Aggregator), updater and execute.
    """
    if isinstance(target, Column):  # a Column has every attribute
        return ""
    for kind, methods in _METHODS.items():
        if all(callable(getattr(target, method, None)) for method in methods):
            return kind
    return ""


def is_udf(target: Any) -> bool:
    """Return whether the object was made by ``pyspark.sql.functions.udf`` or a function like it."""
    return all(hasattr(target, name) for name in ("evalType", "returnType", "func"))


def is_generator(target: Any) -> bool:
    """Return whether a call of the target creates a generator."""
    return any(map(inspect.isgeneratorfunction, _functions_behind(target)))


def is_coroutine(target: Any) -> bool:
    """Return whether a call of the target returns an awaitable."""
    functions = _functions_behind(target)
    return any(inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function) for function in functions)


def _functions_behind(target: Any) -> list[Any]:
    """Return the target and the functions that a call of it runs.

    These are the function inside a partial, a wrapped function, and the ``__call__`` of an object.
    """
    functions = [target]
    while hasattr(target, "func") and not inspect.isroutine(target):
        target = target.func
        functions.append(target)
    if not inspect.isroutine(target) and not isinstance(target, type):
        functions.append(type(target).__call__)
    return functions + [inspect.unwrap(function) for function in functions if callable(function)]


def _takes(target: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(target).bind(*[None] * count)
    except (TypeError, ValueError):
        return False
    return True


def bind(
    target: Callable[..., Any],
    count: int,
    usage: str,
    step: Step,
    keywords: Iterable[str] = (),
    yields: bool = False,
) -> None:
    """Raise an error if `target` does not accept `count` arguments and `keywords`. Unknown signatures are accepted.

    Errors quote `usage`, the way the target is called. A generator function is refused unless `yields` is true,
    because its body would never run.
    """
    if not yields and is_generator(target):
        name = getattr(target, "__name__", type(target).__name__)
        instead = "collector.emit([...])" if "collector" in usage else "return"
        raise step.error(TopologyError, f"{name} yields values that are never read: write {instead}; {usage}")
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # a builtin without a signature
        return
    try:
        signature.bind(*[None] * count, **dict.fromkeys(keywords))
    except TypeError:
        name = getattr(target, "__name__", type(target).__name__)
        parameters = signature.replace(return_annotation=signature.empty)
        raise step.error(TopologyError, f"{name}{parameters} takes the wrong arguments: {usage}") from None
