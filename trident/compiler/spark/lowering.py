"""A stage's plan as DataFrames, which are made again for an attempt without a kept plan.

Native operations become Columns, adjacent Python operations one ``mapInArrow``, aggregates either Catalyst's own or
partial folds in Python.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from trident.base.spark_types import arrow_schema, select
from trident.base.stream_fields import STREAM_NUMBER
from trident.compiler.aggregates.folds import FoldSpec, arrow_can_merge
from trident.compiler.aggregates.selections import PickSpec
from trident.compiler.aggregates.specs import can_fold, fold_spec, gather_spec, read_fields
from trident.compiler.columns.kernels import Work, compile_chain, sql_of
from trident.compiler.columns.lifecycle import needs_lifecycle
from trident.compiler.columns.partitions import batch_partition, choice_of
from trident.compiler.spark import partitions
from trident.compiler.spark.aggregates import (
    aggregated,
    collocated,
    gathered_by_key,
    gathered_in_partitions,
    merged_by_key,
    merged_in_partitions,
)
from trident.compiler.spark.failure_signal import FailureSignal
from trident.compiler.spark.joins import joined, merged
from trident.compiler.spark.multireduces import multi_reduced
from trident.compiler.spark.native_operations import Expressions, Learned, analysed
from trident.compiler.spark.panes import panes_frame
from trident.compiler.spark.pending_function import PendingFunction
from trident.compiler.spark.pinned_confs import check_single_evaluation
from trident.compiler.spark.plan_calls import selected, with_fields
from trident.compiler.spark.sessions import Profile, checkpointed, unpersist
from trident.compiler.spark.sql_names import all_quoted, cast, quoted
from trident.compiler.spark.stage_inputs import StageInput
from trident.compiler.spark.step_meter import StepMeter
from trident.compiler.spark.worker_aggregates import PaneFold, PartialFold, PickTuples
from trident.compiler.spark.worker_functions import REPORT, AfterReports, Chain, Lifecycle
from trident.compiler.stage_layout import StageLayout, is_filter_null
from trident.compiler.tracking.ledger import Ledger, Root
from trident.compiler.tracking.tokens import Edge
from trident.compiler.windows.panes import pane_spec
from trident.plan.nodes import (
    Aggregate,
    Debug,
    Each,
    Filter,
    Join,
    Map,
    Merge,
    MultiReduce,
    Node,
    ParallelismHint,
    Part,
    PartitionOf,
    PersistentAggregate,
    Pick,
    Placing,
    Project,
    Repartition,
    StateStep,
    Transform,
    WindowPanes,
    sources_of,
)
from trident.plan.partitions import keeps_partitions, moves
from trident.plan.split_schema import own_fields
from trident.plan.traits import all_native
from trident.plan.window_inputs import entering_panes


class Lowering:
    """The DataFrames of a stage in one attempt, by node. `inputs` are the stage's inputs, by the ids of their nodes."""

    def __init__(
        self,
        layout: StageLayout,
        inputs: Mapping[int, StageInput],
        profile: Profile,
        learned: Learned,
        txid: int = 1,
        signal: FailureSignal | None = None,
        thorough: bool = False,
        ledger: Ledger | None = None,
        sql: bool = False,
        meter: StepMeter | None = None,
    ) -> None:
        self.layout = layout
        self._ledger = ledger
        self.profile = profile
        self._txid = txid
        self._inputs = inputs
        self._readers: dict[int, PendingFunction | None] = {}
        self._coalesced: set[int] = set()
        self._unordered: set[int] = set()
        self._frames: dict[int, DataFrame] = {}
        self._pending: dict[int, PendingFunction | None] = {}
        self._folds: dict[int, PendingFunction] = {}
        self._expressions = Expressions(learned)
        self._signal = signal
        self._thorough = thorough
        self._sql = sql
        self._meter = meter
        self._checkpoints: list[DataFrame] = []
        self.reports: list[DataFrame] = []
        """A frame of reports for each Python function whose tuples were kept so far. Each row is a report."""

    def frame(self, node: Node) -> DataFrame:
        """Return this node's output, with the fields that any step reads and perhaps more."""
        frame = self._frames.get(id(node))
        if frame is None:
            if id(node) in self._inputs:
                frame = self._input(node)
            elif self.layout.shared(node):
                pending = self.pending(node) if self._keeps_partitions(node) else None
                names = all_quoted(self.layout.names(node))
                frame = (
                    self._keep(self._repartitioned_by_hint(node).select(*names))
                    if pending is None
                    else self._kept_function(pending).select(*names)
                )
            else:
                frame = self._repartitioned_by_hint(node)
            self._frames[id(node)] = frame
        return frame

    def _input(self, node: Node) -> DataFrame:
        """Return the tuples that enter at a node, in as many partitions as a hint asks for."""
        source, count = self._inputs[id(node)], self.layout.partitions.get(id(node))
        frame = (source.unordered() if id(node) in self._unordered else None) or source.frame()
        if id(node) in self._coalesced:
            return frame.coalesce(1)
        return frame if count is None else partitions.spread(frame, count)

    def _repartitioned_by_hint(self, node: Node) -> DataFrame:
        """Return a node's output. It is repartitioned if a hint asks for that and the node moves tuples."""
        frame, count = self._lowered(node), self.layout.partitions[id(node)]
        if count is None or self._keeps_partitions(node):
            return frame
        if isinstance(node, Pick):
            return partitions.in_one(frame, batch_partition(self._txid, count), count)
        if isinstance(node, Aggregate):
            if not node.group:
                return partitions.in_one(frame, batch_partition(self._txid, count), count)
            return partitions.by_fields(frame, node.group, count)
        return partitions.spread(frame, count)

    def _keeps_partitions(self, node: Node) -> bool:
        """Return whether no hint moves a node's tuples out of the partitions in which the node creates them."""
        here = keeps_partitions(node) or isinstance(node, Repartition | StateStep | MultiReduce)
        return here or self.layout.partitions[id(node)] is None

    def keep_input(self, node: Node) -> None:
        """Evaluate an input now and keep the frame, so that it is read once even if several nodes use it."""
        self._frames[id(node)] = self._keep(self.select(node, self.layout.names(node)))

    def _keep(self, frame: DataFrame) -> DataFrame:
        """Evaluate the frame now and keep it, so that it is read once even if several nodes use it.

        Return the kept frame.

        Spark would fill a lost cache again, perhaps with other values. It does not fill a checkpoint again: a job that
        reads a lost part of a checkpoint fails.
        """
        if self.profile.one_process:
            return self._checkpoint(frame)
        check_single_evaluation(frame.sparkSession)
        # If shuffled tuples are lost, Spark runs their stage again, and tasks of the first run may still be running.
        # Then two executors hold two evaluations of one partition. The second checkpoint copies the first: it reads
        # nothing that was shuffled, and holds only one evaluation.
        return self._checkpoint(self._checkpoint(frame))

    def _checkpoint(self, frame: DataFrame) -> DataFrame:
        self._checkpoints.append(checkpointed(frame))
        return self._checkpoints[-1]

    def release(self) -> None:
        """Free the frames that were kept for several readers."""
        while self._checkpoints:
            unpersist(self._checkpoints.pop())

    def _kept_function(self, pending: PendingFunction) -> DataFrame:
        """Return the tuples that a Python function emits. The function is evaluated now, and only once.

        Reports of the function are rows of the evaluated frame; only the driver reads these rows, from `reports`.
        """
        if self._signal is None and not pending.catches and self._ledger is None:
            return self._keep(pending.frame())
        # Spark's own steps read the kept tuples, and cannot tally ids. So the function reports only the tuples that it
        # received.
        both = self._keep(self._sending(pending, f"kept tuples {len(self.reports) + 1}", ids=False)[0].frame())
        self.reports.append(both.where(f"{REPORT} IS NOT NULL").select(REPORT))
        return both.where(f"{REPORT} IS NULL").drop(REPORT)

    def _sending(self, pending: PendingFunction, where: str, ids: bool = True) -> tuple[PendingFunction, Edge | None]:
        """Return the function with reports among its rows, and the edge over which the ledger expects its rows."""
        if self._ledger is None:
            return pending.reporting(self._signal), None
        if pending.root is not None:
            self._ledger.root(pending.root)
        edge = self._ledger.edge(where)
        return pending.reporting(self._signal, edge, ids), edge

    @property
    def _shuffling(self) -> Profile:
        """The profile for bringing rows together. With a ledger, even a small batch is shuffled for this.

        A coalesce would give several partitions to one task, whose number would then stand for all of them in the
        ledger.
        """
        return self.profile if self._ledger is None else replace(self.profile, small=False)

    def _merging(self, spec: FoldSpec) -> Profile:
        """Return the profile for merging accumulators. Those that depend on the order of tuples are always shuffled.

        The task of several coalesced partitions would number the tuples of each partition from the same position.
        """
        return replace(self.profile, small=False) if spec.ordered else self._shuffling

    def _root(self, node: Node, below: Node) -> Root | None:
        """Return the ledger's root for a source with tuples that enter a chain that ends in `node`.

        None if the batch has no ledger, or if no input of the stage is below the chain.
        """
        while self._ledger is not None and id(below) not in self._inputs and moves(below):
            (below,) = sources_of(below)
        source = self._inputs.get(id(below))
        if self._ledger is None or source is None:
            return None
        return Root(f"{below.step} to {node.step}", source.rows)

    def _frame_of(self, pending: PendingFunction) -> DataFrame:
        """Return the tuples that a Python function emits, as a DataFrame for further steps of Spark.

        Spark would treat reports as tuples. So if a function catches failing tuples, its result is kept first, which is
        slow. Usually the function does not catch; if it fails, the stage runs again with a function that does.
        """
        keeps = pending.catches and (self._thorough or isinstance(pending.function, AfterReports))
        return self._kept_function(pending) if keeps else pending.frame()

    def select(self, node: Node, names: Sequence[str]) -> DataFrame:
        """Return these fields of this node's output, in this order."""
        return with_fields(self.frame(node), names)

    # --- Python operations -----------------------------------------------------------------------------------------

    def chain(self, node: Node) -> tuple[Chain, DataFrame] | None:
        """Return the Python operations that end in this node as one function, and the DataFrame that is its input.

        Returns None if the node was lowered already, or if Python has nothing to do.
        """
        return None if id(node) in self._frames else self._chain(node, self.layout.names(node))

    def _chain(self, node: Node, leaving: list[str]) -> tuple[Chain, DataFrame] | None:
        """Return the chain of operations that ends in this node and emits `leaving`, and its input as a DataFrame.

        If Python can read the source, the chain reads it in the same worker.
        """
        works, below = self.layout.chain(node)
        if works and self._sql and self._by_spark(works, below):
            return None
        prepared = needs_lifecycle(works)
        reader = None if prepared else self._reader(below)
        if not works and (reader is None or not self._inputs[id(below)].python_only):
            return None
        schema = arrow_schema(select(node.schema, leaving))
        if reader is not None:
            root = self._root(node, below)
            return Chain(works, reader.leaving, schema, reader.function, None, root, self._meter), reader.source
        _, needed = compile_chain(works, leaving)
        entering = [name for name in below.schema.names if name in needed] or below.schema.names[:1]
        root = self._root(node, below)
        chain = Chain(works, arrow_schema(select(below.schema, entering)), schema, root=root, meter=self._meter)
        if not prepared:
            return chain, self.select(below, entering)
        # The number of the partition within this frame. The number of the task is another one if the frame is in a
        # union: Spark numbers the tasks of all its frames in one sequence.
        numbered = selected(
            self.frame(below), [*all_quoted(entering), f"spark_partition_id() AS {partitions.PARTITION_ID}"]
        )
        return replace(
            chain, lifecycle=Lifecycle(self.layout.partitions[id(node)], self.layout.facts, self._txid)
        ), numbered

    def _by_spark(self, works: Sequence[Work], below: Node) -> bool:
        """Return whether Spark does these works by itself: it can, and it has the tuples."""
        source = self._inputs.get(id(below))
        in_python = source is not None and source.python_only
        return not in_python and all(work.by_spark and work.caught is None for work in works)

    def _reader(self, node: Node) -> PendingFunction | None:
        """Return the function that reads a source in Python; None if a hint sets the number of the source's partitions.

        It is also None for a source with several readers that only Python can read: such a source is read once and
        kept. A source that Spark can read, too, is read again instead, which costs no more.
        """
        source = self._inputs.get(id(node))
        if source is None or self.layout.partitions.get(id(node)) is not None:
            return None
        if source.python_only and self.layout.shared(node):
            return None
        if id(node) not in self._readers:
            self._readers[id(node)] = source.reader()
        return self._readers[id(node)]

    def pending(self, node: Node) -> PendingFunction | None:
        """Return the Python function with the output of this node that is not yet part of a DataFrame.

        Returns None if Spark itself does the node's work, or if the node was lowered already.
        """
        if id(node) in self._frames:
            return None
        if id(node) not in self._pending:  # once: this may keep a frame, and add its reports
            self._pending[id(node)] = self._pending_function(node)
        return self._pending[id(node)]

    def _pending_function(self, node: Node) -> PendingFunction | None:
        chain = self.chain(node)
        if chain is not None:
            return PendingFunction(chain[1], chain[0], chain[0].leaving)
        if id(node) in self._inputs:  # an earlier stage has computed it
            return None
        if isinstance(node, Pick):
            return self._picked(node)
        if isinstance(node, MultiReduce):
            frames = [self.frame(source) for source in node.sources]
            lifecycle = Lifecycle(self.layout.partitions[id(node)], self.layout.facts, self._txid)
            reduced = multi_reduced(node, frames, lifecycle, self.profile)
            return reduced.timed(node.step, self._meter)
        if isinstance(node, Aggregate | PersistentAggregate) and (not all_native(node) or self._merges_reports(node)):
            with analysed(node):
                return self._aggregating(node)
        return self._pane_fold(node) if isinstance(node, WindowPanes) else None

    def _lowered(self, node: Node) -> DataFrame:
        pending = self.pending(node)
        if pending is not None:
            return self._frame_of(pending)
        with analysed(node):
            return self._native(node)

    # --- operations that Spark knows -------------------------------------------------------------------------------

    def _before(self, node: Each) -> list[str]:
        """Return the needed fields before those of the node's function."""
        kept = self.layout.needed[id(node)] - set(node.outputs.names)
        return [name for name in node.source.schema.names if name in kept]

    def _in_sql(self, node: Each | Map | Filter, own: list[str]) -> DataFrame:
        """Return the output of a node whose function has these texts of SQL."""
        frame = self.frame(node.source)
        if isinstance(node, Filter):
            return frame.filter(own[0])
        before, fields = (self._before(node), node.outputs) if isinstance(node, Each) else ([], node.schema)
        pairs = zip(own, fields.fields, strict=True)
        return selected(frame, [*all_quoted(before), *(cast(sql, f.dataType, f.name) for sql, f in pairs)])

    def _native(self, node: Node) -> DataFrame:  # noqa: C901, PLR0912  # one case for each kind of node
        if isinstance(node, Each | Map | Filter):
            own = sql_of(node, all_quoted(node.inputs))
            if own is not None:
                return self._in_sql(node, own)
        match node:
            case Filter() if is_filter_null(node):
                return self.frame(node.source).filter(" AND ".join(f"{n} IS NOT NULL" for n in all_quoted(node.inputs)))
            case Filter():
                return self._expressions.filtered(node, self.frame(node.source))
            case Each(outputs=outputs):
                return self._expressions.appended(node, self.frame(node.source), outputs, self._before(node))
            case Map():
                return self._expressions.appended(node, self.frame(node.source), node.schema, [])
            case Transform():
                return self._expressions.transformed(node, self.select(node.source, node.source.schema.names))
            case Project():
                return self._projected(node)
            case Repartition():
                return self._repartitioned(node)
            case Debug() | ParallelismHint():
                return self.frame(node.source)
            case Aggregate() | PersistentAggregate():
                return self._aggregated(node)
            case Part():
                return self._part(node)
            case PartitionOf():
                return self._numbered(node)
            case WindowPanes():
                return panes_frame(node, self.frame(node.source))
            case Merge():
                return self._merged(node)
            case Join():
                return self._joined(node)
        raise TypeError(f"{node.step}: the Spark engine cannot run a {type(node).__name__}")

    def _projected(self, node: Project) -> DataFrame:
        wanted = set(self.layout.names(node))
        pairs = [pair for pair in zip(node.names, node.schema.names, strict=True) if pair[1] in wanted]
        return selected(self.frame(node.source), [f"{quoted(own)} AS {quoted(name)}" for own, name in pairs])

    # --- aggregates ------------------------------------------------------------------------------------------------

    def _aggregating(self, node: Aggregate | PersistentAggregate) -> PendingFunction:
        """Return an aggregate that Spark does not have, as a Python function."""
        if isinstance(node, Aggregate) and node.scope == "partition":
            return self._partition_aggregate(node)
        if isinstance(node, Aggregate) and not can_fold(node):
            return self._gathering(node)
        folding, spec = self.folding(node), fold_spec(node)
        if self._ends(node) and (folding.catches or self._ledger is not None):
            sending, edge = self._sending(folding, _between(node))
            merged = merged_by_key(sending.frame(), spec, self._merging(spec))
            return merged.timed(node.step, self._meter).behind_reports(edge)
        return merged_by_key(self._frame_of(folding), spec, self._merging(spec)).timed(node.step, self._meter)

    def _ends(self, node: Node) -> bool:
        """Return whether only the driver reads a node's output, so that its rows may include reports.

        An aggregate within the plan carries reports only for the ledger.
        """
        return isinstance(node, PersistentAggregate) or (self._ledger is not None and self.layout.ends(node))

    def _gathering(self, node: Aggregate) -> PendingFunction:
        """Return an aggregate of aggregators that see every tuple of a group."""
        names, spec = read_fields(node), gather_spec(node, self._txid)
        entering = arrow_schema(select(node.source.schema, names))
        if not (node.group and self._ends(node)):
            gathered = gathered_by_key(self.select(node.source, names), spec, entering, self.profile)
            return gathered.timed(node.step, self._meter)
        chain = self._folding_chain(node) or self._as_they_are(node, node.source, names)
        sending, edge = self._sending(PendingFunction(chain[1], chain[0], entering), _between(node))
        gathered = gathered_by_key(sending.frame(), spec, entering, self._shuffling)
        return gathered.timed(node.step, self._meter).behind_reports(edge)

    def _partition_aggregate(self, node: Aggregate) -> PendingFunction:
        """Return an aggregate of every partition, in the same workers as the Python operations before it."""
        if can_fold(node):
            return merged_in_partitions(self.folding(node), fold_spec(node)).timed(node.step, self._meter)
        names = read_fields(node)
        entering = arrow_schema(select(node.source.schema, names))
        chain = self._folding_chain(node) or self._as_they_are(node, node.source, names)
        tuples = PendingFunction(chain[1], chain[0], entering)
        return gathered_in_partitions(tuples, gather_spec(node, self._txid)).timed(node.step, self._meter)

    def _picked(self, node: Pick) -> PendingFunction:
        """Return a selection from each partition, in the same workers as the Python operations before it.

        For a whole batch a second selection is made among the tuples that were selected in the partitions.
        """
        reads = {*self.layout.names(node), *node.inputs}
        names = [name for name in node.schema.names if name in reads]
        entering = arrow_schema(select(node.schema, names))
        chain = self._unshared_chain(node.source, names) or self._as_they_are(node, node.source, names)
        function = PickTuples(PickSpec.of(node), entering)
        parts = PendingFunction(chain[1], chain[0], entering).then(function, entering).timed(node.step, self._meter)
        if node.scope == "partition":
            return parts
        if not self._ends(node):
            together = collocated(self._frame_of(parts), (), self.profile)
            return PendingFunction(together, function, entering).timed(node.step, self._meter)
        sending, edge = self._sending(parts, _between(node))
        together = collocated(sending.frame(), (), self._shuffling)
        return PendingFunction(together, function, entering).timed(node.step, self._meter).behind_reports(edge)

    def folding(self, node: Aggregate | PersistentAggregate) -> PendingFunction:
        """Return one accumulator for each key and partition.

        The fold runs in the same workers as the Python operations before it, if there are any.
        """
        if id(node) not in self._folds:
            self._folds[id(node)] = self._folding(node, self._folding_chain(node))
        return self._folds[id(node)]

    def _folding(self, node: Aggregate | PersistentAggregate, chain: tuple[Chain, DataFrame] | None) -> PendingFunction:
        spec = fold_spec(node)
        if chain is None:
            chain = self._as_they_are(node, node.source, read_fields(node))
        folding = PendingFunction(chain[1], PartialFold(chain[0], spec, self._txid), spec.schema)
        return folding.timed(node.step, self._meter)

    def folds_in_python(self, node: Aggregate | PersistentAggregate) -> bool:
        """Return whether Python, and not Catalyst, folds a partition's tuples.

        Python does if only Python can, or if the tuples are in Python already.
        """
        if id(node) in self._folds:
            return True
        chain = self._folding_chain(node)
        if chain is not None:
            self._folds[id(node)] = self._folding(node, chain)
        return chain is not None or not all_native(node)

    def _folding_chain(self, node: Aggregate | PersistentAggregate) -> tuple[Chain, DataFrame] | None:
        """Return the Python operations before an aggregate, if nothing else reads their output; otherwise None."""
        return self._unshared_chain(node.source, read_fields(node))

    def _as_they_are(self, node: Node, source: Node, names: Sequence[str]) -> tuple[Chain, DataFrame]:
        """Return the output of `source` as the input of `node`'s function, with a chain that changes nothing."""
        schema = arrow_schema(select(source.schema, names))
        return Chain((), schema, schema, root=self._root(node, source)), self.select(source, names)

    def _unshared_chain(self, node: Node, leaving: list[str]) -> tuple[Chain, DataFrame] | None:
        """Return the Python operations that end in this node, if only one node reads it; else None."""
        if id(node) in self._frames or self.layout.shared(node):
            return None
        return self._chain(node, leaving)

    def _merges_reports(self, node: Aggregate | PersistentAggregate) -> bool:
        """Return whether Python merges accumulators that Catalyst could merge, because reports or ids come with them.

        Catalyst would take reports for tuples. Python merges only accumulators that it merges as fast as Catalyst.
        """
        if not isinstance(node, PersistentAggregate) or not self.folds_in_python(node):
            return False
        reports = self.folding(node).catches or self._ledger is not None
        return reports and arrow_can_merge(fold_spec(node))

    def _aggregated(self, node: Aggregate | PersistentAggregate) -> DataFrame:
        if self.folds_in_python(node):
            partials = self._frame_of(self.folding(node))
            return aggregated(partials.coalesce(1) if self.profile.tiny else partials, fold_spec(node), partial=True)
        self._spare_input(node.source, coalesce=bool(node.group))
        return aggregated(self.frame(node.source), fold_spec(node), partial=False)

    def _spare_input(self, node: Node, coalesce: bool) -> None:
        """Allow any order for the input that leads to this node, whose tuples Catalyst aggregates.

        The input keeps its order if another node reads it. All aggregates that Catalyst computes have the same result
        in any order. If the input has one partition, coalesce it. Spark does not know that it has one, and would
        otherwise shuffle partial results. The coalesce comes directly after the scan: at a later step it would split
        the loop in which Spark runs that step together with the next ones.
        """
        while self.layout.partitions.get(id(node)) is None and not self.layout.shared(node):
            if id(node) in self._inputs:
                self._unordered.add(id(node))
                if coalesce and (self.profile.tiny or self._inputs[id(node)].one_partition):
                    self._coalesced.add(id(node))
                return
            if not isinstance(node, Each | Filter | Map | Project | Debug):
                return
            (node,) = sources_of(node)

    def _pane_fold(self, node: WindowPanes) -> PendingFunction | None:
        """Return the panes folded by Python; None if Catalyst can fold them and Python does not have the tuples."""
        reads = set(entering_panes(node))
        names = [name for name in node.source.schema.names if name in reads] or node.source.schema.names[:1]
        chain = self._unshared_chain(node.source, names)
        assert node.windowing.aggregation is not None
        spec = pane_spec(node)
        if chain is None:
            if node.windowing.aggregation.native is not None and spec.lattice.zone is None:
                return None
            chain = self._as_they_are(node, node.source, names)
        folding = PendingFunction(chain[1], PaneFold(chain[0], spec, self._txid), spec.schema)
        return folding.timed(node.step, self._meter)

    # --- partitions ------------------------------------------------------------------------------------------------

    def _repartitioned(self, node: Repartition) -> DataFrame:
        names, count = self.layout.names(node), self.layout.partitions[id(node)]
        if node.how is Placing.CUSTOM:
            return partitions.chosen(self._frame_of(self._choosing(node, names, count or 1)), names, count or 1)
        before, own = self.layout.partitions[id(node.source)], self.profile.partitions
        return partitions.repartitioned(node, self.frame(node.source), names, before, count, own, self._txid)

    def _choosing(self, node: Repartition, names: list[str], count: int) -> PendingFunction:
        """Return the tuples with one more field: the number of the partition that the user's function chooses."""
        choice = choice_of(node, count)
        entering = list(dict.fromkeys([*names, *node.names]))
        leaving = arrow_schema(select(node.schema, names)).append(choice.outputs.field(0))
        before = self._unshared_chain(node.source, entering)
        if before is not None:
            chain, frame = before
            return PendingFunction(frame, replace(chain, works=(*chain.works, choice), leaving=leaving), leaving)
        schema = arrow_schema(select(node.source.schema, entering))
        choosing = Chain((choice,), schema, leaving, meter=self._meter)
        return PendingFunction(self.select(node.source, entering), choosing, leaving)

    # --- several streams of one ------------------------------------------------------------------------------------

    def _part(self, node: Part) -> DataFrame:
        wanted = set(self.layout.names(node))
        own = own_fields(node)
        items = [f"{quoted(inner)} AS {quoted(name)}" for inner, name in own.items() if name in wanted]
        return selected(self.frame(node.source).filter(f"{STREAM_NUMBER} = {node.number}"), items)

    def _numbered(self, node: PartitionOf) -> DataFrame:
        own = node.schema.names[-1]
        fields = [name for name in self.layout.names(node) if name != own]
        return partitions.numbered(self.frame(node.source), fields, own, self.layout.partitions[id(node)] or 1)

    # --- several sources -------------------------------------------------------------------------------------------

    def _merged(self, node: Merge) -> DataFrame:
        union = merged(node, [self.frame(source) for source in node.sources], self.layout.names(node))
        count = self.layout.partitions[id(node)]
        return union if count is None else partitions.side_by_side(union, count)

    def _joined(self, node: Join) -> DataFrame:
        needed = [self.layout.needed[id(source)] for source in node.sources]
        used = [
            [n for n in source.schema.names if n in fields] for source, fields in zip(node.sources, needed, strict=True)
        ]
        return joined(node, [self.frame(source) for source in node.sources], used, self.layout.names(node))


def _between(node: Node) -> str:
    """Return the ledger's name for the shuffle before a node."""
    return f"{node.step} between partitions"
