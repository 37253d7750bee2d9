"""Worker functions that reduce many tuples to few rows: over a partition, or over whole groups within a partition."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from trident.compiler.aggregates.column_combiners import Position
from trident.compiler.aggregates.folds import (
    Fold,
    FoldSpec,
    arrow_can_merge,
    arrow_merge,
    arrow_partial,
    merge_partials,
)
from trident.compiler.aggregates.gathers import Gather, GatherSpec
from trident.compiler.aggregates.selections import PickSpec, picked
from trident.compiler.columns.columns import Columns, concat
from trident.compiler.columns.dead_letters import Letters
from trident.compiler.partition_functions import Batches, OnWorker
from trident.compiler.spark.worker_functions import AfterChain, partition_id, sliced
from trident.compiler.windows.panes import PaneSpec

_KEYS = 1_000_000
"""The number of keys at which a partial fold emits its accumulators and starts again."""


@dataclass(frozen=True, slots=True)
class PartialFold(AfterChain):
    """A chain whose output is folded in the same worker: one accumulator for each key of a partition.

    `batch` is the txid of the tuples' batch.
    """

    spec: FoldSpec
    batch: int = 0

    def _run(self, batches: Batches, letters: Letters | None = None) -> Iterator[pa.RecordBatch]:
        spec = self.spec
        fold, quick = Fold(spec, first_position(self.batch)), ArrowFold(spec)
        for columns in self.chain.columns(batches, letters):
            if not quick.add(columns):
                fold.add_tuples(columns)
            if len(fold) >= _KEYS:
                yield from sliced(fold.result(), spec.schema)
                fold = Fold(spec, fold.position)
        if len(fold):
            yield from sliced(fold.result(), spec.schema)
        for columns in quick.results():
            yield from sliced(columns, spec.schema)


def first_position(batch: int) -> Position:
    """Return the position in the batch of the first tuple of this task's partition. Partitions follow one another."""
    return Position(batch, partition_id() << 40)


class ArrowFold:
    """Partial accumulators that Arrow's grouping computes. They are merged whenever there are many of them."""

    def __init__(self, spec: FoldSpec) -> None:
        self._spec = spec
        self._parts: list[pa.Table] = []
        self._rows = 0
        self._merged = 0

    def add(self, columns: Columns) -> bool:
        """Fold these tuples and return True; if Arrow cannot fold them, do nothing and return False."""
        part = arrow_partial(self._spec, columns)
        if part is None:
            return False
        self._parts.append(part)
        self._rows += part.num_rows
        if self._rows > max(100_000, 4 * self._merged):
            merged = arrow_merge(self._spec, self._parts)
            self._parts, self._rows, self._merged = [merged.table(self._spec.schema)], merged.rows, merged.rows
        return True

    def results(self) -> Iterator[Columns]:
        """Yield the accumulators, each key once."""
        if self._parts:
            yield arrow_merge(self._spec, self._parts)


@dataclass(frozen=True, slots=True)
class PaneFold(AfterChain):
    """A chain whose output is folded in the same worker to accumulators by pane and group. The driver merges them."""

    spec: PaneSpec
    batch: int = 0

    def _run(self, batches: Batches, letters: Letters | None = None) -> Iterator[pa.RecordBatch]:
        spec = self.spec
        fold, quick, last = Fold(spec.fold, first_position(self.batch)), ArrowFold(spec.fold), None
        for columns in self.chain.columns(batches, letters):
            in_panes, latest = spec.with_panes(columns)
            last = latest if last is None else max(last, latest if latest is not None else last)
            if in_panes.rows and not quick.add(in_panes):
                fold.add_tuples(in_panes)
        for folded in [*([fold.result()] if len(fold) else []), *quick.results()]:
            yield from sliced(spec.as_inputs(folded, last), spec.schema)


@dataclass(frozen=True, slots=True)
class MergePartials(OnWorker):
    """The partial accumulators of a partition, merged by key, and turned into results by `present`.

    Without key fields there is one row, even without an accumulator.
    """

    spec: FoldSpec

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        spec = self.spec
        partials = (Columns.of(batch, spec.schema) for batch in batches)
        if arrow_can_merge(spec):
            parts = [columns.batch(spec.schema) for columns in partials]
            merged = merge_partials(spec, pa.Table.from_batches(parts, spec.schema))
        else:
            fold = Fold(spec)
            for columns in partials:
                fold.add_partials(columns)
            merged = fold.result() if len(fold) or spec.keys.names else spec.zeros()
        if merged.rows:
            yield from sliced(spec.presented(merged), spec.leaving)


MARK = "__trident_mark"
"""The hidden last field that marks one extra row in a frame of tuples: true for that row, which is not a tuple."""


@dataclass(frozen=True, slots=True)
class GatherGroups(OnWorker):
    """Aggregators that see every tuple of a group, over a partition that holds each of its groups as a whole.

    Without key fields there is one group, even without a tuple. Marked rows are not tuples.
    """

    spec: GatherSpec
    entering: pa.Schema

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        gather = Gather(self.spec)
        marked = self.entering.names[-1] == MARK
        for batch in batches:
            tuples = batch.filter(pc.invert(batch.column(batch.num_columns - 1))) if marked else batch
            gather.add(Columns.of(tuples, self.entering))
        result = gather.result()
        if result.rows:
            yield from sliced(result, self.spec.leaving)


@dataclass(frozen=True, slots=True)
class PickTuples(OnWorker):
    """A selection (`top`, `sample` ...) from the tuples of a partition."""

    spec: PickSpec
    entering: pa.Schema

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        kept: Columns | None = None
        for batch in batches:
            columns = Columns.of(batch, self.entering)
            kept = picked(self.spec, columns if kept is None else concat([kept, columns]))
        if kept is not None and kept.rows:
            yield from sliced(kept, self.entering)
