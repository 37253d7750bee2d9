"""An aggregate over columns in memory: of a batch, of every request by itself, of every partition."""

from collections.abc import Callable

import pyarrow as pa

from trident.compiler.aggregates.arrow_folds import fold_columns
from trident.compiler.aggregates.folds import FoldSpec
from trident.compiler.aggregates.gathers import Gather
from trident.compiler.aggregates.specs import fold_spec, folds, gather_spec
from trident.compiler.columns.columns import Columns, concat
from trident.compiler.columns.keys import KeyIndex
from trident.plan.nodes import Aggregate, PersistentAggregate

Aggregating = Callable[[Columns, Columns | None, int | None], Columns]
"""From tuples to aggregates. The second argument has one row for each of what is aggregated by itself (a request, a
partition), in hidden fields that the tuples have too; None: it is all one batch. The third is the batch's txid."""


def aggregating(node: Aggregate | PersistentAggregate) -> Aggregating:
    """A step that aggregates; without group fields exactly once for each, also of nothing."""
    if isinstance(node, Aggregate) and not folds(node):
        return _gathering(node)
    plain = fold_spec(node)

    def aggregate(columns: Columns, each: Columns | None, txid: int | None) -> Columns:
        spec = plain if each is None else fold_spec(node, _fields(each))
        found = fold_columns(spec, [columns])
        return spec.presented(found if node.group else _with_zeros(spec, found, each))

    return aggregate


def _gathering(node: Aggregate) -> Aggregating:
    def aggregate(columns: Columns, each: Columns | None, txid: int | None) -> Columns:
        gather = Gather(gather_spec(node, txid, () if each is None else _fields(each)))
        if each is not None and not node.group:
            gather.expect(each)
        gather.add(columns)
        return gather.result()

    return aggregate


def _fields(each: Columns) -> list[pa.Field]:
    return [pa.field(name, each[name].kind) for name in each.names]


def _with_zeros(spec: FoldSpec, found: Columns, each: Columns | None) -> Columns:
    """The accumulators, also of those that had no tuple."""
    if each is None:
        return found if found.rows else spec.zeros()
    if found.rows == each.rows:
        return found
    index = KeyIndex(spec.keys.types)
    index.places([found[name] for name in each.names], found.rows)
    seen = len(index)
    places = index.places([each[name] for name in each.names], each.rows)
    missing = [row for row, place in enumerate(places) if place >= seen]
    zeros = spec.zeros(len(missing))
    return concat([found, zeros.plus({name: each[name].take(missing) for name in each.names}).select(found.names)])
