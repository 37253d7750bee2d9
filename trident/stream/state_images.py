"""The changes of a state, and what a state needs so that its changes are known."""

from typing import Any

from pyspark.sql.types import StructType

from trident.base.changes import KIND
from trident.base.step import Step
from trident.plan import nodes, rules
from trident.plan.state_schema import keys_of, present_of
from trident.plan.states import state_traits
from trident.stream.shown_fields import shown_fields
from trident.stream.state import StateBase
from trident_state.state_shape import StateKind
from trident_state.store import ttl_of_factory


def changes_of(state: StateBase[Any], entries: bool = False) -> nodes.Node:
    """Add the step that gives the changes of a state, and return it.

    With `entries`, a key whose value is presented as null is a row too.
    """
    step = state._register.step(state._label, "changes")
    entries = entries and present_of(state._node) is not None  # else a stored value is what readers see
    known = state._register.changes.get((state._node, entries))
    if known is not None:
        return known
    schema = rules.appended(keys_of(state._node), fields_of_values(state, step), step, of="the key")
    gives = step.gives(rules.appended(schema, KIND, step))
    node = add_changes(state, nodes.TableChanges((state._new_values(),), state._node, entries=entries, **gives))
    state._register.changes[state._node, entries] = node
    return node


def add_changes(state: StateBase[Any], node: nodes.TableChanges) -> nodes.Node:
    """Add a step. A change says what it replaces, so an aggregate over it counts nothing again."""
    state._register.add(state._label, node)
    state._register.everyChange.add(node)
    return node


def fields_of_values(state: StateBase[Any], step: Step) -> StructType:
    """Return the fields of the values of a state whose new values replace former ones."""
    held = state._node
    if not state_traits(held).replaces(held):
        raise step.wrong(
            f"the changes of state {state.name!r} are not known: persistentAggregate and toTable have changes(); the "
            f"results of windows and the tuples of updaters are final, so newValuesStream() has all of them, and a "
            f"window by time gives the changes of its results with emit='changes'"
        )
    _check_keeps_before(held, step)
    return shown_fields(held, step)


def _check_keeps_before(held: nodes.HeldState, step: Step) -> None:
    """Refuse a state that has no value of before a batch, or whose keys leave it without a deletion."""
    _check_same_rows(held, step)
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


def _check_same_rows(held: nodes.HeldState, step: Step) -> None:
    """Refuse a state with rows that its changes never brought, so that they cannot take them away either."""
    if isinstance(held, nodes.StaticState):
        return
    name = held.state.name
    if held.state.initial is not None:
        raise step.wrong(
            f"state {name!r} has initialState, and the rows of it give no changes: what is built on the changes would "
            f"lack these rows. Send them through the stream, as insertions; or read the state with joinTable or "
            f"stateQuery"
        )
    if any(evolution.value is not None for evolution in held.state.evolve):
        raise step.wrong(
            f"state {name!r} has an Evolution with value=, and a change of a row that it computed anew would take away "
            f"another row than the one that came: what is built on the changes would be wrong. Compute the new value "
            f"behind the state, changes().each(...); or give the state another name and reset the topology"
        )
