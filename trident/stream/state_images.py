"""The changes of a state, and the conditions under which a state can give its changes."""

from typing import Any

from pyspark.sql.types import StructType

from trident.base.change_kinds import KIND
from trident.base.verb_call import Step
from trident.plan import nodes, step_checks
from trident.plan.state_schema import keys_of, present_of
from trident.plan.states import state_traits
from trident.stream.shown_fields import shown_fields
from trident.stream.state import StateBase
from trident_state.state_shape import StateKind
from trident_state.store import ttl_of_factory


def changes_of(state: StateBase[Any], entries: bool = False) -> nodes.Node:
    """Add the step that returns the changes of a state, and return it.

    With `entries`, a key whose presented value is null counts as a row.
    """
    step = state._register.step(state._label, "changes")
    entries = entries and present_of(state._node) is not None  # otherwise queries see the stored value itself
    known = state._register.changes.get((state._node, entries))
    if known is not None:
        return known
    schema = step_checks.appended(keys_of(state._node), fields_of_values(state, step), step, of="the key")
    gives = step.gives(step_checks.appended(schema, KIND, step))
    node = add_changes(state, nodes.TableChanges((state._new_values(),), state._node, entries=entries, **gives))
    state._register.changes[state._node, entries] = node
    return node


def add_changes(state: StateBase[Any], node: nodes.TableChanges) -> nodes.Node:
    """Add a step. A change carries the value it replaces, so an aggregate over changes counts nothing twice."""
    state._register.add(state._label, node)
    state._register.everyChange.add(node)
    return node


def fields_of_values(state: StateBase[Any], step: Step) -> StructType:
    """Return the value fields of a state whose new values replace earlier ones."""
    held = state._node
    if not state_traits(held).replaces(held):
        raise step.wrong(
            f"state {state.name!r} has no changes(): persistentAggregate and toTable have them; the results of "
            "windows and the tuples of updaters are final, so newValuesStream() returns all of them, and a window by "
            "time returns the changes of its results with emit='changes'"
        )
    _check_keeps_before(held, step)
    return shown_fields(held, step)


def _check_keeps_before(held: nodes.HeldState, step: Step) -> None:
    """Refuse a state that does not keep the value before a batch, or whose keys can leave without a deletion."""
    _check_same_rows(held, step)
    factory = held.state.factory
    if factory.kind is StateKind.NON_TRANSACTIONAL:
        raise step.wrong(
            f"state {held.state.name!r} has no changes(): a nonTransactional state does not keep the value before a "
            "batch; make it opaque or transactional"
        )
    if ttl_of_factory(factory) is not None:
        raise step.wrong(
            f"state {held.state.name!r} has ttlSecs, and an expired key gives no deletion, so results of its changes "
            "would keep the key: remove ttlSecs, and delete rows by a stream of changes; newValuesStream() has the "
            "new values of a state with ttlSecs"
        )


def _check_same_rows(held: nodes.HeldState, step: Step) -> None:
    """Refuse a state with rows that never appeared in its changes, so that removing them would be wrong."""
    if isinstance(held, nodes.StaticState):
        return
    name = held.state.name
    if held.state.initial is not None:
        raise step.wrong(
            f"state {name!r} has initialState, whose rows give no changes, so results of the changes would lack them. "
            "Send these rows through the stream as insertions, or read the state with joinTable or stateQuery"
        )
    if any(evolution.value is not None for evolution in held.state.evolve):
        raise step.wrong(
            f"state {name!r} has an Evolution with value=, so a change could remove a recomputed row instead of the "
            "row that was added, and results of the changes would be wrong. Compute the new value after the state, "
            "changes().each(...); or give the state another name and reset the topology"
        )
