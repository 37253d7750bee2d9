"""One stage of one attempt as one Spark job."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from trident.base.spark_types import arrow_schema, select, spark_schema
from trident.base.value_conversion import conform
from trident.compiler.aggregates.column_combiners import combines_columns
from trident.compiler.aggregates.folds import FoldSpec, arrow_can_merge, merge_partials
from trident.compiler.aggregates.specs import fold_spec
from trident.compiler.program import Output, Stage
from trident.compiler.spark.cached_plans import PlanUse
from trident.compiler.spark.frozen_writes import MANIFEST, FreezeWriter, manifest_of
from trident.compiler.spark.lowering import Lowering
from trident.compiler.spark.native_operations import Learned, analysed
from trident.compiler.spark.pending_function import PendingFunction
from trident.compiler.spark.plan_calls import to_arrow
from trident.compiler.spark.sessions import Profile
from trident.compiler.spark.stage_inputs import StageInput, count_branches, stage_input
from trident.compiler.spark.union_job import Branch, Receiver, joined, receive
from trident.compiler.spark.worker_functions import Chain, Drain
from trident.compiler.spark.worker_reports import Reports
from trident.compiler.stage_layout import StageLayout, end_of
from trident.frozen.files import FileFolder
from trident.frozen.results import DebugTuples, Result, StageResult
from trident.plan.nodes import Debug, Node, PersistentAggregate
from trident_spouts.executor import Emission

_NOTHING = pa.schema([pa.field("nothing", pa.int32())])
"""The fields of an effect, whose output has no rows."""


ARROW_ROWS, COLUMN_ROWS, VALUE_ROWS = 200_000, 20_000, 2_000
"""The most accumulators that the driver merges faster than a shuffle and its tasks do: by Arrow's grouping, column by
column, and value by value."""


def _merged_soon(spec: FoldSpec) -> int:
    """Return the most accumulators of a fold that the driver merges faster than a shuffle does."""
    if arrow_can_merge(spec):
        return ARROW_ROWS
    by_columns = all(member.aggregation.native or combines_columns(member.aggregation) for member in spec.members)
    return (COLUMN_ROWS if by_columns else VALUE_ROWS) // len(spec.members)


class StageJob:
    """One stage in one attempt: its DataFrames, which run as one job, and its results.

    `read`, `lower`, `branches` and `collect` are called once each, in this order; `release` comes last. If a kept plan
    has given the rows, only `repeated` is called.
    """

    def __init__(
        self,
        stage: Stage,
        layout: StageLayout,
        learned: Learned,
        files: FileFolder | None,
        large: frozenset[str],
        expected: Mapping[str, int],
        txid: int,
        reports: Reports,
        thorough: bool,
        sql: bool,
    ) -> None:
        self._reports = reports
        self._thorough = thorough
        self._sql = sql
        self._stage = stage
        self._layout = layout
        self._stage_inputs: dict[int, StageInput] = {}
        self._counts: list[Branch] = []
        self._inputs: list[Emission | pa.Table] = []
        self._learned = learned
        self._files = files
        self._large = large
        self._expected = expected
        self._txid = txid
        self._results: dict[str, Result] = {}
        self._debug_tuples: list[DebugTuples] = []
        self._lowering: Lowering | None = None

    def read(self, inputs: Mapping[Node, Emission | pa.Table], session: SparkSession, scratch: Path) -> None:
        """Create the inputs of the stage."""
        names = self._layout.names
        self._inputs = list(inputs.values())
        self._stage_inputs = {
            id(node): stage_input(node, names(node), emission, session, scratch) for node, emission in inputs.items()
        }
        self._counts = [
            branch
            for node, emission in inputs.items()
            for branch in count_branches(node.step, emission, session, self._reports)
        ]

    def lower(self, inputs: Mapping[Node, Emission | pa.Table], profile: Profile) -> None:
        """Prepare the translation of the stage to DataFrames.

        Keep inputs that several nodes read and that are not cheap to read.
        """
        layout, inputs_, reports = self._layout, self._stage_inputs, self._reports
        self._lowering = lowering = Lowering(
            layout,
            inputs_,
            profile,
            self._learned,
            self._txid,
            reports.signal,
            self._thorough,
            reports.ledger,
            self._sql,
            reports.meter,
        )
        for node, emission in inputs.items():
            cheap = isinstance(emission, pa.Table) or emission.cheap
            if self._layout.readers.get(id(node), 0) > 1 and not cheap:
                lowering.keep_input(node)

    def branches(self) -> list[Branch]:
        """Return a branch for each result of the stage. No branch has run yet."""
        stage = self._stage
        branches = [self._output(output) for output in stage.outputs]
        branches += [self._shown(debug) for debug in stage.debugs]
        branches += [self._effect(effect) for effect in stage.effects]
        if self._lower.reports:
            branches.append(Branch.of_reports(self._lower.reports, self._reports))
        return branches + self._counts if branches else []

    def collect(self, branches: list[Branch], use: PlanUse | None) -> StageResult:
        """Run the branches as one job, and return the results. The plan is kept for `use`, if it is repeatable."""
        if branches:
            frame, schema = joined(branches)
            receive(branches, to_arrow(frame, schema))
            if use is not None and [b.schema for b in branches] == [
                spark_schema(o.schema) for o in self._stage.outputs
            ]:
                use.keep(frame, schema)
        for emission in self._inputs:
            if not isinstance(emission, pa.Table):
                emission.check_scanned()
        if self._reports.ledger is not None:
            self._reports.ledger.check()
        return StageResult(self._results, None, self._debug_tuples)

    def repeated(self, rows: pa.Table) -> StageResult:
        """Return the results of a stage whose kept plan gave these rows."""
        receive([self._receiver(output) for output in self._stage.outputs], rows)
        return StageResult(self._results, None, self._debug_tuples)

    def release(self) -> None:
        """Free the frames that were kept for several readers."""
        if self._lowering is not None:
            self._lowering.release()

    @property
    def _lower(self) -> Lowering:
        assert self._lowering is not None, "lower comes first"
        return self._lowering

    # --- outputs ---------------------------------------------------------------------------------------------------

    def _receiver(self, output: Output) -> Receiver:
        def finish(table: pa.Table) -> None:
            self._results[output.name] = conform(table, output.schema)

        return Receiver(spark_schema(output.schema), finish)

    def _output(self, output: Output) -> Branch:
        node, lower, receiver = end_of(output.step), self._lower, self._receiver(output)
        if self._files is not None and output.name in self._large:
            return self._written(output, node, self._files)
        if node is output.step and isinstance(node, PersistentAggregate) and self._merges_on_driver(node, output.name):
            return self._partials(output, node)
        pending = lower.pending(node)
        if pending is not None and pending.leaving.names == output.schema.names and not self._layout.shared(node):
            return Branch.of_function(pending, receiver.finish, self._reports, _sink(output))
        frame = lower.select(node, output.schema.names)
        if self._reports.ledger is not None:
            # Spark has made these rows. A Python function passes them on, so that their partitions report to the
            # ledger.
            tail = PendingFunction(frame, Chain((), output.schema, output.schema), output.schema)
            return Branch.of_function(tail, receiver.finish, self._reports, _sink(output))
        return Branch(receiver.schema, receiver.finish, frame)

    def _merges_on_driver(self, node: PersistentAggregate, name: str) -> bool:
        """Return whether it is better to merge accumulators of several partitions on the driver.

        In a small batch, or if the driver merges the accumulators soon, that saves a shuffle and the tasks after it;
        without group fields there is only one accumulator for each partition.
        """
        few = name in self._expected and self._expected[name] <= _merged_soon(fold_spec(node))
        return (self._lower.profile.small or not node.group or few) and self._lower.folds_in_python(node)

    def _partials(self, output: Output, node: PersistentAggregate) -> Branch:
        spec = fold_spec(node)

        def finish(table: pa.Table) -> None:
            self._results[output.name] = spec.presented(merge_partials(spec, table)).table(output.schema)

        with analysed(node):
            return Branch.of_function(self._lower.folding(node), finish, self._reports, _sink(output))

    def _written(self, output: Output, node: Node, files: FileFolder) -> Branch:
        """Return the branch of a large result. The workers that hold its rows write them into files."""
        number = self._stage.outputs.index(output)
        writer = FreezeWriter(files, f"{number}", output.schema)
        names = output.schema.names
        pending = self._lower.pending(node)
        if pending is None or pending.leaving.names != names or self._layout.shared(node):
            pending = PendingFunction(self._lower.select(node, names), writer, MANIFEST)
        else:
            pending = pending.then(writer, MANIFEST)

        def finish(table: pa.Table) -> None:
            self._results[output.name] = manifest_of(table, files.folder, output.schema)

        return Branch.of_function(pending, finish, self._reports, _sink(output))

    # --- what else runs --------------------------------------------------------------------------------------------

    def _shown(self, debug: Debug) -> Branch:
        schema = select(debug.source.schema, debug.inputs)

        def finish(table: pa.Table) -> None:
            self._debug_tuples.append(DebugTuples.first(debug.label, conform(table, arrow_schema(schema)), debug.limit))

        first = self._lower.select(debug.source, debug.inputs).limit(debug.limit + 1)  # one more, which is not shown
        return Branch(schema, finish, first)

    def _effect(self, node: Node) -> Branch:
        lower = self._lower
        chain = None if self._layout.shared(node) else lower.chain(node)
        if chain is None:
            schema = arrow_schema(select(node.schema, node.schema.names[:1]))
            chain = Chain((), schema, schema), lower.select(node, schema.names)
        pending = PendingFunction(chain[1], Drain(chain[0]), _NOTHING)
        return Branch.of_function(pending, lambda table: None, self._reports, f"{node.step} to the driver")


def _sink(output: Output) -> str:
    """Return the ledger's name for the edge from an output to the driver."""
    return f"{output.step.step} to the driver"
