"""The values of a state before and after a batch, and the steps that give its changes."""

from typing import Any

from pyspark.sql.types import DataType, StringType, StructField, StructType

from trident.base.changes import CHANGE
from trident.base.names import free_name
from trident.base.step import Step
from trident.operations.changes import Images
from trident.operations.functions import Call, Operation, Query
from trident.operations.query_functions import MapGet, SnapshotGet
from trident.plan import nodes, rules
from trident.plan.state_schema import keys_of, shown_type
from trident.plan.states import state_traits
from trident.stream.state import StateBase
from trident.stream.tables import shown_fields
from trident_state.state_shape import StateKind
from trident_state.store import ttl_of_factory

KIND = StructType([StructField(CHANGE, StringType())])


def changes_of(state: StateBase[Any]) -> nodes.Node:
    """Add the steps that give the changes of a state, and return the last one."""
    step = state._register.step(state._label, "changes")
    known = state._register.changes.get(state._node)
    if known is not None:
        return known
    values = fields_of_values(state, step)
    keys = keys_of(state._node)
    schema = rules.appended(rules.appended(keys, values, step, of="the key"), KIND, step)
    node, asked = asked_images(state, state, changed_keys(state, step), step)
    operation = Operation(Images(len(keys.names), is_struct(state)), step.called, Call.VALUES, many=True)
    node = nodes.Map(node, (*keys.names, *asked), operation, **step.gives(schema))
    add_end(state, node)
    state._register.changes[state._node] = node
    return node


def changed_keys(state: StateBase[Any], step: Step) -> nodes.Node:
    """Return a step that gives each key that a batch changed once."""
    keys, node = keys_of(state._node), state._new_values()
    if not keys.names:
        return node
    return add_part(state, nodes.Project(node, tuple(keys.names), **step.gives(keys, f".{state.name}")))


def asked_images(
    at: StateBase[Any],
    state: StateBase[Any],
    node: nodes.Node,
    step: Step,
    by: tuple[tuple[str, ...], tuple[str, ...]] | None = None,
) -> tuple[nodes.Node, tuple[str, str]]:
    """Add to the tuples of `node` the values of a state after the batch and before it. Return the names of the two.

    `by` names the fields with the keys to ask for, for each of the two; if it is None, the fields of the state's key.
    """
    kind, keys, held = shown_type(state._node), keys_of(state._node).names, state._node
    assert kind is not None
    function, names = MapGet() if keys else SnapshotGet(), list[str]()
    own = tuple(keys)
    for name, earlier, inputs in zip(("after", "before"), (False, True), by or (own, own), strict=True):
        names.append(free_name(f"{name} {state.name}", node.schema.names))
        output = StructType([StructField(names[-1], kind)])
        query = Query(function, step.called, get=True)
        gives = step.gives(rules.appended(node.schema, output, step), f".{name}.{state.name}")
        node = add_part(at, nodes.StateQuery(node, inputs, held, query, output, earlier, **gives))
    return node, (names[0], names[1])


def fields_of_values(state: StateBase[Any], step: Step) -> StructType:
    """Return the fields of the values of a state whose new values replace former ones."""
    held = state._node
    if not state_traits(held).replaces(held):
        raise step.wrong(
            f"the changes of state {state.name!r} are not known: persistentAggregate and toTable have changes(); the "
            f"results of windows and the tuples of updaters are final, so newValuesStream() has all of them"
        )
    _check_keeps_before(held, step)
    return shown_fields(held, step)


def _check_keeps_before(held: nodes.HeldState, step: Step) -> None:
    """Refuse a state that has no value of before a batch, or whose keys leave it without a deletion."""
    factory = held.state.factory
    if factory.kind is StateKind.NON_TRANSACTIONAL:
        raise step.wrong(
            f"the changes of state {held.state.name!r} are not known: a nonTransactional state does not keep the "
            f"value of before a batch; make it opaque or transactional"
        )
    if ttl_of_factory(factory) is not None:
        raise step.wrong(
            f"state {held.state.name!r} has ttlSecs, and a key that expires gives no deletion, so what is built on "
            f"its changes would keep the key: remove ttlSecs, and delete rows by a stream of changes; "
            f"newValuesStream() has the new values of a state with ttlSecs"
        )


def is_struct(state: StateBase[Any]) -> bool:
    kind: DataType | None = shown_type(state._node)
    return isinstance(kind, StructType)


def add_part(state: StateBase[Any], node: nodes.Node) -> nodes.Node:
    state._register.add(state._label, node, part=True)
    return node


def add_end(state: StateBase[Any], node: nodes.Node) -> None:
    """Add the last step. A change says what it replaces, so an aggregate over it counts nothing again."""
    state._register.add(state._label, node)
    state._register.everyChange.add(node)
