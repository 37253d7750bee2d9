"""Checks and schemas of steps that combine several streams in one batch: merge, join, multiReduce."""

from collections.abc import Sequence

from pyspark.sql import types as spark

from trident.base.errors import DuplicateFieldError, TypeDeclarationError
from trident.base.names import FieldsLike
from trident.base.spark_types import ddl, schema_of, select, type_ddl
from trident.base.verb_call import Step
from trident.operations.output_fields import OutputsLike, read_outputs
from trident.plan.nodes import (
    Emitted,
    EmittingUpdate,
    Join,
    Node,
    RequestSource,
    SpoutSource,
    sources_of,
    walk,
)
from trident.plan.states import state_traits
from trident.plan.step_checks import appended, check_comparable, chosen, known_fields, types_of, under_names
from trident.plan.window_schema import START

Origin = tuple[int, str]
"""The origin of a field: the position of a source, and the name of the field in that source."""


def check_one_batch(nodes: Sequence[Node], step: Step) -> None:
    """Raise TopologyError unless all nodes come from spouts, or all from the requests of one DRPC function."""
    below = walk(*nodes)
    requests = {node.function: node for node in below if isinstance(node, RequestSource)}
    spouts = [node.stream for node in below if isinstance(node, SpoutSource)]
    if len(requests) > 1:
        raise step.wrong(
            f"cannot combine requests of two DRPC functions ({', '.join(sorted(requests))}): they never share a batch"
        )
    if requests and spouts:
        raise step.wrong(
            f"cannot combine requests of DRPC function {next(iter(requests))!r} with batches of {', '.join(spouts)}: a "
            f"request is in no batch. To read the results of batches, use stateQuery"
        )


def check_close_together(sources: Sequence[Node], step: Step) -> None:
    """Raise TopologyError if a step within one batch would join the results of windows that close in different batches.

    Two windows close in one batch only if they have the same tuples, lengths and lateness. Windows by
    batch time of one length end together.
    """
    below = [_closing(source) for source in sources]
    for at, mine in enumerate(below):
        for theirs in below[at + 1 :]:
            for one in mine:
                for other in theirs:
                    if state_traits(one).closing(one) != state_traits(other).closing(other):
                        raise step.wrong(_apart(one, other))


def _apart(one: EmittingUpdate, other: EmittingUpdate) -> str:
    return (
        f"the windows {one.state.name!r} and {other.state.name!r} close in different batches, and a join within one "
        f"batch would lose the results of one that come later. Join the tuples of both streams as their windows "
        f"close: windowJoin(other, keys, TumblingEventTimeWindow('1 hour', 'at'), otherTimestampField=). For results "
        f"of windows of one length, give it the field {START!r}; for sessions and windows by count or batch time, put "
        f"one side into a table (toTable) and use joinTable"
    )


def _closing(source: Node) -> list[EmittingUpdate]:
    """Return the windows with results that reach a node within the batch that closes them.

    Steps with a state in between count, too, if they pass on the results or values computed from them.
    """
    found: list[EmittingUpdate] = []
    waiting, seen = [source], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Emitted) and state_traits(node.source).closing(node.source) is not None:
            found.append(node.source)
        else:
            waiting += sources_of(node)
    return found


def renamed(schema: spark.StructType, outputs: OutputsLike | None, step: Step) -> spark.StructType:
    """Return the schema with its fields renamed by position. `outputs` must have the same types: nothing is cast."""
    if outputs is None:
        return schema
    declared = read_outputs(outputs, step)
    names = declared.schema.names
    if len(names) != len(schema.fields):
        raise step.wrong(
            f"outputFields names {len(names)} fields ({', '.join(names)}) for {len(schema.fields)}: ({ddl(schema)})"
        )
    for output, typed, field in zip(declared.schema.fields, declared.typed, schema.fields, strict=True):
        if typed and output.dataType != field.dataType:
            raise step.error(
                TypeDeclarationError,
                f"field {output.name!r} is {type_ddl(field.dataType)}, not {type_ddl(output.dataType)}, and this "
                f"verb does not convert types: convert the field before, with each",
            )
    return under_names(schema, names)


# --- merge -------------------------------------------------------------------------------------------------------


def merged(
    schemas: Sequence[spark.StructType], outputs: OutputsLike | None, sourceField: object, step: Step
) -> spark.StructType:
    """Return the fields of a merge: by position, with the names of the first stream or with those in `outputs`.

    With a `sourceField`, one more field of that name follows: it holds the name of the tuple's stream.
    """
    first = schemas[0]
    for at, other in enumerate(schemas[1:], 2):
        mine, theirs = types_of(first), types_of(other)
        if mine != theirs:
            why = "other types" if len(theirs) == len(mine) else f"{len(theirs)} field{'s' if len(theirs) > 1 else ''}"
            raise step.error(
                TypeDeclarationError,
                f"stream {at} has {why}: ({ddl(other)}), but stream 1 has ({ddl(first)}); "
                "a merge matches fields by position, so make the types equal with project or col(...).cast(...)",
            )
        if outputs is None:
            _check_places(first.names, other.names, at, step)
    fields = [
        spark.StructField(field.name, field.dataType, any(schema.fields[at].nullable for schema in schemas))
        for at, field in enumerate(first.fields)
    ]
    schema = renamed(schema_of(fields), outputs, step)
    if sourceField is None:
        return schema
    if not isinstance(sourceField, str) or not sourceField:
        raise step.wrong(f"sourceField is the name of one more field, such as 'source', not {sourceField!r}")
    source = spark.StructField(sourceField, spark.StringType(), nullable=False)
    return appended(schema, spark.StructType([source]), step, of="the merge")


def _check_places(mine: Sequence[str], theirs: Sequence[str], number: int, step: Step) -> None:
    """Raise TopologyError if a merge by position would put a field's values under the name of another field."""
    for name, here in zip(theirs, mine, strict=True):
        if name in mine and name != here:
            wanted = ", ".join(mine)
            order = f"project({wanted!r})" if set(mine) == set(theirs) else "project"
            raise step.wrong(
                f"stream {number} has ({', '.join(theirs)}), but stream 1 has ({wanted}); a merge matches fields by "
                f"position, so {name!r} would become {here!r}. To merge by name (unionByName), reorder the fields "
                f"first with {order}; to merge by position, name the result: outputFields={wanted!r}"
            )


# --- keys of several streams --------------------------------------------------------------------------------------


def for_each(fields: object, count: int, expected: str, step: Step) -> Sequence[FieldsLike]:
    """Return the fields of each of `count` streams, as the user wrote them. A single text applies to all streams."""
    if isinstance(fields, str):
        return [fields] * count
    if isinstance(fields, Sequence) and len(fields) == count:
        return fields
    raise step.wrong(f"{expected}, not {fields!r}")


def check_same_keys(keys: Sequence[tuple[str, ...]], schemas: Sequence[spark.StructType], step: Step) -> None:
    """Raise an error unless the keys of all streams pair up by position.

    Each stream needs the same number of keys, of the same types, and the types must be comparable.
    """
    kinds = [types_of(chosen(schema, names, step)) for schema, names in zip(schemas, keys, strict=True)]
    for names, types in zip(keys[1:], kinds[1:], strict=True):
        if len(names) != len(keys[0]):
            raise step.wrong(
                f"the streams have {len(keys[0])} and {len(names)} keys, {keys[0]} and {names}: expected the same "
                f"number"
            )
        if types != kinds[0]:
            raise step.error(
                TypeDeclarationError,
                f"the keys have different types: {_typed(keys[0], kinds[0])} and {_typed(names, types)}; make the "
                f"types equal with col(...).cast(...)",
            )
    check_comparable(select(schemas[0], keys[0]), step)


# --- join --------------------------------------------------------------------------------------------------------


def join_keys(schemas: Sequence[spark.StructType], keys: object, step: Step) -> tuple[tuple[str, ...], ...]:
    """Return the key fields of every stream of a join. If `keys` is one text, it applies to all streams."""
    expected = f"a join of {len(schemas)} streams needs the key fields of each, [keys1, keys2]"
    by_stream = tuple(
        known_fields(schema, names, step, f" in stream {at}")
        for at, (schema, names) in enumerate(zip(schemas, for_each(keys, len(schemas), expected, step), strict=True), 1)
    )
    check_same_keys(by_stream, schemas, step)
    return by_stream


def origins(
    schemas: Sequence[spark.StructType], keys: Sequence[tuple[str, ...]], outer: Sequence[bool], preserve: bool
) -> list[tuple[Origin, ...]]:
    """Return the origins of each field of a join, in the order of the join's schema.

    A key that appears once in the output comes from the first source that may not lack a key. If every source may lack
    a key, the key comes from the first source that has it: then all sources are origins.
    """
    fields: list[tuple[Origin, ...]] = []
    if not preserve:
        present = [at for at, missing in enumerate(outer) if not missing][:1] or range(len(schemas))
        fields += [tuple((at, keys[at][key]) for at in present) for key in range(len(keys[0]))]
    for at, schema in enumerate(schemas):
        fields += [((at, name),) for name in schema.names if preserve or name not in keys[at]]
    return fields


def origins_of(node: Join) -> list[tuple[Origin, ...]]:
    """Return the origins of each field of a join, in the order of the join's schema."""
    return origins([source.schema for source in node.sources], node.keys, node.outer, node.preserve)


def joined(
    schemas: Sequence[spark.StructType],
    keys: Sequence[tuple[str, ...]],
    outer: Sequence[bool],
    preserve: bool,
    outputs: OutputsLike | None,
    step: Step,
) -> spark.StructType:
    """Return the fields of a join: the keys with the first stream's names, then the other fields of every stream.

    With `preserve`, all fields of every stream are returned. The fields of a stream that may lack a key are nullable.
    """
    kept_once = 0 if preserve else len(keys[0])
    fields = []
    for position, sources in enumerate(origins(schemas, keys, outer, preserve)):
        own = [schemas[at][name] for at, name in sources]
        is_key = position < kept_once
        nullable = any(field.nullable for field in own) or (not is_key and outer[sources[0][0]])
        fields.append(spark.StructField(keys[0][position] if is_key else own[0].name, own[0].dataType, nullable))
    if outputs is not None:
        return renamed(spark.StructType(fields), outputs, step)
    try:
        return schema_of(fields)
    except DuplicateFieldError as error:
        raise step.error(DuplicateFieldError, f"{error}; name the fields with outputFields") from None


def _typed(names: Sequence[str], types: Sequence[str]) -> str:
    return f"({', '.join(f'{name} {kind}' for name, kind in zip(names, types, strict=True))})"
