"""Parsing of verb arguments: ``verb([inputFields,] operation, outputFields)``, each also by keyword."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column
from pyspark.sql.types import StructType

from trident import functions
from trident.base.callsite import CallSite, site_of
from trident.base.errors import TopologyError
from trident.base.names import FieldsLike, brief, check_name
from trident.base.verb_call import Step
from trident.expressions.tree import ColumnExpression
from trident.operations.aggregates.registry import called_like
from trident.operations.bound_expressions import brief_text
from trident.operations.expressions import Expression
from trident.operations.output_fields import OutputsLike, own_fields

_EXPRESSION = re.compile(r"[<>=!()]|\b(?:is|in|like|between|and|or|not)\b", re.IGNORECASE)
"""A pattern that matches SQL expressions and no lists of fields."""
_COMPARED = re.compile(r"\s*([A-Za-z_]\w*)\s*(=|==|!=|<>|<=|>=|<|>)\s*(-?\d+(?:\.\d+)?|'[^'\\]*'|\"[^\"\\]*\")\s*")
_SIGNS = {"=": "==", "<>": "!="}
_CALLED = re.compile(r"\s*([A-Za-z_]\w*)\(\s*([A-Za-z_]\w*)\s*\)\s*")
_NULL = re.compile(r"\s*([A-Za-z_]\w*)\s+is\s+(not\s+)?null\s*", re.IGNORECASE)
_OTHER = "write an expression with col(...), such as col('n') > 0; expr({text!r}) runs on Spark only"


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a verb's call.

    `inputs` is None if the call names no input fields, `outputs` if no output fields.
    """

    inputs: FieldsLike | None
    operation: Any
    outputs: OutputsLike | None
    step: Step


def _why_not_one(candidates: Sequence[object], before: Sequence[object], usage: str) -> str:
    """Return the problem with a call that has no operation, or several. `before` are the fields before it."""
    if candidates:
        return f"expected one operation, not {' and '.join(map(brief, candidates))}"
    texts = before[1:] or [text for text in before if "filter" in usage and _EXPRESSION.search(str(text))]
    hint = _operation_meant(texts, usage)
    if hint:
        return f"{texts[0]!r} is a string, but the operation must be a function or object: {hint}"
    return "the operation is missing"


def read_arguments(
    step: Step,
    usage: str,
    args: Sequence[object],
    operations: Mapping[str, object],
    inputFields: FieldsLike | None = None,
    outputFields: OutputsLike | None = None,
) -> Arguments:
    """Return the arguments of a verb's call. The first positional argument that does not name fields is the operation.

    `operations` maps each keyword that can hold the operation to its value in the call. Errors quote `usage`.
    Raises TopologyError if the call does not have exactly one operation, or has input or output fields twice.
    """
    candidates = [value for value in operations.values() if value is not None]
    before, rest = _leading_fields(args)
    if not candidates and rest:
        candidates, rest = [rest[0]], rest[1:]
    elif candidates and not rest and len(before) > 1:
        before, rest = before[:1], before[1:]
    candidates += [value for value in rest if not is_fields(value)]
    if len(candidates) != 1:
        raise step.wrong(f"{_why_not_one(candidates, before, usage)}; write {usage}")
    (operation,) = candidates
    step = step.with_function(operation_site(operation))
    inputs = _one("inputFields", before, inputFields, step, usage)
    outputs = _one("outputFields", rest, outputFields, step, usage)
    if outputs is None:
        outputs = own_fields(operation)
    if isinstance(inputs, StructType):
        raise step.wrong(f"inputFields takes names, not a StructType; write {usage}")
    return Arguments(inputs, operation, outputs, step)


def several(call: Arguments) -> list[Arguments]:
    """Split a call with several aggregators into one call for each aggregator, each with separate fields.

    The aggregators come as a mapping from output fields: ``{"n": Count(), "total": Sum("price")}``. A pair of input
    fields and an aggregator is accepted, too: ``{"longest string": ("word", Longest())}``. Raises TopologyError if the
    mapping is empty, or if the call names input or output fields as well.
    """
    beside = {"inputFields": call.inputs, "outputFields": call.outputs}
    for name, fields in beside.items():
        if fields is not None:
            problem = f"{name} {fields!r} cannot be combined with several aggregators, each of which has its own fields"
            raise call.step.wrong(f"{problem}; write {_SEVERAL}")
    if not call.operation:
        raise call.step.wrong(f"the mapping of aggregators is empty; write {_SEVERAL}")
    calls = []
    for outputs, value in call.operation.items():
        if not isinstance(outputs, str):
            problem = f"{brief(outputs)} is not an output field"
            raise call.step.wrong(f"{problem}; write {_SEVERAL}")
        inputs, operation = _with_inputs(value)
        if is_fields(operation) or isinstance(operation, tuple):
            problem = f"{outputs!r}: {brief(value)} is neither an aggregator nor a pair of input fields and aggregator"
            raise call.step.error(TopologyError, f"{problem}; write {_SEVERAL}")
        step = replace(call.step, label=f"{call.step.label}: {outputs!r}", function=operation_site(operation))
        calls.append(Arguments(inputs, operation, outputs, step))
    return calls


_SEVERAL = "{'n': Count(), 'total': Sum('price'), 'longest string': ('word', Longest())}"


def _with_inputs(value: Any) -> tuple[Any, Any]:
    """Return the input fields (None if there are none) and the aggregator of one value in the mapping."""
    if isinstance(value, tuple) and len(value) == 2 and is_fields(value[0]):
        return value
    return None, value


def check_replace(replace: object, step: Step, usage: str) -> None:
    """Refuse an argument `replace` that is neither True nor False, such as a field's name."""
    if not isinstance(replace, bool):
        raise step.wrong(f"replace={brief(replace)}: expected True or False; write {usage}")


def is_factory(value: object) -> bool:
    """Return whether a value is a state factory, and not the class of one."""
    return all(hasattr(value, name) for name in ("kind", "survives", "open")) and not isinstance(value, type)


def check_factory(factory: object, step: Step, usage: str) -> None:
    """Refuse an argument that is not a state factory, such as ``MemoryMapState.opaque`` without parentheses."""
    if is_factory(factory):
        return
    hint = "call it, " if callable(factory) and not isinstance(factory, type) else ""
    raise step.wrong(
        f"{brief(factory)} is not a state factory: {hint}give MemoryMapState.opaque(), RedisMapState.opaque(url) or "
        f"similar; write {usage}"
    )


def name_of(owner: str, name: object, step: Step, default: str | None = None) -> str:
    """Return `name`, or `default` if it is None. Refuse a name that logs and stores cannot use as an identity."""
    omitted = name is None and default is not None
    try:
        return check_name(owner, default if omitted else name)
    except TopologyError as error:
        raise step.wrong(f"{error}{'; give it a name=' if omitted else ''}") from None


def _operation_meant(values: Sequence[object], usage: str) -> str:
    """Return a hint for `values[0]`, a string in the operation's position; "" if there is none."""
    text = values[0] if values else None
    if not isinstance(text, str):
        return ""
    known = called_like(text) if "aggregator" in usage else None
    if known is not None:
        return f"give {known}"
    if text.isidentifier():
        return "write it without quotes"
    return _expression_meant(text) if len(values) > 1 or _EXPRESSION.search(text) else ""


def _expression_meant(text: str) -> str:
    """Return a hint on how to write the SQL expression `text`, if possible as an expression for both engines."""
    if found := _COMPARED.fullmatch(text):
        name, sign, value = found.groups()
        written = f"col({name!r}) {_SIGNS.get(sign, sign)} {value}"
    elif found := _CALLED.fullmatch(text):
        written = f"F.{found[1].lower()}({found[2]!r})"
        if found[1].lower() not in dir(functions):
            return _OTHER.format(text=text)
    elif found := _NULL.fullmatch(text):
        written = f"col({found[1]!r}).{'isNotNull' if found[2] else 'isNull'}()"
    else:
        return _OTHER.format(text=text)
    return f"write {written}; expr({text!r}) runs on Spark only"


def is_fields(value: object) -> bool:
    """Return whether a positional argument names fields: a string, a list or tuple of strings, or a StructType."""
    if isinstance(value, str | StructType):
        return True
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


def operation_site(operation: object) -> CallSite:
    """Return an operation's name for step labels, with the file and line of its definition."""
    if isinstance(operation, Expression):
        return CallSite("expr")
    if isinstance(operation, ColumnExpression):
        return CallSite(brief_text(operation))
    if isinstance(operation, Column):
        return CallSite("Column")
    if isinstance(operation, Mapping):
        names = [operation_site(_with_inputs(value)[1]).name for value in operation.values()]
        return CallSite(", ".join(names))
    return site_of(operation)


def _leading_fields(args: Sequence[object]) -> tuple[list[Any], list[Any]]:
    count = next((at for at, value in enumerate(args) if not is_fields(value)), len(args))
    return list(args[:count]), list(args[count:])


def _one(name: str, positional: list[Any], keyword: Any, step: Step, usage: str) -> Any:
    """Return the value of an argument given by position or keyword, None if omitted. Refuse both at once."""
    values = positional + ([] if keyword is None else [keyword])
    if len(values) > 1:
        listed = " and ".join(map(repr, values))
        hint = "give the fields in one argument, such as 'a, b'; " if len(positional) > 1 else ""
        raise step.wrong(f"{name}: given {len(values)} times, {listed}; {hint}write {usage}")
    return values[0] if values else None
