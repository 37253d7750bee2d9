"""New indexes of states that already have rows: each begins with the entries of all these rows.

Such an index is created after the last batch of its state, with initial content, like a state with an InitialState. The
content is the same as if each row had been inserted. The state must be complete for that, with no batch under way.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from trident.base.errors import CodeChangedError
from trident.base.spark_types import arrow_schema, spark_schema
from trident.compiler.program import Group, Program
from trident.compiler.states.table_changes import compile_changes
from trident.log.group_records import History
from trident.log.protocol import Birth
from trident.operations.table_indexes import DirectoryOf, PartOf, keys_over_changes
from trident.plan.nodes import Node, StateWriter, TableChanges, sources_of
from trident.plan.states import state_traits
from trident.reads.indexes import index_of_shape
from trident.recovery.change_readers import has_more
from trident.recovery.evolving_store import EvolvingStore
from trident.user_calls.watched_store import WatchedStore
from trident_state.binary_arrays import one_chunk
from trident_state.keys import decode_keys, encode_keys
from trident_state.state_shape import StateShape
from trident_state.store import Store


@dataclass(frozen=True, slots=True)
class NewIndex:
    """An index that begins with the entries of its state's rows.

    `changes` is the step that emits the state's changes.
    """

    node: StateWriter
    changes: TableChanges
    last: int
    """The txid of the state's last batch."""

    @property
    def state(self) -> str:
        """The name of the indexed state."""
        return self.changes.table.state.name


def new_indexes(program: Program, group: Group, births: Mapping[str, Birth], last: int) -> Iterator[NewIndex]:
    """Yield the indexes of a group that are new, and of states with rows. `births` are the founded births in the log.

    `last`: the group's last frozen batch.
    """
    for node in group.states:
        name = node.state.name
        changes = None if name in births else changes_indexed(node, program.shapes[name])
        birth = None if changes is None else births.get(changes.table.state.name)
        if changes is not None and birth is not None and has_more(birth, Birth(group.name, last)):
            yield NewIndex(node, changes, last)


def changes_indexed(node: StateWriter, shape: StateShape) -> TableChanges | None:
    """Return the step with the changes that feed an index; None if a state of this shape is not an index."""
    changes = _changes_of(node)
    if changes is None or changes.other is not None or not isinstance(changes.table, StateWriter):
        return None
    own = arrow_schema(state_traits(changes.table).keys(changes.table))
    found = index_of_shape(changes.table.state.name, own, node.state.name, shape)
    return None if found is None else changes


def check_no_waiting(index: NewIndex, history: History) -> None:
    """Raise CodeChangedError if a batch waits for its commit: the state does not have its values yet."""
    if history.frozen:
        raise _not_now(index, f"batch {history.frozen[0]} waits to be committed")


def content_of_index(index: NewIndex, program: Program, store: Store) -> pa.Table:
    """Return the initial content of an index. `store` is that of its state, which gives the present values.

    Raises CodeChangedError if the store lacks batches, or has another shape that is not evolved; and the errors of the
    state's aggregator, which presents the values.
    """
    report, shape = store.report(), program.shapes[index.node.state.name]
    if any(group.marker != index.last for group in report.groups):
        raise _not_now(index, f"state {index.state!r} lacks batches up to {index.last}")
    evolves = isinstance(store.unwatched if isinstance(store, WatchedStore) else store, EvolvingStore)
    if report.fingerprint != program.shapes[index.state].fingerprint and not evolves:
        raise _not_now(index, f"state {index.state!r} has the shape of a former program")
    own = program.shapes[index.state].keys
    made, fields = compile_changes(index.changes), shape.keys.names[:-1]
    rows = [table for page in store.scan(index.last) for table in _rows(made, own, page, shape.keys)]
    entries = pa.concat_tables(rows) if rows else None
    if entries is None or not entries.num_rows:
        return shape.entries.empty_table()
    count = len(shape.keys)
    places = encode_keys(entries.select(list(range(count))).combine_chunks()).dictionary_encode()
    kept = entries.select(list(range(count, entries.num_columns))).combine_chunks().to_batches()[0]
    aggregator = keys_over_changes(spark_schema(own), fields)
    values = aggregator.initColumn(kept, places.indices.to_numpy(), len(places.dictionary))
    return decode_keys(places.dictionary, shape.keys).append_column("value", values)


def _rows(changes: Callable[..., pa.Table], keys: pa.Schema, page: pa.Table, index: pa.Schema) -> Iterator[pa.Table]:
    """Yield the entries of a page's rows: the key fields of the index, then the key of the row, the part, and the kind.

    The parts contain the keys, and the directories contain the parts.
    """
    values, rows = one_chunk(page.column(page.num_columns - 1)), page.select(list(range(page.num_columns - 1)))
    after: Mapping[bool, pa.Array] = {True: values, False: pa.nulls(len(values), values.type)}
    inserted = changes([rows], lambda state, asked: after[True], lambda state, asked: after[False])
    own = {name: one_chunk(inserted.column(name)) for name in keys.names}
    fields = [one_chunk(inserted.column(name)) for name in index.names[:-1]]
    kind = one_chunk(inserted.column(inserted.num_columns - 1))
    blank = tuple(name for name in keys.names if name not in index.names)
    for entries in (PartOf(spark_schema(keys)), DirectoryOf(spark_schema(keys), blank)):
        part, listed, *nothing = entries.columns(list(own.values()))
        own |= dict(zip(blank, nothing, strict=False))
        where = [column.cast(field.type) for column, field in zip([*fields, part], index, strict=True)]
        columns = [*where, *own.values(), listed, kind]
        yield pa.Table.from_arrays(columns, [str(at) for at in range(len(columns))])


def _changes_of(node: Node) -> TableChanges | None:
    """Return the step with the changes that feed a state, if it is fed only by the changes of one state."""
    found = set[TableChanges | None]()
    for source in sources_of(node):
        if isinstance(source, TableChanges):
            found.add(source)
        else:
            found.add(None if isinstance(source, StateWriter) else _changes_of(source))
    return found.pop() if len(found) == 1 else None


def _not_now(index: NewIndex, why: str) -> CodeChangedError:
    node = index.node
    return CodeChangedError(
        f"{node.step} ({node.site.location}): state {node.state.name!r} is a new index of state {index.state!r}, which "
        f"has rows, and {why}. Start the previous program once and stop it, which completes the state, then this one. "
        f"Nothing was written"
    )
