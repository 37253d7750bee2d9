"""Answers to the queries of commit turns, from the states of the query's group or from those of another group."""

import functools
from collections.abc import Mapping

import pyarrow as pa

from trident.commits.user_code import AnswerQuery
from trident.compiler.states.queries import Reads, compile_query
from trident.plan.nodes import CommittedQuery, StateReader, StaticState
from trident.reads.committed_reads import ReadSource, Snapshot, read_consistently
from trident.reads.static_states import ReadableStore


def answers_as_of(readable: Mapping[str, ReadableStore]) -> AnswerQuery:
    """Return a function that answers queries of these states as of a given txid. It compiles each query once."""
    compiled = functools.cache(compile_query)

    def answer(step: StateReader, table: pa.Table, as_of: int) -> pa.Table:
        reads = Reads(
            lambda node, keys: readable[node.state.name].read(keys, as_of).values,
            lambda node: readable[node.state.name].scan(as_of),
        )
        return compiled(step)(table, reads)

    return answer


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
            )
            return self._compiled(step)(table, reads)

        states = [] if isinstance(state, StaticState) else [state.state.name]  # a static state has no group
        return read_consistently(source, states, body)
