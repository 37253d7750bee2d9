"""What fits what: fields, types and sources of a step, checked where the step is written.

Each rule takes schemas and the step, and gives the schema that leaves the step or an error that names it.
"""

from collections.abc import Sequence

from pyspark.sql import types as spark

from trident.base.errors import DuplicateFieldError, FieldNotFoundError, TopologyError, TypeDeclarationError
from trident.base.names import FieldsLike, did_you_mean, field_names
from trident.base.step import Step
from trident.base.types import ddl, schema_of, select, type_ddl
from trident.operations.outputs import OutputsLike, read_outputs
from trident.plan.nodes import Node, RequestSource, SpoutSource, walk


def known_fields(schema: spark.StructType, fields: FieldsLike, step: Step, where: str = "") -> tuple[str, ...]:
    """The names in a field argument, all of them fields of the stream, none twice."""
    try:
        names = field_names(fields)
    except TopologyError as error:
        raise step.error(TopologyError, str(error)) from None
    for at, name in enumerate(names):
        if name not in schema.names:
            near = did_you_mean(name, schema.names)
            raise step.error(FieldNotFoundError, f"no field {name!r}{where}; the fields are ({ddl(schema)}){near}")
        if name in names[:at]:
            raise step.error(DuplicateFieldError, f"field {name!r}{where} is named twice")
    return names


def chosen(schema: spark.StructType, names: Sequence[str], step: Step) -> spark.StructType:
    """These fields, at least one."""
    if not names:
        raise step.error(TopologyError, f"name at least one field; the fields are ({ddl(schema)})")
    return select(schema, names)


def group_keys(keys: spark.StructType, step: Step) -> None:
    """Refuse fields that cannot be compared: Spark groups by everything but maps."""
    for field in keys.fields:
        if "map<" in type_ddl(field.dataType):
            raise step.error(
                TypeDeclarationError, f"field {field.name!r} is {type_ddl(field.dataType)}: maps cannot be compared"
            )


def appended(
    schema: spark.StructType, outputs: spark.StructType, step: Step, of: str = "the stream"
) -> spark.StructType:
    """The fields with the outputs behind them."""
    taken = {name.lower(): name for name in schema.names}
    for name in outputs.names:
        if name.lower() in taken:
            there = taken[name.lower()]
            alike = "" if there == name else f" (as {there!r}, the same to Spark)"
            raise step.error(
                DuplicateFieldError,
                f"output field {name!r} is a field of {of} already{alike}: ({ddl(schema)}); give it another name",
            )
    return schema_of([*schema.fields, *outputs.fields])


def renamed(schema: spark.StructType, outputs: OutputsLike | None, step: Step) -> spark.StructType:
    """The same types under other names, by position. Types may be written again, to be checked."""
    if outputs is None:
        return schema
    declared = read_outputs(outputs, step)
    names = declared.schema.names
    if len(names) != len(schema.fields):
        raise step.error(
            TopologyError,
            f"outputFields names {len(names)} fields ({', '.join(names)}) for {len(schema.fields)}: ({ddl(schema)})",
        )
    for given, typed, field in zip(declared.schema.fields, declared.typed, schema.fields, strict=True):
        if typed and given.dataType != field.dataType:
            raise step.error(
                TypeDeclarationError,
                f"field {given.name!r} is {type_ddl(field.dataType)}, not {type_ddl(given.dataType)}: no cast here",
            )
    return schema_of(_as(field, name) for field, name in zip(schema.fields, names, strict=True))


def merged(schemas: Sequence[spark.StructType], outputs: OutputsLike | None, step: Step) -> spark.StructType:
    """The fields of a merge: by position, under the first stream's names unless others are given."""
    first = schemas[0]
    for at, other in enumerate(schemas[1:], 2):
        mine, theirs = _types(first), _types(other)
        if mine != theirs:
            why = "other types" if len(theirs) == len(mine) else f"{len(theirs)} field{'s' if len(theirs) > 1 else ''}"
            raise step.error(
                TypeDeclarationError,
                f"stream {at} has {why}: ({ddl(other)}) where stream 1 has ({ddl(first)}); "
                "a merge goes by position, so bring them to the same types with project or expr('cast(...)')",
            )
    fields = [
        spark.StructField(field.name, field.dataType, any(schema.fields[at].nullable for schema in schemas))
        for at, field in enumerate(first.fields)
    ]
    return renamed(schema_of(fields), outputs, step)


def join_keys(schemas: Sequence[spark.StructType], keys: object, step: Step) -> tuple[tuple[str, ...], ...]:
    """The key fields of every stream of a join; one text stands for all streams."""
    if isinstance(keys, str):
        given: Sequence[FieldsLike] = [keys] * len(schemas)
    elif isinstance(keys, Sequence) and len(keys) == len(schemas):
        given = keys
    else:
        raise step.error(
            TopologyError,
            f"a join of {len(schemas)} streams needs the key fields of each, [keys1, keys2], not {keys!r}",
        )
    found = tuple(
        known_fields(schema, names, step, f" in stream {at}")
        for at, (schema, names) in enumerate(zip(schemas, given, strict=True), 1)
    )
    kinds = [_types(chosen(schema, names, step)) for schema, names in zip(schemas, found, strict=True)]
    for names, types in zip(found[1:], kinds[1:], strict=True):
        if len(names) != len(found[0]):
            raise step.error(
                TopologyError, f"the streams have {len(found[0])} and {len(names)} keys: {found[0]} and {names}"
            )
        if types != kinds[0]:
            raise step.error(
                TypeDeclarationError,
                f"the keys have other types: {_typed(found[0], kinds[0])} and {_typed(names, types)}; "
                "bring them to one type with expr('cast(...)')",
            )
    return found


def joined(
    schemas: Sequence[spark.StructType], keys: Sequence[tuple[str, ...]], outputs: OutputsLike | None, step: Step
) -> spark.StructType:
    """The fields of a join: the first stream's keys, then every stream's other fields."""
    fields = list(select(schemas[0], keys[0]).fields)
    for schema, own in zip(schemas, keys, strict=True):
        fields += [field for field in schema.fields if field.name not in own]
    if outputs is None:
        return _unique(fields, step, "; name the fields with outputFields")
    return renamed(spark.StructType(fields), outputs, step)


def one_batch(nodes: Sequence[Node], step: Step) -> None:
    """Streams that meet in one batch: all from spouts, or all from the requests of one DRPC function."""
    below = walk(*nodes)
    requests = {node.function: node for node in below if isinstance(node, RequestSource)}
    spouts = [node.stream for node in below if isinstance(node, SpoutSource)]
    if len(requests) > 1:
        raise step.error(TopologyError, f"the requests of two DRPC functions never meet: {', '.join(sorted(requests))}")
    if requests and spouts:
        raise step.error(
            TopologyError,
            f"the requests of DRPC function {next(iter(requests))!r} do not meet the batches of {', '.join(spouts)}: "
            "a request reads what batches left behind by stateQuery",
        )


def query_keys(inputs: spark.StructType, keys: spark.StructType, state: str, step: Step) -> None:
    """The fields that a query looks up: as many as the state has keys, of the same types."""
    if _types(inputs) != _types(keys):
        wanted = f"its key is ({ddl(keys)})" if keys.fields else "it has no key fields, one value for all"
        raise step.error(
            TypeDeclarationError if len(inputs.fields) == len(keys.fields) else TopologyError,
            f"state {state!r} cannot be asked by ({ddl(inputs)}): {wanted}",
        )


def is_request(node: Node) -> bool:
    """Whether DRPC requests, not batches, flow here."""
    return any(isinstance(below, RequestSource) for below in walk(node))


def _types(schema: spark.StructType) -> list[str]:
    return [type_ddl(field.dataType) for field in schema.fields]


def _typed(names: Sequence[str], types: Sequence[str]) -> str:
    return f"({', '.join(f'{name} {kind}' for name, kind in zip(names, types, strict=True))})"


def _as(field: spark.StructField, name: str) -> spark.StructField:
    return spark.StructField(name, field.dataType, field.nullable)


def _unique(fields: Sequence[spark.StructField], step: Step, hint: str = "") -> spark.StructType:
    try:
        return schema_of(fields)
    except DuplicateFieldError as error:
        raise step.error(DuplicateFieldError, f"{error}{hint}") from None
