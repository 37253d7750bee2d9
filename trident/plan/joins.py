"""What fits where streams meet in one batch: the types of a merge, the keys and fields of a join."""

from collections.abc import Sequence

from pyspark.sql import types as spark

from trident.base.errors import DuplicateFieldError, TopologyError, TypeDeclarationError
from trident.base.names import FieldsLike
from trident.base.step import Step
from trident.base.types import ddl, schema_of, select, type_ddl
from trident.operations.output_fields import OutputsLike, read_outputs
from trident.plan.nodes import Join, Node, RequestSource, SpoutSource, walk
from trident.plan.rules import appended, chosen, group_keys, known_fields, types_of

Origin = tuple[int, str]
"""A field of a source: the source's place, the field's name."""


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
    pairs = zip(schema.fields, names, strict=True)
    return schema_of(spark.StructField(name, field.dataType, field.nullable) for field, name in pairs)


# --- merge -------------------------------------------------------------------------------------------------------


def merged(
    schemas: Sequence[spark.StructType], outputs: OutputsLike | None, sourceField: object, step: Step
) -> spark.StructType:
    """The fields of a merge: by position, under the first stream's names unless others are given; then the name of the
    stream that a tuple comes from, where a field is asked for that."""
    first = schemas[0]
    for at, other in enumerate(schemas[1:], 2):
        mine, theirs = types_of(first), types_of(other)
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
    schema = renamed(schema_of(fields), outputs, step)
    if sourceField is None:
        return schema
    if not isinstance(sourceField, str) or not sourceField:
        raise step.error(
            TopologyError, f"sourceField is the name of one more field, such as 'source', not {sourceField!r}"
        )
    source = spark.StructField(sourceField, spark.StringType(), nullable=False)
    return appended(schema, spark.StructType([source]), step, of="the merge")


# --- keys by which streams meet ------------------------------------------------------------------------------------


def for_each(given: object, count: int, what: str, step: Step) -> Sequence[FieldsLike]:
    """The fields that are given for each of so many streams; one text stands for all."""
    if isinstance(given, str):
        return [given] * count
    if isinstance(given, Sequence) and len(given) == count:
        return given
    raise step.error(TopologyError, f"{what}, not {given!r}")


def same_keys(found: Sequence[tuple[str, ...]], schemas: Sequence[spark.StructType], step: Step) -> None:
    """Refuse keys that do not pair up by position: as many of each stream, of the same types, that can be compared."""
    kinds = [types_of(chosen(schema, names, step)) for schema, names in zip(schemas, found, strict=True)]
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
    group_keys(select(schemas[0], found[0]), step)


# --- join --------------------------------------------------------------------------------------------------------


def join_keys(schemas: Sequence[spark.StructType], keys: object, step: Step) -> tuple[tuple[str, ...], ...]:
    """The key fields of every stream of a join; one text stands for all streams."""
    wanted = f"a join of {len(schemas)} streams needs the key fields of each, [keys1, keys2]"
    given = for_each(keys, len(schemas), wanted, step)
    found = tuple(
        known_fields(schema, names, step, f" in stream {at}")
        for at, (schema, names) in enumerate(zip(schemas, given, strict=True), 1)
    )
    same_keys(found, schemas, step)
    return found


def origins(
    schemas: Sequence[spark.StructType], keys: Sequence[tuple[str, ...]], outer: Sequence[bool], preserve: bool
) -> list[tuple[Origin, ...]]:
    """Where each field of a join comes from. A key that is kept once is the first source's that is there: the first
    one that cannot be missing, or whichever comes first of them all."""
    found: list[tuple[Origin, ...]] = []
    if not preserve:
        sure = [at for at, missing in enumerate(outer) if not missing][:1]
        found += [tuple((at, keys[at][place]) for at in sure or range(len(schemas))) for place in range(len(keys[0]))]
    for at, schema in enumerate(schemas):
        found += [((at, name),) for name in schema.names if preserve or name not in keys[at]]
    return found


def origins_of(node: Join) -> list[tuple[Origin, ...]]:
    """Where each field of this join comes from, in the order of its schema."""
    return origins([source.schema for source in node.sources], node.keys, node.outer, node.preserve)


def joined(
    schemas: Sequence[spark.StructType],
    keys: Sequence[tuple[str, ...]],
    outer: Sequence[bool],
    preserve: bool,
    outputs: OutputsLike | None,
    step: Step,
) -> spark.StructType:
    """The fields of a join: the keys under the first stream's names, then every stream's other fields; or every field
    of every stream. What may be missing may be null."""
    kept_once = 0 if preserve else len(keys[0])
    fields = []
    for place, from_ in enumerate(origins(schemas, keys, outer, preserve)):
        own = [schemas[at][name] for at, name in from_]
        is_key = place < kept_once
        null = any(field.nullable for field in own) or (not is_key and outer[from_[0][0]])
        fields.append(spark.StructField(keys[0][place] if is_key else own[0].name, own[0].dataType, null))
    if outputs is not None:
        return renamed(spark.StructType(fields), outputs, step)
    try:
        return schema_of(fields)
    except DuplicateFieldError as error:
        raise step.error(DuplicateFieldError, f"{error}; name the fields with outputFields") from None


def _typed(names: Sequence[str], types: Sequence[str]) -> str:
    return f"({', '.join(f'{name} {kind}' for name, kind in zip(names, types, strict=True))})"
