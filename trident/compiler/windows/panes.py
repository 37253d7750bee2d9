"""Tuples combined by pane and group before they enter a window, by functions that both engines use."""

from dataclasses import dataclass

import pyarrow as pa

from trident.base.spark_types import arrow_schema, select
from trident.compiler.aggregates.column_combiners import Position
from trident.compiler.aggregates.folds import FoldSpec, fold_columns
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.windows.aggregator_calls import where_of
from trident.compiler.windows.time_windows import Lattice, known
from trident.compiler.windows.tuple_lists import microseconds, timestamps
from trident.operations.windows import TimeWindow
from trident.plan.nodes import WindowPanes

PANE = "__trident_pane"


@dataclass(frozen=True, slots=True, eq=False)
class PaneSpec:
    """The recipe by which workers combine tuples by pane.

    `time` is the field of the event time; None: all tuples are in one pane. `lattice` has the panes.
    """

    fold: FoldSpec
    time: str | None
    lattice: Lattice
    schema: pa.Schema

    def with_panes(self, columns: Columns) -> tuple[Columns, int | None]:
        """Add to each tuple the start of its pane, and drop tuples without a usable time.

        A time is not usable if it is null, or if its pane is outside the years 1 to 9999. Also return the latest usable
        time in microseconds; None if there is none, or if `time` is None. In the last case no tuple is dropped.
        """
        if self.time is None:
            return columns, None
        times = columns[self.time].array()
        if times.null_count:
            mask = times.is_valid().to_pylist()
            columns, times = columns.keep(mask), times.drop_null()
        starts = self.lattice.panes(microseconds(times))
        if not known(starts).all():
            mask = known(starts).tolist()
            columns, times, starts = columns.keep(mask), times.filter(pa.array(mask)), starts[mask]
        if not columns.rows:
            return columns.plus({PANE: Column(times.type, times, None)}), None
        panes = Column(times.type, timestamps(starts, times.type), None)
        return columns.plus({PANE: panes}), int(microseconds(times).max())

    def as_inputs(self, folded: Columns, latest: int | None) -> Columns:
        """Return panes in the form in which they enter the window: each with `latest`, the latest time of any tuple."""
        folded = self.fold.presented(folded)
        if self.time is not None:
            times = timestamps([latest or 0] * folded.rows, self.schema.types[-1])
            folded = folded.plus({"": Column(times.type, times, None)})
        return folded.rename(self.schema.names)


def pane_spec(node: WindowPanes) -> PaneSpec:
    """Return the spec of this node."""
    config, aggregation = node.windowing.config, node.windowing.aggregation
    assert isinstance(config, TimeWindow)
    assert aggregation is not None
    group = [field.with_nullable(True) for field in arrow_schema(select(node.source.schema, node.group))]
    schema = arrow_schema(node.schema)
    pane = [] if config.timestampField is None else [pa.field(PANE, schema.types[0])]
    spec = FoldSpec.of_state(pa.schema([*pane, *group]), where_of(node), aggregation)
    return PaneSpec(spec, config.timestampField, Lattice.of(config), schema)


def panes_of(spec: PaneSpec, columns: Columns, batch: int) -> Columns:
    """Return the panes of a batch's tuples, computed in this process."""
    in_panes, latest = spec.with_panes(columns)
    return spec.as_inputs(fold_columns(spec.fold, [in_panes], Position(batch)), latest)
