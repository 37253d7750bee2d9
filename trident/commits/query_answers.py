"""Answers to the queries of commit turns, from states of the query's group or of another group."""

import functools
from collections.abc import Mapping, Sequence

import pyarrow as pa

from trident.compiler.states.queries import Reads, compile_query
from trident.compiler.states.table_changes import compile_changes
from trident.plan.nodes import CommittedQuery, HeldState, StateReader, StaticState, TableChanges
from trident.reads.committed_reads import ReadSource, Snapshot, read_consistently
from trident.reads.static_states import ReadableStore
from trident_state.key_order import KeyRange
from trident_state.range_reads import ranges_of


class Answers:
    """Reads states as of given txids, to answer queries and to compute the changes of tables. Compiles each step once.

    `readable` are the states by their names.
    """

    def __init__(self, readable: Mapping[str, ReadableStore]) -> None:
        self._readable = readable
        self._queries = functools.cache(compile_query)
        self._changes = functools.cache(compile_changes)

    def query(self, step: StateReader, table: pa.Table, as_of: int) -> pa.Table:
        """Return the tuples of `table` with the answers of a state."""
        return self._queries(step)(table, self._reads({step.updated.state.name: as_of}))

    def changes(
        self, step: TableChanges, values: Sequence[pa.Table], after: Mapping[str, int], before: Mapping[str, int]
    ) -> pa.Table:
        """Return the changes of a table. `after` and `before` are the txids as of which each state is read."""
        return self._changes(step)(values, self._reads(after), self._reads(before))

    def _reads(self, as_of: Mapping[str, int]) -> Reads:
        readable = self._readable

        def read(node: HeldState, keys: pa.Table) -> pa.Array:
            return readable[node.state.name].read(keys, as_of[node.state.name]).values

        def ranges(node: HeldState, entries: pa.Schema, ranges: Sequence[KeyRange], most: int | None) -> list[pa.Table]:
            store, txid = readable[node.state.name], as_of[node.state.name]
            return ranges_of(store, lambda: store.scan(txid), entries, ranges, most, txid)

        return Reads(read, lambda node: readable[node.state.name].scan(as_of[node.state.name]), ranges=ranges)


class CommittedAnswers:
    """Answers queries as of the last batch that the group of the queried state has committed.

    It reads like a client outside the group, and holds back the other group's commits only during the read. `source` is
    set once all groups of the run are made, before the first commit turn.
    """

    def __init__(self) -> None:
        self.source: ReadSource | None = None
        self._compiled = functools.cache(compile_query)

    def __call__(self, step: CommittedQuery, table: pa.Table) -> pa.Table:
        """Return the tuples of `table` with their answers."""
        source, state = self.source, step.updated
        assert source is not None

        def body(snapshot: Snapshot) -> pa.Table:
            reads = Reads(
                lambda node, keys: snapshot.read(node.state.name, keys).values,
                lambda node: snapshot.scan(node.state.name),
                ranges=lambda node, entries, ranges, most: snapshot.ranges(node.state.name, entries, ranges, most),
            )
            return self._compiled(step)(table, reads)

        states = [] if isinstance(state, StaticState) else [state.state.name]  # a static state has no group
        return read_consistently(source, states, body)
