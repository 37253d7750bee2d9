"""The join of two tables by key or foreign key, as a stream of its changes."""

from typing import Any

from trident.base.change_kinds import KIND
from trident.base.names import FieldsLike
from trident.base.spark_types import select
from trident.base.verb_call import Step
from trident.operations.output_fields import OutputsLike
from trident.plan import joins, nodes, step_checks
from trident.plan.state_schema import keys_of
from trident.stream.indexes import index_of
from trident.stream.state import StateBase
from trident.stream.state_images import add_changes, fields_of_values

_TYPES = ("inner", "left")


def joined(
    state: StateBase[Any], other: object, fields: FieldsLike | None, joinType: object, outputFields: OutputsLike | None
) -> nodes.Node:
    """Add the steps that compute the changes of the join of two tables, and return the last one."""
    step = state._register.step(state._label, "join")
    if not isinstance(other, StateBase):
        raise step.wrong(f"{other!r} is not a state of this topology; make one of a stream with toTable(keyFields)")
    if other._register is not state._register:
        raise step.wrong(f"state {other.name!r} {state._register.why_foreign(other._register)}")
    if joinType not in _TYPES:
        raise step.wrong(f"joinType={joinType!r}: expected 'inner' or 'left'; for a right join write other.join(this)")
    keys, theirs = keys_of(state._node), keys_of(other._node)
    if not keys.names:
        raise step.wrong(f"state {state.name!r} has no key fields to join by")
    left, right = fields_of_values(state, step), fields_of_values(other, step)
    rows = step_checks.appended(keys, left, step, of="the key")
    refers = tuple(keys.names) if fields is None else step_checks.known_fields(rows, fields, step)
    step_checks.check_query_keys(select(rows, refers), theirs, other.name, step)
    by_key = refers == tuple(keys.names)
    index = None if by_key else index_of(state, refers)
    if not by_key:
        step = Step(state._register.step(state._label, f"join({', '.join(refers)})").label, step.called)
    schema = step_checks.appended(rows, joins.renamed(right, outputFields, step), step)
    gives = step.gives(step_checks.appended(schema, KIND, step))
    sources = [state._new_values()]
    if other._node is not state._node:
        sources.append(other._new_values())
    by = () if by_key else refers
    node = nodes.TableChanges(tuple(sources), state._node, other._node, by, index, joinType == "left", **gives)
    return add_changes(state, node)
