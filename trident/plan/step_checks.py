"""Checks of the fields and types of a step, made when the step is written.

Each rule takes schemas and the step. It returns the values that the step may use, or raises an error that names the
step.
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import types as spark

from trident.base.errors import DuplicateFieldError, FieldNotFoundError, TopologyError, TypeDeclarationError
from trident.base.names import FieldsLike, did_you_mean, field_names
from trident.base.spark_types import ddl, schema_of, select, type_ddl
from trident.base.verb_call import Step
from trident.plan.nodes import Node, RequestSource, walk


def known_fields(schema: spark.StructType, fields: FieldsLike, step: Step, where: str = "") -> tuple[str, ...]:
    """Return the names in a field argument. Raises an error for a name that `schema` lacks or that occurs twice."""
    try:
        names = field_names(fields)
    except TopologyError as error:
        raise step.wrong(str(error)) from None
    for at, name in enumerate(names):
        if name not in schema.names:
            near = _alias_hint(name, schema.names) or did_you_mean(name, schema.names)
            raise step.error(FieldNotFoundError, f"no field {name!r}{where}; the fields are ({ddl(schema)}){near}")
        if name in names[:at]:
            raise step.error(DuplicateFieldError, f"field {name!r}{where} is named twice")
    return names


def _alias_hint(name: str, known: Sequence[str]) -> str:
    """Return a hint for a name with SQL's alias of an existing field, "n as m"; "" for another name."""
    words = name.split()
    if len(words) != 3 or words[1].lower() != "as" or words[0] not in known:
        return ""
    return f"; a field gets another name before, by rename({words[0]!r}, {words[2]!r})"


def chosen(schema: spark.StructType, names: Sequence[str], step: Step) -> spark.StructType:
    """Return the fields in `names`. Raises TopologyError if `names` is empty."""
    if not names:
        raise step.wrong(f"name at least one field; the fields are ({ddl(schema)})")
    return select(schema, names)


def check_comparable(keys: spark.StructType, step: Step) -> None:
    """Raise an error for fields that cannot be compared: Spark groups by all types but maps."""
    for field in keys.fields:
        if "map<" in type_ddl(field.dataType):
            raise step.error(
                TypeDeclarationError, f"field {field.name!r} is {type_ddl(field.dataType)}: maps cannot be compared"
            )


def appended(
    schema: spark.StructType,
    outputs: spark.StructType,
    step: Step,
    of: str = "the stream",
    replace: bool | None = None,
) -> spark.StructType:
    """Return the fields of `schema`, followed by the fields of `outputs`.

    If `replace` is true, an output replaces the field with the same name; otherwise such an output raises
    DuplicateFieldError. The error proposes ``replace=True``, unless `replace` is None because the verb cannot replace
    fields.
    """
    taken = {name.lower(): name for name in schema.names}
    for name in outputs.names:
        field = taken.get(name.lower())
        if field is None or (replace and field == name):
            continue
        alike = "" if field == name else f" (as {field!r}, which Spark considers the same name)"
        own_name = "" if field == name else f" and the name {field!r}"
        way_out = "" if replace is None else f", or replace the field: give replace=True{own_name}"
        raise step.error(
            DuplicateFieldError,
            f"output field {name!r} is already a field of {of}{alike}: ({ddl(schema)}); give it another name{way_out}",
        )
    new = {output.name: output for output in outputs.fields}
    fields = [new.pop(field.name, field) for field in schema.fields]
    return schema_of([*fields, *new.values()])


def members(schema: spark.StructType, names: Sequence[str], types: spark.StructType, step: Step) -> spark.StructType:
    """Return the fields of `types` under their names in `schema`, or the last part of them: ``price`` of ``bid.price``.

    Raises DuplicateFieldError if two of them have the same last part.
    """
    try:
        last = [name if name in schema.names else name.rpartition(".")[2] for name in names]
        pairs = zip(last, types.fields, strict=True)
        return schema_of(spark.StructField(name, field.dataType) for name, field in pairs)
    except DuplicateFieldError as error:
        hint = "; give them names with map, as in map({'id': col('bid.id')})"
        raise step.error(DuplicateFieldError, f"{error}{hint}") from None


def renamed(schema: spark.StructType, renames: Mapping[str, str], step: Step) -> spark.StructType:
    """Return the schema with some fields renamed. `renames` maps old names to new ones."""
    known_fields(schema, list(renames), step)
    names = [renames.get(name, name) for name in schema.names]
    taken: set[str] = set()
    for name in names:
        if name.lower() in taken:
            raise step.error(
                DuplicateFieldError,
                f"two fields would be called {name!r} (Spark ignores case): ({', '.join(names)}) "
                f"in place of ({ddl(schema)}); give them different names",
            )
        taken.add(name.lower())
    return under_names(schema, names)


def under_names(schema: spark.StructType, names: Sequence[str]) -> spark.StructType:
    """Return the fields of `schema` with other names, by position."""
    pairs = zip(schema.fields, names, strict=True)
    return schema_of(spark.StructField(name, field.dataType, field.nullable) for field, name in pairs)


def check_query_keys(inputs: spark.StructType, keys: spark.StructType, state: str, step: Step) -> None:
    """Raise an error unless a query's input fields equal the state's key fields in number and types."""
    if types_of(inputs) != types_of(keys):
        accepted = f"its key is ({ddl(keys)})" if keys.fields else "it has no key fields, one value for all"
        raise step.error(
            TypeDeclarationError if len(inputs.fields) == len(keys.fields) else TopologyError,
            f"state {state!r} cannot be queried by ({ddl(inputs)}): {accepted}",
        )


def check_range_keys(inputs: spark.StructType, keys: spark.StructType, state: str, step: Step) -> None:
    """Raise an error unless a query's input fields are the first key fields of the state, the last one twice."""
    equal = len(inputs.fields) - 2
    expected = [*keys.fields[: equal + 1], *keys.fields[max(equal, 0) : equal + 1]]
    if equal < 0 or len(expected) != len(inputs.fields):
        raise step.error(
            TopologyError,
            f"state {state!r} cannot be queried by ({ddl(inputs)}): RangeGet takes values of its first key fields, "
            f"then the low and the high end of the next one (null: no end); its key is ({ddl(keys)})",
        )
    if types_of(inputs) != types_of(spark.StructType(expected)):
        raise step.error(
            TypeDeclarationError,
            f"state {state!r} cannot be queried by ({ddl(inputs)}): these fields must have the types of "
            f"({ddl(spark.StructType(expected))})",
        )
    for field in keys.fields:
        if isinstance(field.dataType, spark.ArrayType | spark.StructType):
            raise step.error(
                TypeDeclarationError,
                f"state {state!r} has no ranges, because values of its key field {field.name!r} have no order "
                f"({type_ddl(field.dataType)}); read all entries with TupleCollectionGet()",
            )


def is_request(node: Node) -> bool:
    """Return whether the tuples of a node come from DRPC requests, not from batches."""
    return any(isinstance(below, RequestSource) for below in walk(node))


def types_of(schema: spark.StructType) -> list[str]:
    """Return the types of the fields, as a user would write them."""
    return [type_ddl(field.dataType) for field in schema.fields]
