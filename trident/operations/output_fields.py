"""Functions that determine output fields and their types: from the declaration, ``outputType`` or annotations."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import types as spark

from trident.base.ddl import Reader
from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.names import FieldsLike, split_top
from trident.base.short_texts import brief
from trident.base.spark_types import ddl, parse_schema, parse_type, schema_of, type_ddl
from trident.base.verb_call import Step
from trident.operations.annotations import Returns
from trident.operations.functions import Call, Declared, Operation

OutputsLike = FieldsLike | spark.StructType
"""Output fields as a user writes them: ``"word"``, ``"word string, n long"``, ``["word", "n"]``, a StructType."""


def read_outputs(outputs: OutputsLike, step: Step) -> Declared:
    """Read output fields as the user wrote them. Fields without a type are accepted and marked."""
    if isinstance(outputs, spark.StructType):
        return Declared(_schema(outputs.fields, step), (True,) * len(outputs.fields))
    if isinstance(outputs, str):
        fields = [_read_field(piece, step) for piece in split_top(outputs)]
    elif isinstance(outputs, Sequence) and all(isinstance(name, str) and name for name in outputs):
        fields = [(spark.StructField(name, spark.NullType()), False) for name in outputs]
    else:
        raise step.error(
            TopologyError,
            "expected outputFields as a string such as 'word string', a list of names or a StructType, not "
            f"{brief(outputs)}",
        )
    return Declared(_schema([field for field, _ in fields], step), tuple(typed for _, typed in fields))


def value_fields(name: str, fields: object) -> spark.StructType:
    """Return the argument `fields` of the function `name`, DDL or a StructType, as a StructType.

    Raises TopologyError for anything else, or TypeDeclarationError for a type that does not exist.
    """
    if isinstance(fields, str):
        fields = parse_schema(fields)
    if not isinstance(fields, spark.StructType) or not fields.fields:
        raise TopologyError(
            f"{name}: fields={brief(fields)}: expected fields with their types, such as 'user bigint, item string'"
        )
    return schema_of(fields.fields)


def own_fields(target: object) -> str | spark.StructType | None:
    """Return the output fields that an operation declares in ``outputFields``; None if it declares none."""
    if isinstance(target, Column):  # the object has attributes of any name
        return None
    own = getattr(target, "outputFields", None)
    return own if isinstance(own, str | spark.StructType) else None


def _read_field(piece: str, step: Step) -> tuple[spark.StructField, bool]:
    """Read one output field. Return it, and whether it was written with a type."""
    try:
        reader = Reader(piece)
        name = reader.next("a field name", "word", "name")
        if reader.ended:
            return spark.StructField(name, spark.NullType()), False
        reader.at = 0
        field = reader.field()
        reader.check_end()
    except TypeDeclarationError as error:
        raise step.error(TypeDeclarationError, str(error)) from None
    return field, True


def _schema(fields: Sequence[spark.StructField], step: Step) -> spark.StructType:
    try:
        schema = schema_of(fields)
    except TopologyError as error:
        raise step.error(type(error), f"output {error}") from None
    if not schema.fields:
        raise step.error(TopologyError, "outputFields is empty: name at least one field")
    return schema


def resolve(declared: Declared, operation: Operation, returns: Returns, step: Step) -> spark.StructType:
    """Return the output fields with types: declared, from ``outputType``, or from annotations, in this order."""
    schema = declared.schema
    _check_result(declared, operation, returns, step)
    if all(declared.typed):
        return schema
    types = own_types(operation.target, len(schema.names), step) or returns.types(len(schema.names))
    if types is None:
        raise step.error(TypeDeclarationError, _missing_type(declared, operation, returns))
    return _with_types(declared, types)


def keep_names(schema: spark.StructType, operation: Operation, returns: Returns, step: Step) -> spark.StructType:
    """Return the output fields of a map without declared ones: the input fields, with the map's types if known."""
    if operation.call.native:
        raise step.error(TypeDeclarationError, "declare its result with a type: outputFields='name type'")
    declared = Declared(schema, (False,) * len(schema.names))
    _check_result(declared, operation, returns, step)
    types = own_types(operation.target, len(schema.names), step) or returns.types(len(schema.names))
    return schema if types is None else _with_types(declared, types)


def emitted(target: Any, outputs: OutputsLike, step: Step, holder: str) -> spark.StructType:
    """Return the fields that `target` emits through its collector. Errors call the object by `holder`."""
    return typed_outputs(target, read_outputs(outputs, step), step, holder)


def typed_outputs(target: Any, declared: Declared, step: Step, holder: str) -> spark.StructType:
    """Return the output fields with types: declared, otherwise from the ``outputType`` of `target`."""
    if all(declared.typed):
        return declared.schema
    types = own_types(target, len(declared.schema.names), step)
    if types is None:
        if (typed_text := _typed_text(declared)) is not None:
            raise step.error(TypeDeclarationError, typed_text)
        first = next(f.name for f, typed in zip(declared.schema.fields, declared.typed, strict=True) if not typed)
        raise step.error(
            TypeDeclarationError,
            f"the type of output field {first!r} is not declared: write it with the field, such as '{first} string', "
            f"or give the {holder} an attribute outputType",
        )
    return _with_types(declared, types)


def _with_types(declared: Declared, types: Sequence[spark.DataType]) -> spark.StructType:
    fields = zip(declared.schema.fields, declared.typed, types, strict=True)
    return schema_of(field if typed else spark.StructField(field.name, kind) for field, typed, kind in fields)


def own_types(target: Any, count: int, step: Step) -> tuple[spark.DataType, ...] | None:
    """Return the types that an operation declares itself: its ``outputType``, or a udf's return type."""
    written = None if isinstance(target, Column) else getattr(target, "outputType", None)
    if written is None:
        kind = getattr(target, "returnType", None)
        return (kind,) if isinstance(kind, spark.DataType) and count == 1 else None
    try:
        types = _types_in(written)
    except TypeDeclarationError as error:
        raise step.error(TypeDeclarationError, f"in its outputType: {error}") from None
    if len(types) != count:
        raise step.error(
            TypeDeclarationError, f"its outputType {written!r} has {len(types)} types for {count} output fields"
        )
    return types


def _types_in(written: object) -> tuple[spark.DataType, ...]:
    if isinstance(written, spark.StructType):
        return tuple(field.dataType for field in written.fields)
    if isinstance(written, spark.DataType):
        return (written,)
    if isinstance(written, str):
        return tuple(parse_type(piece) for piece in split_top(written))
    raise TypeDeclarationError(f"{written!r} is not a type; write DDL such as 'long', or a DataType")


def _check_result(declared: Declared, operation: Operation, returns: Returns, step: Step) -> None:
    """Refuse an annotation that contradicts the output fields, or that is a list if many tuples are expected."""
    schema, count = declared.schema, len(declared.schema.names)
    if operation.call.native or operation.call is Call.FUNCTION:
        return
    if returns.nothing:
        raise step.error(TypeDeclarationError, f"it is annotated to return None, not ({', '.join(schema.names)})")
    if returns.arity is not None and returns.arity != count and not (returns.eager and count > 1):
        raise step.error(
            TypeDeclarationError,
            f"it is annotated to return {returns.arity} value{'' if returns.arity == 1 else 's'} ({shown(returns)}) "
            f"for "
            f"{count} output field{'s' if count > 1 else ''} ({', '.join(schema.names)})",
        )
    if returns.pandas == "Series" and count > 1:
        listed = ", ".join(schema.names)
        problem = f"it is annotated to return a Series for {count} output fields ({listed})"
        raise step.error(TypeDeclarationError, f"{problem}: return a DataFrame with these columns")
    if returns.eager:
        _check_list(declared, returns, step)


def _check_list(declared: Declared, returns: Returns, step: Step) -> None:
    """Refuse an operation that returns a list, unless the list is its one value."""
    schema, count = declared.schema, len(declared.schema.names)
    kind = schema.fields[0].dataType
    if count > 1 or (declared.typed[0] and not isinstance(kind, spark.ArrayType)):
        expected = f"{count} fields" if count > 1 else type_ddl(kind)
        raise step.error(
            TypeDeclarationError,
            f"it is annotated to return a whole {shown(returns)}, but the output is {expected}; to emit many tuples "
            f"yield them or use flatMap, to return one list declare an array type",
        )


def _missing_type(declared: Declared, operation: Operation, returns: Returns) -> str:
    """Return the message for output fields without a type, including the ways to declare one."""
    untyped = [field.name for field, typed in zip(declared.schema.fields, declared.typed, strict=True) if not typed]
    example = ", ".join(
        ddl(spark.StructType([field])) if typed else f"{field.name} string"
        for field, typed in zip(declared.schema.fields, declared.typed, strict=True)
    )
    fields = f"the type of output field{'s' if len(untyped) > 1 else ''} {', '.join(map(repr, untyped))}"
    if (typed_text := _typed_text(declared)) is not None:
        return f"{fields} is not declared: {typed_text}"
    write = f"write it with the field, such as {example!r}"
    if operation.call.native:
        return f"{fields} is known only to Spark, which is not used while a topology is built: {write}"
    if operation.call is Call.FUNCTION:
        return f"{fields} is not declared: {write}, or give the Function an attribute outputType"
    if operation.call.pandas:
        return f"{fields} is not declared, and a pandas type does not determine it: {write}"
    why = f" (its annotation cannot be used: {returns.problem})" if returns.problem else ""
    if not why and returns.known:
        why = f" (its annotation {shown(returns)} is not a type)"
    many = "Iterator[str]" if operation.many else "str" if len(declared.typed) == 1 else "tuple[str, int]"
    return f"{fields} is not declared{why}: {write}, or annotate its return type, such as -> {many}"


def _typed_text(declared: Declared) -> str | None:
    """Return a hint for a list of names in which one looks like a field with its type; None if none does.

    A name may contain spaces, so ``["m long"]`` names a field 'm long'.
    """
    for field, typed in zip(declared.schema.fields, declared.typed, strict=True):
        if not typed and " " in field.name and _is_typed(field.name):
            names = ", ".join(declared.schema.names)
            return f"a list contains only names, such as {field.name!r}; write fields with types as one text, {names!r}"
    return None


def _is_typed(text: str) -> bool:
    try:
        parse_schema(text)
    except TopologyError:
        return False
    return True


def shown(returns: Returns) -> str:
    """Return an annotation as a user writes it."""
    hint = returns.hint
    return hint.__name__ if isinstance(hint, type) and not getattr(hint, "__args__", None) else str(hint)
