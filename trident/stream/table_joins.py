"""The join of two tables, by key and by foreign key, as a stream of its changes."""

import re
import zlib
from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from trident.base.names import FieldsLike, free_name
from trident.base.step import Step
from trident.base.types import select
from trident.operations.changes import JoinedImages
from trident.operations.functions import Call, Operation, Query
from trident.operations.output_fields import OutputsLike
from trident.operations.query_functions import MapGet
from trident.operations.references import AllParts, Keys, Listed, PartOf, References
from trident.plan import joins, nodes, rules
from trident.plan.state_schema import keys_of, shown_type
from trident.stream.state import StateBase
from trident.stream.state_images import (
    KIND,
    add_end,
    add_part,
    asked_images,
    changed_keys,
    changes_of,
    fields_of_values,
    is_struct,
)

_TYPES = ("inner", "left")


def joined(
    state: StateBase[Any], other: object, fields: FieldsLike | None, joinType: object, outputFields: OutputsLike | None
) -> nodes.Node:
    """Add the steps that give the changes of the join of two tables, and return the last one."""
    step = state._register.step(state._label, "join")
    if not isinstance(other, StateBase):
        raise step.wrong(f"{other!r} is not a state of this topology; toTable(keyFields) makes a stream a table")
    if other._register is not state._register:
        raise step.wrong(f"state {other.name!r} {state._register.why_foreign(other._register)}")
    if joinType not in _TYPES:
        raise step.wrong(f"joinType={joinType!r}: expected 'inner' or 'left'; for a right join write other.join(this)")
    keys, theirs = keys_of(state._node), keys_of(other._node)
    if not keys.names:
        raise step.wrong(f"state {state.name!r} has no key fields, so there is nothing to join by")
    left, right = fields_of_values(state, step), fields_of_values(other, step)
    rows = rules.appended(keys, left, step, of="the key")
    refers = tuple(keys.names) if fields is None else rules.known_fields(rows, fields, step)
    rules.check_query_keys(select(rows, refers), theirs, other.name, step)
    by_key = refers == tuple(keys.names)
    index = None if by_key else _index(state, refers)
    if not by_key:
        step = Step(state._register.step(state._label, f"join({', '.join(refers)})").label, step.called)
    schema = rules.appended(rows, joins.renamed(right, outputFields, step), step)
    schema = rules.appended(schema, KIND, step)
    node, mine = asked_images(state, state, _keys_at_stake(state, other, index, step), step)
    inputs: tuple[tuple[str, ...], tuple[str, ...]] = (tuple(keys.names), tuple(keys.names))
    if not by_key:
        node, inputs = _references(state, node, mine, rows, refers, step)
    node, yours = asked_images(state, other, node, step, inputs)
    positions = () if by_key else tuple(map(rows.names.index, refers))
    function = JoinedImages(
        len(keys.names), is_struct(state), is_struct(other), len(right.fields), joinType == "left", positions
    )
    operation = Operation(function, step.called, Call.VALUES, many=True)
    node = nodes.Map(node, (*keys.names, *mine, *yours), operation, **step.gives(schema))
    add_end(state, node)
    return node


def _keys_at_stake(
    state: StateBase[Any], other: StateBase[Any], index: StateBase[Any] | None, step: Step
) -> nodes.Node:
    """Return a step that gives the key of each row that a batch may have changed in the join, once.

    The index is asked as of the batch before: a row that refers to another one since this batch has changed itself.
    """
    keys, sources = keys_of(state._node), [changed_keys(state, step)]
    if index is not None:
        sources.append(_referring(state, other, index, step))
    elif other._node is not state._node:
        theirs = changed_keys(other, step)
        own = nodes.Project(theirs, tuple(keys_of(other._node).names), **step.gives(keys, ".keys"))
        sources.append(add_part(state, own))
    if len(sources) == 1:
        return sources[0]
    both = add_part(state, nodes.Merge(tuple(sources), **step.gives(keys, ".both")))
    # Each key once: without members an aggregate gives the group fields alone.
    return add_part(state, nodes.Aggregate(both, tuple(keys.names), (), **step.gives(keys, ".keys once")))


def _index(state: StateBase[Any], refers: tuple[str, ...]) -> StateBase[Any]:
    """Return the state that has the keys of the rows that refer to a row of another table, in parts."""
    known = state._register.indexes.get((state._node, refers))
    if known is None:
        changes, keys = state._of_changes(changes_of(state)), keys_of(state._node)
        part = free_name("part", changes.fields)
        parts = changes.each(list(keys.names), PartOf(keys), StructType([StructField(part, LongType())]))
        index = parts.groupBy([*refers, part]).persistentAggregate(
            state._node.state.factory, list(keys.names), Keys(), "keys", name=f"{state.name}.by.{_plain(refers)}"
        )
        known = state._register.indexes[state._node, refers] = index._node
    return type(state)(state._register, known, state._label)


def _plain(fields: tuple[str, ...]) -> str:
    """Return the names of fields as a part of a state's name, which has fewer characters."""
    if all(re.fullmatch("[A-Za-z0-9_-]+", name) for name in fields):
        return ".".join(fields)
    shown = ".".join(re.sub("[^A-Za-z0-9_-]", "-", name) for name in fields)
    return f"{shown}.{zlib.crc32(repr(fields).encode()):08x}"


def _referring(state: StateBase[Any], other: StateBase[Any], index: StateBase[Any], step: Step) -> nodes.Node:
    """Return a step that gives the keys of the rows that refer to rows of `other` that a batch changed."""
    asked, keys = keys_of(index._node), keys_of(state._node)
    node = changed_keys(other, step)
    every = Operation(AllParts(), step.called, Call.VALUES, many=True)
    node = add_part(state, nodes.Map(node, tuple(keys_of(other._node).names), every, **step.gives(asked, ".parts")))
    kind = shown_type(index._node)
    assert kind is not None
    listed = StructType([StructField(free_name("keys", asked.names), kind)])
    query, gives = Query(MapGet(), step.called, get=True), step.gives(rules.appended(asked, listed, step), ".referring")
    node = nodes.StateQuery(node, tuple(asked.names), index._node, query, listed, True, **gives)
    add_part(state, node)
    each = Operation(Listed(), step.called, Call.VALUES, many=True)
    return add_part(state, nodes.Map(node, tuple(listed.names), each, **step.gives(keys, ".referring keys")))


def _references(
    state: StateBase[Any],
    node: nodes.Node,
    images: tuple[str, str],
    rows: StructType,
    refers: tuple[str, ...],
    step: Step,
) -> tuple[nodes.Node, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Add the keys of `other` to which a row refers after and before the batch. Return the names of both."""
    keys, taken, fields = keys_of(state._node), list(node.schema.names), list[StructField]()
    for when in ("after", "before"):
        for name in refers:
            fields.append(StructField(free_name(f"{name} {when}", taken), rows[name].dataType))
            taken.append(fields[-1].name)
    function = References(len(keys.names), is_struct(state), tuple(map(rows.names.index, refers)))
    operation, outputs = Operation(function, step.called, Call.VALUES), StructType(fields)
    gives = step.gives(rules.appended(node.schema, outputs, step), ".references")
    node = add_part(state, nodes.Each(node, (*keys.names, *images), operation, outputs, **gives))
    return node, (tuple(outputs.names[: len(refers)]), tuple(outputs.names[len(refers) :]))
