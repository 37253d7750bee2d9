"""A stage's plan as DataFrames: a new one for every attempt.

Native operations become Columns, Python ones in a row one ``mapInArrow``, aggregates Catalyst's own or partial folds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from trident.base.types import arrow_schema, select
from trident.compiler.aggregates.selections import PickSpec
from trident.compiler.aggregates.specs import all_native, can_fold, fold_spec, gather_spec, read_fields
from trident.compiler.columns.kernels import compile_chain
from trident.compiler.columns.lifecycle import needs_lifecycle
from trident.compiler.columns.partitions import batch_partition, choice_of
from trident.compiler.layout import Layout, is_filter_null
from trident.compiler.spark import partitions
from trident.compiler.spark.aggregates import aggregated, gathered_in_place, gathering, meeting, met_in_place, together
from trident.compiler.spark.expressions import Expressions, Learned, analysed
from trident.compiler.spark.failure_signal import Bell
from trident.compiler.spark.inputs import Start
from trident.compiler.spark.joins import joined, merged
from trident.compiler.spark.multireduces import multi_reduced
from trident.compiler.spark.panes import panes_frame
from trident.compiler.spark.pending_function import Tail
from trident.compiler.spark.pinned_confs import check_single_evaluation
from trident.compiler.spark.sessions import Profile, checkpointed, free
from trident.compiler.spark.sql_names import all_quoted, quoted
from trident.compiler.spark.worker_aggregates import PaneFold, Partial, Picked
from trident.compiler.spark.worker_functions import CAUGHT, FAILURE, Catching, Chain, Life, Telling
from trident.compiler.windows.inputs import entering_panes
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
from trident.plan.partitions import stays
from trident.plan.split_schema import PLACE, own_fields


class Lowering:
    """One attempt's DataFrames, by node. `starts` are what they are made from (by id)."""

    def __init__(
        self,
        layout: Layout,
        starts: Mapping[int, Start],
        profile: Profile,
        learned: Learned,
        txid: int = 1,
        bell: Bell | None = None,
    ) -> None:
        self.layout = layout
        self.profile = profile
        self._txid = txid
        self._starts = starts
        self._readers: dict[int, Tail | None] = {}
        self._ones: set[int] = set()
        self._frames: dict[int, DataFrame] = {}
        self._folds: dict[int, Tail] = {}
        self._expressions = Expressions(learned)
        self._bell = bell
        self._checkpoints: list[DataFrame] = []
        self.failures: list[DataFrame] = []
        """Failures that are rows of what was kept: of each node that was lowered so far."""
        self.caught: list[DataFrame] = []
        """What was caught, as lines of `CAUGHT`: of each node that was lowered so far."""

    def frame(self, node: Node) -> DataFrame:
        """What leaves this node: the fields that anybody reads, and perhaps more."""
        found = self._frames.get(id(node))
        if found is None:
            if id(node) in self._starts:
                found = self._start(node)
            elif node in self.layout.tops:
                found = self._parted(node)
            elif self.layout.shared(node):
                tail = self.tail(node) if self._stays(node) else None
                names = all_quoted(self.layout.names(node))
                found = (
                    self._keep(self._placed(node).select(*names)) if tail is None else self._kept(tail).select(*names)
                )
            else:
                found = self._placed(node)
            self._frames[id(node)] = found
        return found

    def _start(self, node: Node) -> DataFrame:
        """What enters at a node, in as many partitions as anybody said."""
        found, count = self._starts[id(node)].frame(), self.layout.partitions.get(id(node))
        if id(node) in self._ones:
            return found.coalesce(1)
        return found if count is None else partitions.spread(found, count)

    def _parted(self, node: Node) -> DataFrame:
        """What leaves a node without what was caught on the way; both are of one evaluation."""
        chain = self._chain(node, self.layout.names(node))
        assert chain is not None, "what catches is a Python operation"
        function = Catching(chain[0])
        both = self._kept(Tail(chain[1], function, function.leaving))
        self.caught.append(both.where(f"{CAUGHT} IS NOT NULL").select(CAUGHT))
        return both.where(f"{CAUGHT} IS NULL").select(*all_quoted(self.layout.names(node)))

    def _placed(self, node: Node) -> DataFrame:
        """What leaves a node, in as many partitions as anybody said where it brings tuples from elsewhere."""
        found, count = self._lowered(node), self.layout.partitions[id(node)]
        if count is None or self._stays(node):
            return found
        if isinstance(node, Pick):
            return partitions.in_one(found, batch_partition(self._txid, count), count)
        if isinstance(node, Aggregate):
            if not node.group:
                return partitions.in_one(found, batch_partition(self._txid, count), count)
            return partitions.by_fields(found, node.group, count)
        return partitions.spread(found, count)

    def _stays(self, node: Node) -> bool:
        """Whether the tuples that leave a node are where the node makes them."""
        here = stays(node) or isinstance(node, Repartition | StateStep | MultiReduce)
        return here or self.layout.partitions[id(node)] is None

    def keep_start(self, node: Node) -> None:
        """Read a start once, however many read it."""
        self._frames[id(node)] = self._keep(self.select(node, self.layout.names(node)))

    def _keep(self, frame: DataFrame) -> DataFrame:
        """The frame, evaluated now and once, however many read it. A cache would be filled again, with other values,
        where it was lost; a checkpoint has nothing to be filled from, so that whoever reads a lost part of it fails."""
        if self.profile.together:
            return self._checkpoint(frame)
        check_single_evaluation(frame.sparkSession)
        # A stage runs again where shuffled tuples were lost, and tasks of its first run go on meanwhile: two executors
        # then hold two evaluations of one partition. A copy fetches nothing that was shuffled, and has one of them.
        return self._checkpoint(self._checkpoint(frame))

    def _checkpoint(self, frame: DataFrame) -> DataFrame:
        self._checkpoints.append(checkpointed(frame))
        return self._checkpoints[-1]

    def release(self) -> None:
        """Let go of what was kept for several readers."""
        while self._checkpoints:
            free(self._checkpoints.pop())

    def _kept(self, tail: Tail) -> DataFrame:
        """What a Python function gives, evaluated now and once. A failure is a row of it, for the driver alone."""
        if self._bell is None:
            return self._keep(tail.frame())
        function = Telling(tail.function, tail.leaving, self._bell)
        both = self._keep(Tail(tail.source, function, function.leaving).frame())
        self.failures.append(both.where(f"{FAILURE} IS NOT NULL").select(FAILURE))
        return both.where(f"{FAILURE} IS NULL").drop(FAILURE)

    def select(self, node: Node, names: Sequence[str]) -> DataFrame:
        """These fields of what leaves this node, in this order."""
        return self.frame(node).select(*all_quoted(names))

    # --- Python operations -----------------------------------------------------------------------------------------

    def chain(self, node: Node) -> tuple[Chain, DataFrame] | None:
        """The Python operations that end in this node as one function, and the DataFrame it runs over."""
        return None if id(node) in self._frames else self._chain(node, self.layout.names(node))

    def _chain(self, node: Node, leaving: list[str]) -> tuple[Chain, DataFrame] | None:
        """The same for these fields of the node. A source that Python reads, or may, is read in the same worker."""
        works, below = self.layout.chain(node)
        alive = needs_lifecycle(works)
        reader = None if alive else self._reader(below)
        if not works and (reader is None or not self._starts[id(below)].only):
            return None
        schema = arrow_schema(select(node.schema, leaving))
        if reader is not None:
            return Chain(works, reader.leaving, schema, reader.function), reader.source
        _, needed = compile_chain(works, leaving)
        entering = [name for name in below.schema.names if name in needed] or below.schema.names[:1]
        chain = Chain(works, arrow_schema(select(below.schema, entering)), schema)
        if not alive:
            return chain, self.select(below, entering)
        # Spark numbers the tasks of a union through; this is the partition's number in its own frame
        numbered = self.frame(below).selectExpr(*all_quoted(entering), f"spark_partition_id() AS {partitions.PLACE}")
        return replace(chain, life=Life(self.layout.partitions[id(node)])), numbered

    def _reader(self, node: Node) -> Tail | None:
        """What reads a source in Python, where nobody said how many partitions it has. What only Python reads is kept
        for several readers; what Spark reads too costs no more to read again."""
        start = self._starts.get(id(node))
        if start is None or self.layout.partitions.get(id(node)) is not None:
            return None
        if start.only and self.layout.shared(node):
            return None
        if id(node) not in self._readers:
            self._readers[id(node)] = start.reader()
        return self._readers[id(node)]

    def tail(self, node: Node) -> Tail | None:
        """The Python function that this node ends in, not yet part of a DataFrame; None where Spark's own work is
        last, or where it is made already."""
        if id(node) in self._frames:
            return None
        chain = self.chain(node)
        if chain is not None:
            return Tail(chain[1], chain[0], chain[0].leaving)
        if isinstance(node, Pick):
            return self._picked(node)
        if isinstance(node, MultiReduce):
            frames = [self.frame(source) for source in node.sources]
            return multi_reduced(node, frames, self.layout.partitions[id(node)], self.profile)
        if isinstance(node, Aggregate | PersistentAggregate) and not all_native(node):
            with analysed(node):
                return self._aggregating(node)
        return self._pane_fold(node) if isinstance(node, WindowPanes) else None

    def _lowered(self, node: Node) -> DataFrame:
        tail = self.tail(node)
        if tail is not None:
            return tail.frame()
        with analysed(node):
            return self._native(node)

    # --- operations that Spark knows -------------------------------------------------------------------------------

    def _native(self, node: Node) -> DataFrame:
        match node:
            case Filter() if is_filter_null(node):
                return self.frame(node.source).filter(" AND ".join(f"{n} IS NOT NULL" for n in all_quoted(node.inputs)))
            case Filter():
                return self._expressions.filtered(node, self.frame(node.source))
            case Each(outputs=outputs):
                kept = [name for name in node.source.schema.names if name in self.layout.needed[id(node)]]
                return self._expressions.appended(node, self.frame(node.source), outputs, kept)
            case Map():
                return self._expressions.appended(node, self.frame(node.source), node.schema, [])
            case Transform():
                return self._expressions.transformed(node, self.select(node.source, node.source.schema.names))
            case Project(names=names):
                return self.frame(node.source).select(*all_quoted(names))
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
        raise TypeError(f"{node.step}: the Spark engine knows no {type(node).__name__}")

    # --- aggregates ------------------------------------------------------------------------------------------------

    def _aggregating(self, node: Aggregate | PersistentAggregate) -> Tail:
        """An aggregate that Spark does not know."""
        if isinstance(node, Aggregate) and node.scope == "partition":
            return self._in_partitions(node)
        if isinstance(node, Aggregate) and not can_fold(node):
            names = read_fields(node)
            entering = arrow_schema(select(node.source.schema, names))
            return gathering(self.select(node.source, names), gather_spec(node, self._txid), entering, self.profile)
        return meeting(self.folding(node).frame(), fold_spec(node), self.profile)

    def _in_partitions(self, node: Aggregate) -> Tail:
        """An aggregate of every partition, where the Python operations before it run."""
        if can_fold(node):
            return met_in_place(self.folding(node), fold_spec(node))
        names = read_fields(node)
        entering = arrow_schema(select(node.source.schema, names))
        chain = self._folding_chain(node) or (Chain((), entering, entering), self.select(node.source, names))
        return gathered_in_place(Tail(chain[1], chain[0], entering), gather_spec(node, self._txid))

    def _picked(self, node: Pick) -> Tail:
        """What is picked of each partition, where the Python operations before it run; for the batch, picked again."""
        reads = {*self.layout.names(node), *node.inputs}
        names = [name for name in node.schema.names if name in reads]
        entering = arrow_schema(select(node.schema, names))
        chain = self._own_chain(node.source, names) or (Chain((), entering, entering), self.select(node.source, names))
        function = Picked(PickSpec.of(node), entering)
        parts = Tail(chain[1], chain[0], entering).then(function, entering)
        return (
            parts if node.scope == "partition" else Tail(together(parts.frame(), (), self.profile), function, entering)
        )

    def folding(self, node: Aggregate | PersistentAggregate) -> Tail:
        """One accumulator a key and partition, folded where the Python operations before it run, if there are any."""
        if id(node) not in self._folds:
            self._folds[id(node)] = self._folding(node, self._folding_chain(node))
        return self._folds[id(node)]

    def _folding(self, node: Aggregate | PersistentAggregate, chain: tuple[Chain, DataFrame] | None) -> Tail:
        spec = fold_spec(node)
        if chain is None:
            names = read_fields(node)
            schema = arrow_schema(select(node.source.schema, names))
            chain = Chain((), schema, schema), self.select(node.source, names)
        return Tail(chain[1], Partial(chain[0], spec), spec.schema)

    def folds_in_python(self, node: Aggregate | PersistentAggregate) -> bool:
        """Whether a partition's tuples are folded by Python: because only Python can, or because they are there."""
        if id(node) in self._folds:
            return True
        chain = self._folding_chain(node)
        if chain is not None:
            self._folds[id(node)] = self._folding(node, chain)
        return chain is not None or not all_native(node)

    def _folding_chain(self, node: Aggregate | PersistentAggregate) -> tuple[Chain, DataFrame] | None:
        """The Python operations before an aggregate that nobody else reads: the fold can run with them."""
        return self._own_chain(node.source, read_fields(node))

    def _own_chain(self, node: Node, leaving: list[str]) -> tuple[Chain, DataFrame] | None:
        """The Python operations that end in this node, if nobody else reads it."""
        if id(node) in self._frames or self.layout.shared(node):
            return None
        return self._chain(node, leaving)

    def _aggregated(self, node: Aggregate | PersistentAggregate) -> DataFrame:
        if self.folds_in_python(node):
            return aggregated(self.folding(node).frame(), fold_spec(node), partial=True)
        if node.group:
            self._tell_one(node.source)
        return aggregated(self.frame(node.source), fold_spec(node), partial=False)

    def _tell_one(self, node: Node) -> None:
        """Tell Spark of a start that it is one partition, where nobody places the tuples of this node, which it alone
        reads, elsewhere: Spark does not know, and would shuffle. Further up a coalesce would part what is one loop."""
        while self.layout.partitions.get(id(node)) is None and not self.layout.shared(node):
            if id(node) in self._starts:
                if self._starts[id(node)].one:
                    self._ones.add(id(node))
                return
            if not isinstance(node, Each | Filter | Map | Project | Debug):
                return
            (node,) = sources_of(node)

    def _pane_fold(self, node: WindowPanes) -> Tail | None:
        """Panes folded by Python, where only Python can or where the tuples are there already."""
        reads = set(entering_panes(node))
        names = [name for name in node.source.schema.names if name in reads] or node.source.schema.names[:1]
        chain = self._own_chain(node.source, names)
        assert node.windowing.aggregation is not None
        if chain is None:
            if node.windowing.aggregation.native is not None:
                return None
            schema = arrow_schema(select(node.source.schema, names))
            chain = Chain((), schema, schema), self.select(node.source, names)
        spec = pane_spec(node)
        return Tail(chain[1], PaneFold(chain[0], spec), spec.schema)

    # --- partitions ------------------------------------------------------------------------------------------------

    def _repartitioned(self, node: Repartition) -> DataFrame:
        names, count = self.layout.names(node), self.layout.partitions[id(node)]
        if node.how is Placing.CUSTOM:
            return partitions.chosen(self._choosing(node, names, count or 1).frame(), names, count or 1)
        before, own = self.layout.partitions[id(node.source)], self.profile.partitions
        return partitions.repartitioned(node, self.frame(node.source), names, before, count, own, self._txid)

    def _choosing(self, node: Repartition, names: list[str], count: int) -> Tail:
        """The tuples with the partitions that the user's function chooses."""
        choice = choice_of(node, count)
        entering = list(dict.fromkeys([*names, *node.names]))
        leaving = arrow_schema(select(node.schema, names)).append(choice.outputs.field(0))
        before = self._own_chain(node.source, entering)
        if before is not None:
            chain, frame = before
            return Tail(frame, replace(chain, works=(*chain.works, choice), leaving=leaving), leaving)
        schema = arrow_schema(select(node.source.schema, entering))
        return Tail(self.select(node.source, entering), Chain((choice,), schema, leaving), leaving)

    # --- several streams of one ------------------------------------------------------------------------------------

    def _part(self, node: Part) -> DataFrame:
        wanted = set(self.layout.names(node))
        own = own_fields(node)
        items = [f"{quoted(inner)} AS {quoted(name)}" for inner, name in own.items() if name in wanted]
        return self.frame(node.source).filter(f"{PLACE} = {node.place}").selectExpr(*items)

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
        used = [[n for n in source.schema.names if n in own] for source, own in zip(node.sources, needed, strict=True)]
        return joined(node, [self.frame(source) for source in node.sources], used, self.layout.names(node))
