"""Indexes of a state by fields of its rows. An index is a separate state."""

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from trident.base.callsite import CallSite
from trident.base.names import brief, free_name
from trident.base.spark_types import select
from trident.base.verb_call import Step, within
from trident.operations.table_indexes import DirectoryOf, Keys, PartOf, index_name, listed_fields
from trident.plan import nodes, step_checks
from trident.plan.state_schema import keys_of
from trident.stream.state import StateBase, StateT
from trident.stream.state_images import changes_of, fields_of_values


def index_of(state: StateBase[Any], fields: tuple[str, ...]) -> nodes.StateWriter:
    """Return the state of an index: for each value of the indexed fields, the keys of the rows with it, in parts."""
    known = state._register.indexes.get((state._node, fields))
    if known is None:
        keys = keys_of(state._node)
        entry = listed_fields(keys, fields)
        part = StructField(free_name("part", [*entry.names, *fields]), LongType())
        where, blank = [part, entry.fields[-1]], [field for field in keys if field.name not in fields]
        kept = [*dict.fromkeys([*fields, part.name, *entry.names])]
        changes = state._of_changes(changes_of(state, entries=True)).project(
            list(dict.fromkeys([*fields, *keys.names]))
        )
        parts = changes.each(list(keys.names), PartOf(keys), StructType(where)).project(kept)
        lists = DirectoryOf(keys, tuple(field.name for field in blank))
        directories = changes.each(list(keys.names), lists, StructType([*where, *blank]), replace=True).project(kept)
        index = (
            parts.merge(directories)
            .groupBy([*fields, part.name])
            .persistentAggregate(
                state._node.state.factory,
                list(entry.names),
                Keys(),
                "keys",
                name=index_name(state.name, fields),
                backfill=state._node.state.backfill,
            )
        )
        known = state._register.indexes[state._node, fields] = index._node
    return known


def with_indexes(state: StateT, index: object) -> StateT:
    """Add the indexes of a state, and return it. `index` is the argument of the verb that creates the state.

    Raises TopologyError if the state cannot have an index, or `index` does not name a field.
    """
    if index is None:
        return state
    node = state._node
    step, keys = Step(f"{node.step}, index={brief(index)}", node.site), keys_of(node)
    if not keys.names:
        raise step.wrong("the state is one value without key fields, so an index has nothing to find")
    rows = step_checks.appended(keys, fields_of_values(state, step), step, of="the key")
    for names in _several(index, step):
        fields = step_checks.known_fields(rows, list(names), step)
        step_checks.check_comparable(select(rows, fields), step)
        with within(CallSite(node.site.name, node.site.file, node.site.line)):
            index_of(state, fields)
    return state


def _several(index: object, step: Step) -> Iterable[Sequence[str]]:
    """Yield the fields of each index."""
    listed = [index] if isinstance(index, str) else index
    if not isinstance(listed, list) or not listed:
        raise step.wrong(
            "expected the name of a field, or a list with one entry for each index; write an index over several "
            "fields as a tuple of names, index=[('country', 'city')]"
        )
    for each in listed:
        names = (each,) if isinstance(each, str) else each
        if not isinstance(names, tuple) or not names or not all(isinstance(name, str) for name in names):
            raise step.wrong(f"{brief(each)} is not the name of a field, or a tuple of names")
        yield names
