"""Reads a verb's arguments: ``verb([inputFields,] operation, outputFields)``, all of them also by keyword."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql.types import StructType

from trident.base.callsite import CallSite, site_of
from trident.base.errors import TopologyError
from trident.base.names import FieldsLike, brief
from trident.base.step import Step
from trident.operations.builtin_aggregators import called_like
from trident.operations.builtin_functions import Expression
from trident.operations.output_fields import OutputsLike


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a verb was given. `inputs` None: no input fields were named; `outputs` None: no output fields."""

    inputs: FieldsLike | None
    operation: Any
    outputs: OutputsLike | None
    step: Step


def read_arguments(
    step: Step,
    usage: str,
    args: Sequence[object],
    operations: Mapping[str, object],
    inputFields: FieldsLike | None = None,
    outputFields: OutputsLike | None = None,
) -> Arguments:
    """Sort positional arguments by what they are: the operation is the first that is no field.

    `operations` are the keywords under which the operation may come, with what came; `usage` is shown in errors.
    """
    given = [(name, value) for name, value in operations.items() if value is not None]
    before, rest = _leading_fields(args)
    if not given and rest:
        given, rest = [("", rest[0])], rest[1:]
    elif given and not rest and len(before) > 1:
        before, rest = before[:1], before[1:]
    more = [value for value in rest if not is_fields(value)]
    if len(given) != 1 or more:
        listed = " and ".join(brief(value) for value in [*(value for _, value in given), *more])
        what = f"it takes one operation, not {listed}" if listed else "the operation is missing"
        hint = _unquoted(before[1:], usage) if not listed else ""
        if hint:
            what = f"{before[1]!r} is a string, and the operation is a function or object: {hint}"
        raise step.error(TopologyError, f"{what}; write {usage}")
    operation = given[0][1]
    step = step.with_function(operation_site(operation))
    inputs = _one("inputFields", before, inputFields, step, usage)
    outputs = _one("outputFields", rest, outputFields, step, usage)
    if isinstance(inputs, StructType):
        raise step.error(TopologyError, f"inputFields are names, not a StructType; write {usage}")
    return Arguments(inputs, operation, outputs, step)


def check_replace(replace: object, step: Step, usage: str) -> None:
    """Refuse an argument `replace` that is neither True nor False, such as a field's name."""
    if not isinstance(replace, bool):
        raise step.error(TopologyError, f"replace is True or False, not {brief(replace)}; write {usage}")


def _unquoted(given: Sequence[object], usage: str) -> str:
    """What may have been meant by the first of these, which stands where the operation should; nothing where it does
    not look like one."""
    text = given[0] if given else None
    if not isinstance(text, str):
        return ""
    known = called_like(text) if "aggregator" in usage else None
    if known is not None:
        return f"give {known}"
    if text.isidentifier():
        return "give it without quotes"
    return f"an expression is expr({text!r})" if len(given) > 1 or "(" in text else ""


def is_fields(value: object) -> bool:
    """Whether a positional argument names fields."""
    if isinstance(value, str | StructType):
        return True
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


def operation_site(operation: object) -> CallSite:
    """What an operation is called in a step's label, and where it stands."""
    if isinstance(operation, Expression):
        return CallSite("expr")
    if isinstance(operation, Column):
        return CallSite("Column")
    return site_of(operation)


def _leading_fields(args: Sequence[object]) -> tuple[list[Any], list[Any]]:
    count = next((at for at, value in enumerate(args) if not is_fields(value)), len(args))
    return list(args[:count]), list(args[count:])


def _one(name: str, positional: list[Any], keyword: Any, step: Step, usage: str) -> Any:
    """The one value of an argument that may come by position or by keyword."""
    values = positional + ([] if keyword is None else [keyword])
    if len(values) > 1:
        listed = " and ".join(map(repr, values))
        hint = "fields go into one argument, such as 'a, b'; " if len(positional) > 1 else ""
        raise step.error(TopologyError, f"{name} given {len(values)} times, {listed}; {hint}write {usage}")
    return values[0] if values else None
