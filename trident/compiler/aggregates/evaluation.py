"""Aggregates over columns in memory: of a batch, or of each request or partition by itself."""

from collections.abc import Callable

import pyarrow as pa

from trident.compiler.aggregates.arrow_folds import fold_columns
from trident.compiler.aggregates.folds import FoldSpec
from trident.compiler.aggregates.gathers import Gather
from trident.compiler.aggregates.specs import can_fold, fold_spec, gather_spec
from trident.compiler.columns.columns import Columns, concat
from trident.compiler.columns.keys import KeyIndex
from trident.plan.nodes import Aggregate, PersistentAggregate

AggregateFunction = Callable[[Columns, Columns | None, int | None], Columns]
"""A function from tuples to aggregates. The second argument has one row for each part that is aggregated by itself (a
request, a partition), in hidden fields that the tuples have too; None: all tuples are one batch. The third is the
batch's txid."""


def compile_aggregate(node: Aggregate | PersistentAggregate) -> AggregateFunction:
    """Return the function of an aggregate; without group fields each part gives one row, also if it is empty."""
    if isinstance(node, Aggregate) and not can_fold(node):
        return _gathering(node)
    batch_spec = fold_spec(node)

    def aggregate(columns: Columns, parts: Columns | None, txid: int | None) -> Columns:
        spec = batch_spec if parts is None else fold_spec(node, _fields(parts))
        folded = fold_columns(spec, [columns])
        return spec.presented(folded if node.group else _with_zeros(spec, folded, parts))

    return aggregate


def _gathering(node: Aggregate) -> AggregateFunction:
    def aggregate(columns: Columns, parts: Columns | None, txid: int | None) -> Columns:
        gather = Gather(gather_spec(node, txid, () if parts is None else _fields(parts)))
        if parts is not None and not node.group:
            gather.expect(parts)
        gather.add(columns)
        return gather.result()

    return aggregate


def _fields(parts: Columns) -> list[pa.Field]:
    return [pa.field(name, parts[name].kind) for name in parts.names]


def _with_zeros(spec: FoldSpec, folded: Columns, parts: Columns | None) -> Columns:
    """Return the accumulators, also those of parts that had no tuple."""
    if parts is None:
        return folded if folded.rows else spec.zeros()
    if folded.rows == parts.rows:
        return folded
    index = KeyIndex(spec.keys.types)
    index.numbers([folded[name] for name in parts.names], folded.rows)
    seen = len(index)
    numbers = index.numbers([parts[name] for name in parts.names], parts.rows)
    missing = [row for row, number in enumerate(numbers) if number >= seen]
    zeros = spec.zeros(len(missing))
    return concat([folded, zeros.plus({name: parts[name].take(missing) for name in parts.names}).select(folded.names)])
