"""Expressions as operations of a step, bound to the fields of its stream, in the forms that engines call."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BooleanType, DataType, NullType, StructField, StructType

from trident.base.cached_property import cached_property
from trident.base.callsite import CallSite
from trident.base.errors import FieldNotFoundError, TopologyError, TypeDeclarationError
from trident.base.names import FieldsLike, did_you_mean, field_names
from trident.base.short_texts import brief
from trident.base.spark_types import type_ddl
from trident.base.verb_call import Step
from trident.expressions.binding import Bound, Fields, Unbound, UnknownField, as_kind, bound, inputs_of
from trident.expressions.column_evaluation import columns_of
from trident.expressions.expression_types import Mismatch, common, same
from trident.expressions.sql_text import sql_text
from trident.expressions.tree import ColumnExpression, operand
from trident.expressions.tuple_evaluation import row_function
from trident.operations.column_functions import ColumnFunction
from trident.operations.functions import Call, Operation

_LONGEST = 60


@dataclass(frozen=True)
class Several:
    """Expressions by their output fields: the operation of ``each({"euro": col("price") * 0.9})``."""

    parts: tuple[ColumnExpression, ...]

    def __repr__(self) -> str:
        return ", ".join(map(repr, self.parts))


@dataclass(frozen=True)
class Computed(ColumnFunction):
    """The values of expressions over a tuple's fields. Their text `shown` determines them."""

    parts: tuple[Bound, ...]
    shown: str

    @property
    def outputType(self) -> StructType:
        return StructType([StructField(f"c{at}", part.kind) for at, part in enumerate(self.parts)])

    def __call__(self, *values: Any) -> Any:
        made = tuple(function(values) for function in self._functions)
        return made if len(made) > 1 else made[0]

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        return columns_of(self.parts, inputs, len(inputs[0])) if inputs else None

    def sql(self, inputs: Sequence[str], kinds: Sequence[DataType]) -> list[str]:
        return [sql_text(part, inputs) for part in self.parts]

    @cached_property
    def _functions(self) -> Any:
        return [row_function(part) for part in self.parts]

    def __getstate__(self) -> dict[str, Any]:  # without the functions, which a worker creates itself
        return {"parts": self.parts, "shown": self.shown}


@dataclass(frozen=True)
class Condition(Computed):
    """A condition over a tuple's fields. If it is null, the tuple does not satisfy it."""

    def __call__(self, *values: Any) -> bool:
        (function,) = self._functions
        return function(values) is True

    def columns(self, inputs: Sequence[pa.Array]) -> list[pa.Array] | None:
        made = super().columns(inputs)
        return None if made is None else [made[0].fill_null(False)]


def is_expressions(operation: object) -> bool:
    """Return whether an operation consists of expressions that both engines can compute."""
    return isinstance(operation, ColumnExpression | Several)


def read_mapping(operation: Mapping[Any, Any], fields: Collection[str], step: Step) -> tuple[str, Several]:
    """Return the output fields of a mapping from fields to expressions, as text, and the expressions.

    Raises TopologyError if a name is not a string, or a value not an expression. A string value is refused as
    ambiguous: elsewhere it names one of the `fields`, here it would be a constant.
    """
    if not operation:
        raise step.wrong(f"the mapping names no field; write {_SEVERAL}")
    for name in operation:
        if not isinstance(name, str) or not name:
            raise step.wrong(f"{brief(name)} is not an output field; write {_SEVERAL}")
    for name, value in operation.items():
        if isinstance(value, str):
            raise step.wrong(f"{name!r}: {brief(value)} is a string, and {_of_text(value, fields)}")
    try:
        parts = tuple(map(operand, operation.values()))
    except TopologyError as error:
        raise step.wrong(f"{error}; a mapping gives expressions: {_SEVERAL}") from None
    return ", ".join(operation), Several(parts)


def _of_text(text: str, fields: Collection[str]) -> str:
    """Return advice for a string given instead of an expression."""
    constant = f"lit({brief(text)}) for the string itself"
    if text in fields:
        return f"a field with this name exists: write col({text!r}) for the field, or {constant}"
    known = did_you_mean(text, fields)
    return f"a mapping takes expressions, such as {_SEVERAL}: write col('name') for a field, or {constant}{known}"


_SEVERAL = "{'euro': col('price') * 0.908, 'city': functions.upper('city')}"


def with_members(fields: Sequence[FieldsLike], schema: StructType) -> tuple[str, ...]:
    """Return the names in arguments of `project` if one of them is a field of a struct, otherwise None."""
    try:
        names = tuple(name for argument in fields for name in field_names(argument))
    except TopologyError:  # the check of plain names reports it
        return ()
    structs = {field.name for field in schema.fields if isinstance(field.dataType, StructType)}
    nested = [name for name in names if name not in schema.names and name.partition(".")[0] in structs]
    return names if any("." in name for name in nested) else ()


def brief_text(operation: object) -> str:
    """Return the text of expressions, shortened for a step's name."""
    text = repr(operation)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def bound_operation(
    operation: ColumnExpression | Several, schema: StructType, step: Step, condition: bool = False
) -> tuple[tuple[str, ...], Operation]:
    """Return the fields that expressions read, and the operation that computes them.

    Raises FieldNotFoundError, or TypeDeclarationError if a part does not fit the types of the fields.
    """
    wanted = operation.parts if isinstance(operation, Several) else (operation,)
    try:
        inputs = inputs_of(wanted, schema)
        parts = tuple(bound(part, Fields(schema, inputs)) for part in wanted)
    except UnknownField as error:
        raise step.error(FieldNotFoundError, str(error)) from None
    except Unbound as error:
        raise step.error(TypeDeclarationError, str(error)) from None
    if condition:
        return inputs, _operation(Condition((_boolean(parts[0], step),), repr(operation)), operation, step)
    for part, own in zip(parts, wanted, strict=True):
        if isinstance(part.kind, NullType):
            raise step.error(TypeDeclarationError, f"{own!r} is always null; set its type, as in lit(None).cast('int')")
    return inputs, _operation(Computed(parts, repr(operation)), operation, step)


def _operation(target: Computed, written: object, step: Step) -> Operation:
    """Return the operation of expressions, located at the verb's call: an expression has no line itself."""
    return Operation(target, CallSite(brief_text(written), step.called.file, step.called.line), Call.VALUES)


def _boolean(part: Bound, step: Step) -> Bound:
    if not isinstance(part.kind, BooleanType | NullType):
        hint = "a filter is a condition, such as col('n') > 3; to add a field, name it"
        raise step.error(TypeDeclarationError, f"expected a condition, but it is {type_ddl(part.kind)}; {hint}")
    return as_kind(part, BooleanType())


def with_types(operation: Operation, outputs: StructType, step: Step) -> Operation:
    """Return expressions converted to the declared types of their output fields.

    Raises TypeDeclarationError for a type that does not hold all values of its expression.
    """
    target: Computed = operation.target
    parts = [_declared(part, field, step) for part, field in zip(target.parts, outputs.fields, strict=True)]
    return replace(operation, target=replace(target, parts=tuple(parts)))


def _declared(part: Bound, field: StructField, step: Step) -> Bound:
    if not field.nullable:
        problem = f"field {field.name!r} is declared NOT NULL, but its expression may be null"
        raise step.error(TypeDeclarationError, f"{problem}; declare it without NOT NULL")
    try:
        fits = same(common(part.kind, field.dataType), field.dataType)
    except Mismatch:
        fits = False
    if not fits:
        declared, given = type_ddl(field.dataType), type_ddl(part.kind)
        problem = f"field {field.name!r} is declared as {declared}, but its expression is {given}"
        raise step.error(TypeDeclarationError, f"{problem}; write .cast({declared!r}), or remove the type")
    return as_kind(part, field.dataType)
