"""Tuples combined by pane and group before they enter a window: one kernel for both engines, Catalyst where it can."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from trident.base.types import arrow_schema, select
from trident.compiler.aggregates import catalyst
from trident.compiler.arrow_folds import fold_columns
from trident.compiler.columns import Column, Columns
from trident.compiler.folds import Fold, FoldMember, FoldSpec
from trident.compiler.names import all_quoted, quoted
from trident.compiler.windows.calls import where_of
from trident.compiler.windows.held import moments, numbers
from trident.compiler.worker import Batches, Chain, Quick, guarded, sliced
from trident.operations.windows import TimeWindow
from trident.plan.nodes import WindowPanes

_PANE = "__trident_pane"
_COUNT = "__trident_count"


@dataclass(frozen=True, slots=True, eq=False)
class PaneSpec:
    """What makes panes of tuples, as it travels to the workers. `time` None: they are all of one pane."""

    fold: FoldSpec
    time: str | None
    pane: int
    schema: pa.Schema

    def placed(self, columns: Columns) -> tuple[Columns, int | None]:
        """The tuples that have a time, each with its pane; and the latest time."""
        if self.time is None:
            return columns, None
        times = columns[self.time].array()
        if times.null_count:
            mask = times.is_valid().to_pylist()
            columns, times = columns.keep(mask), times.drop_null()
        if not columns.rows:
            return columns.plus({_PANE: Column(times.type, times, None)}), None
        starts = numbers(times) // self.pane * self.pane
        return columns.plus({_PANE: Column(times.type, moments(starts, times.type), None)}), int(numbers(times).max())

    def leaving(self, folded: Columns, latest: int | None) -> Columns:
        """Panes as they enter the window; each carries the latest time of all."""
        if self.time is not None:
            times = moments([latest or 0] * folded.rows, self.schema.types[-1])
            folded = folded.plus({"": Column(times.type, times, None)})
        return folded.rename(self.schema.names)


def pane_spec(node: WindowPanes) -> PaneSpec:
    """What this node asks of a fold."""
    config, aggregation = node.windowing.config, node.windowing.aggregation
    assert isinstance(config, TimeWindow)
    assert aggregation is not None
    group = [field.with_nullable(True) for field in arrow_schema(select(node.source.schema, node.group))]
    schema = arrow_schema(node.schema)
    pane = [] if config.timestampField is None else [pa.field(_PANE, schema.types[0])]
    spec = FoldSpec.of(pa.schema([*pane, *group]), FoldMember(where_of(node), aggregation))
    return PaneSpec(spec, config.timestampField, config.pane, schema)


def panes_of(spec: PaneSpec, columns: Columns) -> Columns:
    """The panes of these tuples, in this process."""
    placed, latest = spec.placed(columns)
    return spec.leaving(fold_columns(spec.fold, [placed]), latest)


@dataclass(frozen=True, slots=True)
class PaneFold:
    """A chain, and a partition's tuples folded to one accumulator a pane and group; these meet on the driver."""

    chain: Chain
    spec: PaneSpec

    def __call__(self, batches: Batches) -> Batches:
        return guarded(self._run, batches)

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        spec = self.spec
        fold, quick, last = Fold(spec.fold), Quick(spec.fold), None
        for columns in self.chain.columns(batches):
            placed, latest = spec.placed(columns)
            last = latest if last is None else max(last, latest if latest is not None else last)
            if placed.rows and not quick.add(placed):
                fold.add_tuples(placed)
        for found in [*([fold.result()] if len(fold) else []), *quick.results()]:
            yield from sliced(spec.leaving(found, last), spec.schema)


def panes_frame(node: WindowPanes, frame: DataFrame) -> DataFrame:
    """Panes by Catalyst."""
    spec = pane_spec(node)
    keys: list[Any] = list(all_quoted(node.group))
    (member,) = spec.fold.members
    value = F.expr(catalyst(member, False)).alias(member.output)
    if spec.time is None:
        found = frame.groupBy(*keys).agg(value, F.expr("count(1)").alias(_COUNT)).filter(f"{_COUNT} > 0")
        return found.select(*all_quoted(spec.schema.names))
    time = F.col(quoted(spec.time))
    pane = F.window(time, f"{spec.pane} microseconds").alias(_PANE)
    found = frame.groupBy(pane, *keys).agg(value, F.max(time).alias(spec.schema.names[-1]))
    start = F.col(f"{_PANE}.start").alias(spec.schema.names[0])
    return found.select(start, *all_quoted(spec.schema.names[1:]))
