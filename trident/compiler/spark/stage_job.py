"""One stage of one attempt as one Spark job."""

from collections.abc import Mapping
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from trident.base.types import arrow_schema, select, spark_schema
from trident.base.values import conform
from trident.compiler.aggregates.arrow_folds import arrow_can_merge, merge_partials
from trident.compiler.aggregates.specs import fold_spec
from trident.compiler.columns.dead_letters import Letters
from trident.compiler.engine import Result, StageResult
from trident.compiler.layout import Layout, end_of
from trident.compiler.program import Output, Stage
from trident.compiler.spark.expressions import Learned, analysed
from trident.compiler.spark.failure_signal import Bell
from trident.compiler.spark.frozen_files import MANIFEST, FileFolder, FreezeWriter, manifest_of
from trident.compiler.spark.inputs import Start, cheap, check_scanned, counting, start_of
from trident.compiler.spark.lowering import Lowering
from trident.compiler.spark.pending_function import Tail
from trident.compiler.spark.sessions import Profile
from trident.compiler.spark.union_job import Branch, collect
from trident.compiler.spark.worker_functions import CAUGHT, Chain, Drain
from trident.plan.nodes import Debug, Node, PersistentAggregate
from trident_spouts.executor import Emission

_NOTHING = pa.schema([pa.field("nothing", pa.int32())])
"""What an effect gives: no row of one column."""


class StageJob:
    """Builds the DataFrames of one attempt's stage, runs them as one job and sorts the results."""

    def __init__(
        self,
        stage: Stage,
        layout: Layout,
        learned: Learned,
        files: FileFolder | None,
        large: frozenset[str],
        few: frozenset[str],
        txid: int,
        letters: Letters,
        bell: Bell | None,
    ) -> None:
        self._letters = letters
        self._bell = bell
        self._stage = stage
        self._layout = layout
        self._starts: dict[int, Start] = {}
        self._counts: list[Branch] = []
        self._inputs: list[Emission | pa.Table] = []
        self._learned = learned
        self._files = files
        self._large = large
        self._few = few
        self._txid = txid
        self._results: dict[str, Result] = {}
        self._debug: dict[str, pa.Table] = {}
        self._lowering: Lowering | None = None

    def read(self, inputs: Mapping[Node, Emission | pa.Table], session: SparkSession, scratch: Path) -> None:
        """Make the DataFrames that the stage starts from."""
        names = self._layout.names
        self._inputs = list(inputs.values())
        self._starts = {
            id(node): start_of(node, names(node), given, session, scratch) for node, given in inputs.items()
        }
        self._counts = [branch for given in inputs.values() for branch in counting(given, session, self._bell)]

    def lower(self, inputs: Mapping[Node, Emission | pa.Table], profile: Profile) -> None:
        """Begin to make the others from them."""
        self._lowering = lowering = Lowering(self._layout, self._starts, profile, self._learned, self._txid, self._bell)
        for node, given in inputs.items():
            if self._layout.readers.get(id(node), 0) > 1 and not cheap(given):
                lowering.keep_start(node)

    def branches(self) -> list[Branch]:
        """Everything that the stage gives, unrun."""
        stage = self._stage
        found = [self._output(output) for output in stage.outputs]
        found += [self._shown(debug) for debug in stage.debugs]
        found += [self._effect(effect) for effect in stage.effects]
        if found and self._layout.tops:
            found.append(self._caught())
        if self._lower.failures:
            found.append(Branch.failing(self._lower.failures))
        return found + self._counts if found else []

    def collect(self, branches: list[Branch]) -> StageResult:
        """Run them as one job."""
        if branches:
            collect(branches)
        for given in self._inputs:
            check_scanned(given)
        if self._files is not None and any(not isinstance(r, pa.Table) for r in self._results.values()):
            self._files.sync()
        return StageResult(self._results, None, self._debug)

    def release(self) -> None:
        """Let go of what was kept for several readers."""
        if self._lowering is not None:
            self._lowering.release()

    @property
    def _lower(self) -> Lowering:
        assert self._lowering is not None, "lower comes first"
        return self._lowering

    # --- outputs ---------------------------------------------------------------------------------------------------

    def _output(self, output: Output) -> Branch:
        node, lower = end_of(output.step), self._lower

        def finish(table: pa.Table) -> None:
            self._results[output.name] = conform(table, output.schema)

        if self._files is not None and output.name in self._large:
            return self._written(output, node, self._files)
        if node is output.step and isinstance(node, PersistentAggregate) and self._meets_on_driver(node, output.name):
            return self._partials(output, node)
        tail = lower.tail(node)
        if tail is not None and tail.leaving.names == output.schema.names and not self._layout.shared(node):
            return Branch.telling(tail, finish, self._bell)
        return Branch(lower.select(node, output.schema.names), spark_schema(output.schema), finish)

    def _meets_on_driver(self, node: PersistentAggregate, name: str) -> bool:
        """Whether accumulators of several partitions had better meet on the driver: in a small batch, or where they are
        few and Arrow adds them up, that spares a shuffle and the tasks behind it; without group fields there is but
        one a partition."""
        few = name in self._few and arrow_can_merge(fold_spec(node))
        return (self._lower.profile.small or not node.group or few) and self._lower.folds_in_python(node)

    def _partials(self, output: Output, node: PersistentAggregate) -> Branch:
        spec = fold_spec(node)

        def finish(table: pa.Table) -> None:
            self._results[output.name] = merge_partials(spec, table).table(output.schema)

        with analysed(node):
            return Branch.telling(self._lower.folding(node), finish, self._bell)

    def _written(self, output: Output, node: Node, files: FileFolder) -> Branch:
        """A large result, written where it is."""
        number = self._stage.outputs.index(output)
        writer = FreezeWriter(str(files.path), f"{number}", output.schema)
        names = output.schema.names
        tail = self._lower.tail(node)
        if tail is None or tail.leaving.names != names or self._layout.shared(node):
            tail = Tail(self._lower.select(node, names), writer, MANIFEST)
        else:
            tail = tail.then(writer, MANIFEST)

        def finish(table: pa.Table) -> None:
            self._results[output.name] = manifest_of(table, files.place, output.schema)

        return Branch.telling(tail, finish, self._bell)

    def _caught(self) -> Branch:
        """What was left out on the way to all the others."""
        lower = self._lower
        for node in self._layout.tops:
            lower.frame(node)
        told = reduce(lambda left, right: left.unionAll(right), lower.caught)

        def finish(table: pa.Table) -> None:
            self._letters.add_lines(table.column(0).to_pylist())

        return Branch(told, StructType([StructField(CAUGHT, StringType())]), finish)

    # --- what else runs --------------------------------------------------------------------------------------------

    def _shown(self, debug: Debug) -> Branch:
        schema = select(debug.source.schema, debug.inputs)

        def finish(table: pa.Table) -> None:
            self._debug[debug.label] = conform(table, arrow_schema(schema))

        return Branch(self._lower.select(debug.source, debug.inputs).limit(debug.limit), schema, finish)

    def _effect(self, node: Node) -> Branch:
        lower = self._lower
        chain = None if self._layout.shared(node) else lower.chain(node)
        if chain is None:
            schema = arrow_schema(select(node.schema, node.schema.names[:1]))
            chain = Chain((), schema, schema), lower.select(node, schema.names)
        tail = Tail(chain[1], Drain(chain[0]), _NOTHING)
        return Branch.telling(tail, lambda table: None, self._bell)
