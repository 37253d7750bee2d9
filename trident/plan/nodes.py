"""The nodes of a plan: one frozen dataclass for each kind of step, with typed fields and no behaviour.

Nodes are compared by identity: a stream used twice is one node with two readers. The log stores the names of node
classes and of their fields with each waiting batch. If you rename one, keep its stored name in
`trident.compiler.outline`.
"""

import enum
from collections.abc import Callable, Container
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from pyspark.sql.types import StructField, StructType

from trident.base.callsite import CallSite
from trident.files.object_options import Storage
from trident.operations.aggregators import Aggregation, AnyAggregation, Reduction
from trident.operations.bundles import bundle_of
from trident.operations.column_updaters import ColumnUpdater
from trident.operations.error_policy import OnError
from trident.operations.evolution import Evolution
from trident.operations.functions import Operation, Query, Updating
from trident.operations.initial_state import InitialState
from trident.operations.interval_joins import IntervalJoining
from trident.operations.multireducers import MultiReduction
from trident.operations.selections import Picking
from trident.operations.stateful import Stateful
from trident.operations.window_aggregators import Windowing
from trident.operations.window_joins import WindowJoining
from trident.operations.windows import Clocked
from trident.plan.delta_target import DeltaTarget
from trident.plan.jdbc_target import JdbcTarget
from trident.plan.kafka_target import KafkaTarget
from trident_spouts.executor import Spout
from trident_state.store import StateFactory

SIDES = ("left", "right")
"""The sides of a join by time, as users and states name them."""

Scope = Literal["batch", "partition"]
"""The tuples that an aggregate sees at once: those of the batch, or those of one partition."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Node:
    """One step of a stream.

    `step` is the node's label in errors, events and pictures ("sentences/2:each(split)"). `site` is the line of the
    user's program that made the node, `schema` has the fields of the tuples that the node outputs.
    """

    step: str = field(kw_only=True)
    site: CallSite = field(kw_only=True)
    schema: StructType = field(kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class Derived(Node):
    """Tuples that the driver creates during a commit turn, and that the log freezes as a separate output.

    No engine computes them. Only later stages read them. The output's name is `origin` followed by `ending`.
    """

    ending: ClassVar[str]
    """The suffix of the output's name in the log, which marks this kind of output."""

    after_source: ClassVar[bool] = False
    """True if the tuples are created in the stage after that of their source, from the source's frozen tuples."""

    beside_state: ClassVar[bool] = False
    """True if the output of the state always accompanies this one, so that descriptions omit this one."""

    @property
    def origin(self) -> str:
        """The name of the state, or of the step, from which the tuples come."""
        raise NotImplementedError


# --- where tuples come from --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class SpoutSource(Node):
    """The tuples of a spout's batch.

    `formerly` is the name that the stream had in earlier programs. With `anew`, the stream may begin at the start of
    its source if the log has no position for it. With `bootstrap`, the other streams of its group begin after its end.
    """

    stream: str
    spout: Spout
    formerly: str | None = None
    anew: bool = False
    bootstrap: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RequestSource(Node):
    """The arguments of DRPC requests. A hidden first field of the compiled table distinguishes the requests."""

    function: str


# --- one source --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Each(Node):
    """Every tuple, repeated for each emission of the function. A tuple without an emission is dropped.

    An emitted field replaces the tuple's field of the same name. If there is none, the emitted field is appended.
    """

    source: Node
    inputs: tuple[str, ...]
    function: Operation
    outputs: StructType
    onError: OnError | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Filter(Node):
    """The tuples that the predicate keeps. The predicate sees only the fields in `inputs`."""

    source: Node
    inputs: tuple[str, ...]
    predicate: Operation
    onError: OnError | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Map(Node):
    """The function's emissions instead of each tuple: exactly one for map, any number for flatMap."""

    source: Node
    inputs: tuple[str, ...]
    function: Operation
    onError: OnError | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Project(Node):
    """The fields in `names`, in that order. `schema` has their new names, by position."""

    source: Node
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Peek(Node):
    """Every tuple unchanged. A user's function is called with it first, in its partition, at every attempt."""

    source: Node
    inputs: tuple[str, ...]
    action: Operation
    onError: OnError | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LettersOf(Derived):
    """The tuples on which a step's function failed, as dead letters (`trident.operations.dead_letters.LETTER`)."""

    ending: ClassVar[str] = "~"

    source: Node

    @property
    def origin(self) -> str:
        """The label of the step that fails."""
        return self.source.step


@dataclass(frozen=True, slots=True, eq=False)
class Debug(Node):
    """Every tuple unchanged. The run shows the first `limit` tuples of each batch."""

    source: Node
    inputs: tuple[str, ...]
    label: str
    limit: int = 100


@dataclass(frozen=True, slots=True, eq=False)
class Transform(Node):
    """The result of ``function(DataFrame, **frames) -> DataFrame`` for the batch. Only Spark can run it."""

    source: Node
    function: Operation
    frames: tuple[tuple[str, Any], ...]


class Placing(enum.Enum):
    """The rule that determines the partition of a tuple."""

    SHUFFLE = "shuffle"
    LOCAL_OR_SHUFFLE = "localOrShuffle"
    FIELDS = "partitionBy"
    BROADCAST = "broadcast"
    GLOBAL = "global_"
    BATCH_GLOBAL = "batchGlobal"
    IDENTITY = "identityPartition"
    CUSTOM = "partition"


@dataclass(frozen=True, slots=True, eq=False)
class Repartition(Node):
    """The same tuples in other partitions.

    `names` are the fields that decide (FIELDS) or that `function` sees (CUSTOM).
    """

    source: Node
    how: Placing
    names: tuple[str, ...] = ()
    function: Operation | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ParallelismHint(Node):
    """The same tuples, in `count` partitions from the repartitioning before this step to the next one after it."""

    source: Node
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One aggregator of an aggregate. It reads the fields in `inputs` and returns the fields in `outputs`."""

    inputs: tuple[str, ...]
    how: AnyAggregation
    outputs: StructType


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate(Node):
    """The aggregates of each group of the batch: the group fields, then the outputs of every member.

    Without group fields the whole batch is one group, even if it is empty. If several members emit several tuples each,
    every combination is output, and the tuples of the last member change fastest. With the scope "partition", each
    partition is aggregated by itself.
    """

    source: Node
    group: tuple[str, ...]
    members: tuple[Member, ...]
    scope: Scope = "batch"


@dataclass(frozen=True, slots=True, eq=False)
class Pick(Node):
    """Whole tuples, picked from the batch or from every partition by the fields in `inputs`."""

    source: Node
    inputs: tuple[str, ...]
    picking: Picking
    scope: Scope


# --- state steps -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class StateSpec:
    """A state as a topology declares it. `name` is its identity within the topology.

    `evolve` are the former shapes from which a start may continue, `initial` the initial content of the state. With
    `backfill`, the state begins with the tuples that its streams had before it was added.
    """

    name: str
    factory: StateFactory
    evolve: tuple[Evolution, ...] = ()
    initial: InitialState | None = None
    backfill: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class PersistentAggregate(Node):
    """The batch's aggregate, combined into a state. The output is the keys of the batch, each with its new value."""

    source: Node
    group: tuple[str, ...]
    inputs: tuple[str, ...]
    aggregation: Aggregation
    state: StateSpec

    @property
    def members(self) -> tuple[Member, ...]:
        """The combiners of the accumulators in the state's value: one, or all of a bundle."""
        bundle = bundle_of(self.aggregation)
        pairs = [(self.inputs, self.aggregation)]
        if bundle is not None:
            pairs = [(member.inputs, member.aggregation) for member in bundle.members]
        return tuple(Member(inputs, how, StructType([StructField(how.output, how.type)])) for inputs, how in pairs)


@dataclass(frozen=True, slots=True, eq=False)
class PersistentReduce(Node):
    """Each group's tuples of the batch, folded one after the other onto the stored value.

    The output is the keys of the batch, each with its new value.
    """

    source: Node
    group: tuple[str, ...]
    inputs: tuple[str, ...]
    reduction: Reduction
    state: StateSpec


@dataclass(frozen=True, slots=True, eq=False)
class PartitionPersist(Node):
    """A state that an updater or a stateful operation changes, or that the library changes over whole columns.

    `schema` has the state's fields: `keys`, then the value. `outputs` are the fields that the updater emits. Only the
    library's own updaters have a `watermark`.
    """

    source: Node
    inputs: tuple[str, ...]
    updating: Updating | Stateful | ColumnUpdater
    outputs: StructType
    keys: StructType
    state: StateSpec
    watermark: "Watermark | None" = None


# --- windows: panes that enter, the watermark, the open windows, their results ---------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class PartitionOf(Node):
    """Every tuple, with its partition's number as the last field: 0 unless the program asks for several partitions."""

    source: Node


@dataclass(frozen=True, slots=True, eq=False)
class WindowPanes(Node):
    """The batch's tuples, combined by group and by pane of event time.

    If windows use the batch's time, the tuples are combined only by group. The output fields are the pane's start, the
    group fields, the accumulator and the latest time.
    """

    source: Node
    group: tuple[str, ...]
    inputs: tuple[str, ...]
    windowing: Windowing


@dataclass(frozen=True, slots=True, eq=False)
class Watermark(Node):
    """The watermark, as a state of one value that never decreases. `schema` has the field of that value."""

    source: Node
    windowing: Clocked
    keys: StructType
    state: StateSpec


@dataclass(frozen=True, slots=True, eq=False)
class Window(Node):
    """The open windows of tuples or panes, as a state.

    `schema` has the state's fields: `keys`, then the value. `outputs` are the fields of the results.
    """

    source: Node
    group: tuple[str, ...]
    inputs: tuple[str, ...]
    windowing: Windowing
    outputs: StructType
    keys: StructType
    state: StateSpec
    watermark: Watermark | None


@dataclass(frozen=True, slots=True, eq=False)
class IntervalJoin(Node):
    """The tuples of two streams that wait for partners, as a state. The node `Emitted` has the joined pairs.

    `schema` has the state's fields: `keys`, then the value. `outputs` are the fields of the pairs. `watermarks` are
    those of the two streams.
    """

    sources: tuple[Node, Node]
    joining: IntervalJoining
    outputs: StructType
    keys: StructType
    state: StateSpec
    watermarks: tuple[Watermark, Watermark]


@dataclass(frozen=True, slots=True, eq=False)
class WindowJoin(Node):
    """The tuples of two streams that wait until their windows close, as a state. `Emitted` has the joined tuples.

    The fields are those of an `IntervalJoin`.
    """

    sources: tuple[Node, Node]
    joining: WindowJoining
    outputs: StructType
    keys: StructType
    state: StateSpec
    watermarks: tuple[Watermark, Watermark]


@dataclass(frozen=True, slots=True, eq=False)
class Emitted(Derived):
    """The tuples that an updater emits through its collector, or the results of a window or of a join by time."""

    ending: ClassVar[str] = ">"
    beside_state: ClassVar[bool] = True

    source: "EmittingUpdate"

    @property
    def origin(self) -> str:
        """The name of the state of the update."""
        return self.source.state.name


@dataclass(frozen=True, slots=True, eq=False)
class LateTuples(Derived):
    """The tuples that came after all their windows had closed, are older than the watermark, or have no time.

    `side` is the number of the stream of a join by time.
    """

    ending: ClassVar[str] = ">late"
    after_source: ClassVar[bool] = True
    beside_state: ClassVar[bool] = True

    source: Node
    window: "EmittingUpdate"
    side: int | None = None

    @property
    def origin(self) -> str:
        """The name of the state, or of the stream of a join, for which the tuples are late."""
        return self.window.state.name if self.side is None else f"{self.window.state.name}.{SIDES[self.side]}"


@dataclass(frozen=True, slots=True, eq=False)
class StaticState(Node):
    """A state that this topology only reads.

    `schema` has the fields in `keys`, then the value. `writer` is the topology that writes the state, or None if no
    topology does.
    """

    keys: StructType
    state: StateSpec
    writer: str | None


TimeJoin = IntervalJoin | WindowJoin
"""A join of two streams by time, whose tuples wait in a state."""

EmittingUpdate = PartitionPersist | Window | TimeJoin
"""A step that updates a state and emits tuples through a node `Emitted`."""

StateUpdate = PersistentReduce | Watermark | EmittingUpdate
"""A step that runs code over its state in the commit turn: in the driver, or key by key in executors."""

StateWriter = PersistentAggregate | StateUpdate
"""A step that writes a state."""

HeldState = StateWriter | StaticState
"""A step whose state can be queried."""


@dataclass(frozen=True, slots=True, eq=False)
class StateQuery(Node):
    """Every tuple, repeated for each answer of a query to a state. A tuple without an answer is dropped.

    The fields of an answer replace fields of the tuple or are appended, as in `Each`.
    """

    source: Node
    inputs: tuple[str, ...]
    updated: HeldState
    query: Query
    outputs: StructType


@dataclass(frozen=True, slots=True, eq=False)
class CommittedQuery(Derived):
    """Every tuple, repeated for each answer of a query to the last committed values of a state.

    Unlike a StateQuery it does not unite the tuples' stream and the state in one batch group. The state's values at
    that moment do not follow from the batch's txid, so the answers are frozen with the batch.
    """

    ending: ClassVar[str] = "="
    after_source: ClassVar[bool] = True

    source: Node
    inputs: tuple[str, ...]
    updated: HeldState
    query: Query
    outputs: StructType

    @property
    def origin(self) -> str:
        """The name of the state. In the output's name, the number of the query follows it."""
        return self.updated.state.name


@dataclass(frozen=True, slots=True, eq=False)
class TableChanges(Derived):
    """The changes that a batch makes in the rows of a table; with `other`, in the join of two tables.

    `sources` have the new values of the table, then those of the other table if that is another one. Rows are joined
    with the rows of `other` whose key is in the fields `refers`, or that have the same key if `refers` is empty. Then
    `index` is the state with the keys of the rows that refer to others. With `left`, a row without a partner is kept.

    A key whose value readers see as null has no row. With `entries` it has one, as in a read of the state.
    """

    ending: ClassVar[str] = ">changes"
    after_source: ClassVar[bool] = True

    sources: tuple[Node, ...]
    table: HeldState
    other: "HeldState | None" = None
    refers: tuple[str, ...] = ()
    index: "StateWriter | None" = None
    left: bool = False
    entries: bool = False

    @property
    def origin(self) -> str:
        """The name of the table. In the output's name, the number of the join follows it."""
        return self.table.state.name

    @property
    def tables(self) -> "tuple[HeldState, ...]":
        """The states whose values before and after the batch are read."""
        return (self.table,) if self.other is None else (self.table, self.other)


StateReader = StateQuery | CommittedQuery
"""A step that queries a state."""

StateStep = StateWriter | StateQuery
"""A step that ends a stage: in the commit turn, its input is applied to a state or looked up in one."""


# --- what leaves the topology ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ForeachBatch(Node):
    """Every batch's frozen tuples, passed to a user's function in the commit turn, at least once and unchanged.

    With `frame`, the function gets a DataFrame, else an Arrow table. `name` is the sink's identity within the topology.
    """

    source: Node
    name: str
    function: Callable[..., object]
    function_site: CallSite
    frame: bool


@dataclass(frozen=True, slots=True, eq=False)
class WriteParquet(Node):
    """Every batch's tuples as Parquet files in a separate folder below `path`, visible all at once.

    The values of the fields `partitions` name folders below the batch's folder. `name` is the sink's identity within
    the topology. `path` is a folder, or the URL of a prefix on an object store with the options `storage`.
    """

    source: Node
    name: str
    path: str
    partitions: tuple[str, ...]
    storage: Storage = Storage()


@dataclass(frozen=True, slots=True, eq=False)
class WriteKafka(Node):
    """Every batch's tuples as messages in Kafka, in one transaction. `name` is the sink's identity in the topology."""

    source: Node
    name: str
    kafka: KafkaTarget


@dataclass(frozen=True, slots=True, eq=False)
class WriteJdbc(Node):
    """Every batch's tuples in a table of a database, in one transaction. `name` is the sink's identity."""

    source: Node
    name: str
    jdbc: JdbcTarget


@dataclass(frozen=True, slots=True, eq=False)
class WriteDelta(Node):
    """Every batch's tuples in a Delta table, as one version. `name` is the sink's identity in the topology."""

    source: Node
    name: str
    delta: DeltaTarget


@dataclass(frozen=True, slots=True, eq=False)
class CountMetric(Node):
    """Every batch's numbers, added to a counter of the run's metrics. `name` is the sink's identity in the topology.

    Each tuple holds the number in the field `number`, and the values of its labels in the other fields.
    """

    source: Node
    name: str
    metric: str
    help: str
    number: str


@dataclass(frozen=True, slots=True, eq=False)
class BestEffort(Node):
    """Every batch's tuples, passed to a best-effort branch, which never delays a batch.

    `branch` is the register of the branch's steps. They begin with a separate source (`BranchSpout`).
    """

    source: Node
    name: str
    branch: Any


Sink = ForeachBatch | WriteParquet | WriteKafka | WriteJdbc | WriteDelta | CountMetric | BestEffort
"""A step at which tuples leave the topology, in the commit turn, after every state holds the batch."""


# --- several sources, always within one batch --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Merge(Node):
    """The tuples of all sources, by position, with the field names of the first source unless others are given.

    If the user asked for the source of each tuple, one more field follows with the source's name: one of `labels`.
    """

    sources: tuple[Node, ...]
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Join(Node):
    """Every combination of one tuple from each source with equal keys, within one batch. Null keys are equal.

    The output fields are the keys, then the other fields of each source; with `preserve`, all fields of each source.
    `outer` marks the sources that may lack a key: the fields of a source that lacks it are null. A key that any other
    source lacks gives no tuple.
    """

    sources: tuple[Node, ...]
    keys: tuple[tuple[str, ...], ...]
    outer: tuple[bool, ...]
    preserve: bool


@dataclass(frozen=True, slots=True, eq=False)
class MultiReduce(Node):
    """The emissions of a reducer that sees the tuples of all sources.

    The reducer works group by group if there are `groups` (the group fields of each source), else partition by
    partition. `inputs` are the fields that the reducer sees of each source.
    """

    sources: tuple[Node, ...]
    inputs: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, ...], ...]
    reduction: MultiReduction


# --- one source, several streams ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Split(Node):
    """The tuples that the function sends to named streams, in place of each tuple.

    Each stream has separate fields. The tuples of all streams are output in one form (`trident.base.stream_fields`); a
    `Part` takes the tuples of one stream. The fields in `carried` are added to every tuple that is sent.
    """

    source: Node
    inputs: tuple[str, ...]
    function: Operation
    streams: tuple[tuple[str, StructType], ...]
    carried: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Part(Node):
    """The tuples of one stream of a split, or of a spout with several streams. `number` is the stream's position."""

    source: Split | SpoutSource
    number: int


def watermarks_of(node: Node) -> tuple[Watermark, ...]:
    """Return the steps that keep the watermarks for an update of a state: one for each stream of a join by time."""
    watermark: Watermark | None = getattr(node, "watermark", None)
    several: tuple[Watermark, ...] = getattr(node, "watermarks", ())
    return several if watermark is None else (watermark,)


def asked_by(node: Node) -> "tuple[HeldState, ...]":
    """Return the states that a step reads, besides those whose new values are its tuples."""
    if isinstance(node, StateReader):
        return (node.updated,)
    return (node.index,) if isinstance(node, TableChanges) and node.index is not None else ()


def sources_of(node: Node) -> tuple[Node, ...]:
    """Return the nodes that a node reads tuples from."""
    source: Node | None = getattr(node, "source", None)
    several: tuple[Node, ...] = getattr(node, "sources", ())
    return several if source is None else (source,)


def built_on(node: Node) -> list[Node]:
    """Return the nodes that a node refers to: the sources of its tuples, the state that it queries, its window."""
    values = [getattr(node, each.name) for each in fields(node)]
    return [value for value in [*values, *sources_of(node)] if isinstance(value, Node)]


def walk(*roots: Node, starts: Container[int] = ()) -> list[Node]:
    """Return the roots and all nodes that lead to them, each once, and each after the nodes that it reads.

    The walk does not go beyond the nodes with ids in `starts`.
    """
    seen: dict[int, Node] = {}

    def visit(node: Node) -> None:
        if id(node) not in seen:
            for source in () if id(node) in starts else sources_of(node):
                visit(source)
            seen[id(node)] = node

    for root in roots:
        visit(root)
    return list(seen.values())
