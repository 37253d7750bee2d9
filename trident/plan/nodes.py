"""What a topology is made of. Nouns, frozen, with typed fields and no behaviour.

Nodes are compared by identity: a stream used twice is one node with two readers.
"""

import enum
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.sql.types import StructType

from trident.base.callsite import CallSite
from trident.operations.aggregators import Aggregation, AnyAggregation, Reduction
from trident.operations.error_policy import OnError
from trident.operations.functions import Operation, Query, Updating
from trident.operations.multireducers import MultiReduction
from trident.operations.selections import Picking
from trident.operations.window_aggregators import Windowing
from trident_spouts.executor import Spout
from trident_state.store import StateFactory

Scope = Literal["batch", "partition"]
"""What an aggregate is of."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Node:
    """One step of a stream. `step` is its name in errors, events and pictures ("sentences/2:each(split)"), `site`
    where the user wrote it, `schema` the fields that leave it."""

    step: str = field(kw_only=True)
    site: CallSite = field(kw_only=True)
    schema: StructType = field(kw_only=True)


# --- where tuples come from --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class SpoutSource(Node):
    """The tuples of a spout's batch. `formerly`: the name that the stream had in earlier programs; `anew`: whether it
    may begin at its source's start where the log cannot tell how it goes on."""

    stream: str
    spout: Spout
    formerly: str | None = None
    anew: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RequestSource(Node):
    """The arguments of DRPC requests. The hidden first field of the compiled table tells requests apart."""

    function: str


# --- one source --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Each(Node):
    """Every tuple, with each emission of the function appended; no emission drops the tuple."""

    source: Node
    inputs: tuple[str, ...]
    function: Operation
    outputs: StructType
    onError: OnError | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Filter(Node):
    """The tuples whose projection the predicate keeps."""

    source: Node
    inputs: tuple[str, ...]
    predicate: Operation
    onError: OnError | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Map(Node):
    """Every tuple replaced by the function's emissions (exactly one for map, any number for flatMap)."""

    source: Node
    inputs: tuple[str, ...]
    function: Operation
    onError: OnError | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Project(Node):
    """The named fields, in this order, under the names that the schema gives them by position."""

    source: Node
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Peek(Node):
    """Every tuple unchanged, after an action that runs where the tuple is, again at every attempt."""

    source: Node
    inputs: tuple[str, ...]
    action: Operation
    onError: OnError | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LettersOf(Node):
    """The tuples on which a step's function failed, as dead letters (`trident.operations.error_policy.LETTER`)."""

    source: Node


@dataclass(frozen=True, slots=True, eq=False)
class Debug(Node):
    """Every tuple unchanged; the first `limit` of each batch are brought to the run's log."""

    source: Node
    inputs: tuple[str, ...]
    label: str
    limit: int = 100


@dataclass(frozen=True, slots=True, eq=False)
class Transform(Node):
    """Whatever ``function(DataFrame, **frames) -> DataFrame`` makes of the batch; only Spark can run it."""

    source: Node
    function: Operation
    frames: tuple[tuple[str, Any], ...]


class Placing(enum.Enum):
    """Which partition a tuple goes to."""

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
    """The same tuples in other partitions. `names` are the fields that decide (FIELDS) or that `function` sees
    (CUSTOM)."""

    source: Node
    how: Placing
    names: tuple[str, ...] = ()
    function: Operation | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ParallelismHint(Node):
    """The same tuples; `count` partitions from the last repartitioning before to the next one behind."""

    source: Node
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One aggregator of an aggregate: the fields that it sees, and those that it gives."""

    inputs: tuple[str, ...]
    how: AnyAggregation
    outputs: StructType


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate(Node):
    """What every member makes of each group of the batch (no group fields: of the batch, also of an empty one): the
    group fields, then the members' outputs; several members' tuples in every combination, the last one's fastest.
    `scope` "partition": the same of every partition by itself."""

    source: Node
    group: tuple[str, ...]
    members: tuple[Member, ...]
    scope: Scope = "batch"


@dataclass(frozen=True, slots=True, eq=False)
class Pick(Node):
    """Some of the tuples, whole: those that are picked of the batch, or of every partition, by these fields."""

    source: Node
    inputs: tuple[str, ...]
    picking: Picking
    scope: Scope


# --- state steps -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class StateSpec:
    """A state as a topology declares it. `name` is its identity within the topology."""

    name: str
    factory: StateFactory


@dataclass(frozen=True, slots=True, eq=False)
class PersistentAggregate(Node):
    """The batch's aggregate, combined into a state; what leaves it are the keys of this batch with their new values."""

    source: Node
    group: tuple[str, ...]
    inputs: tuple[str, ...]
    aggregation: Aggregation
    state: StateSpec


@dataclass(frozen=True, slots=True, eq=False)
class PersistentReduce(Node):
    """Each group's tuples of the batch, folded one after the other onto the stored value; what leaves it are the keys
    of this batch with their new values."""

    source: Node
    group: tuple[str, ...]
    inputs: tuple[str, ...]
    reduction: Reduction
    state: StateSpec


@dataclass(frozen=True, slots=True, eq=False)
class PartitionPersist(Node):
    """What a user's updater makes of a state, batch by batch. `schema` is the state's own: `keys`, then the value."""

    source: Node
    inputs: tuple[str, ...]
    updating: Updating
    outputs: StructType
    keys: StructType
    state: StateSpec


# --- windows: what enters, how far time has come, what is held, what leaves ---------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class PartitionOf(Node):
    """Every tuple, with the partition that it is in as the last field; 0 where nobody asks for several."""

    source: Node


@dataclass(frozen=True, slots=True, eq=False)
class WindowPanes(Node):
    """The batch's tuples, combined by group and by the pane of event time that they lie in (without one where windows
    go by the batch's time). Leaves: the pane's start, the group fields, the accumulator, the latest time met."""

    source: Node
    group: tuple[str, ...]
    inputs: tuple[str, ...]
    windowing: Windowing


@dataclass(frozen=True, slots=True, eq=False)
class Watermark(Node):
    """How far time has come, as a state of one value: it never goes back. `schema` is that value."""

    source: Node
    windowing: Windowing
    keys: StructType
    state: StateSpec


@dataclass(frozen=True, slots=True, eq=False)
class Window(Node):
    """Tuples, or panes of them, into windows. `schema` is the state's own, `keys` and then the value; `outputs` are the
    fields of the results."""

    source: Node
    group: tuple[str, ...]
    inputs: tuple[str, ...]
    windowing: Windowing
    outputs: StructType
    keys: StructType
    state: StateSpec
    watermark: Watermark | None


@dataclass(frozen=True, slots=True, eq=False)
class Emitted(Node):
    """The tuples that an updater emits through its collector, or a window's results."""

    source: PartitionPersist | Window


@dataclass(frozen=True, slots=True, eq=False)
class LateTuples(Node):
    """The tuples that came when every window of theirs had been closed, or that have no time."""

    source: Node
    window: Window


@dataclass(frozen=True, slots=True, eq=False)
class StaticState(Node):
    """A state that this topology only reads. `schema`: `keys`, then the value. `writer` is the topology that writes
    it; None where it is nobody's."""

    keys: StructType
    state: StateSpec
    writer: str | None


WindowUpdate = Watermark | Window
"""A step of a window that makes a state's new values."""

StateUpdate = PersistentReduce | PartitionPersist | WindowUpdate
"""A step that runs code over the state itself: in the commit turn, on the driver."""

StateWriter = PersistentAggregate | StateUpdate
"""A step that writes a state."""

HeldState = StateWriter | StaticState
"""What can be asked."""


@dataclass(frozen=True, slots=True, eq=False)
class StateQuery(Node):
    """Every tuple, with the query's answers from a state appended; no answer drops the tuple."""

    source: Node
    inputs: tuple[str, ...]
    updated: HeldState
    query: Query
    outputs: StructType


StateStep = StateWriter | StateQuery
"""Where a stage ends: what enters it is frozen, or read from a state, in the commit turn."""


# --- what leaves the topology ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ForeachBatch(Node):
    """Every batch's tuples, frozen, handed to a user's function in the commit turn: at least once, always the same.
    `frame`: as a DataFrame, else as an Arrow table. `name` is its identity within the topology."""

    source: Node
    name: str
    function: Callable[..., object]
    function_site: CallSite
    frame: bool


@dataclass(frozen=True, slots=True, eq=False)
class WriteParquet(Node):
    """Every batch's tuples as Parquet files in a folder of its own below `path`, visible all at once. `partitions` are
    the fields whose values name folders below it. `name` is its identity within the topology."""

    source: Node
    name: str
    path: str
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class BestEffort(Node):
    """Every batch's tuples, handed to a branch that never holds a batch up. `branch` is the register of its steps,
    which begin with a source of their own (`BranchSpout`)."""

    source: Node
    name: str
    branch: Any


Sink = ForeachBatch | WriteParquet | BestEffort
"""Where tuples leave the topology, in the commit turn, after every state holds the batch."""


# --- several sources, always within one batch --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Merge(Node):
    """The tuples of all sources, by position, under the first one's names unless others were given. `labels`, where
    there are any, are the sources' names: the value of one more field, the last."""

    sources: tuple[Node, ...]
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Join(Node):
    """Tuples of the same batch whose keys are equal (nulls meet), every combination of one of each source: the keys,
    then each source's other fields; or all fields of each (`preserve`). `outer` tells the sources that may be missing:
    they give nulls then, and a key that another source misses gives nothing."""

    sources: tuple[Node, ...]
    keys: tuple[tuple[str, ...], ...]
    outer: tuple[bool, ...]
    preserve: bool


@dataclass(frozen=True, slots=True, eq=False)
class MultiReduce(Node):
    """What a reducer emits that sees the tuples of all sources: partition by partition, or, where there are `groups`
    (the group fields of each source), group by group. `inputs` are the fields that it sees of each source."""

    sources: tuple[Node, ...]
    inputs: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, ...], ...]
    reduction: MultiReduction


# --- one source, several streams ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Split(Node):
    """Every tuple replaced by what the function sends to the streams, which have names and fields of their own. What
    leaves it are the tuples of all streams (`trident.plan.split_schema` says how); a Part takes one stream's."""

    source: Node
    inputs: tuple[str, ...]
    function: Operation
    streams: tuple[tuple[str, StructType], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Part(Node):
    """The tuples of one stream of a split. `number` is its position in `Split.streams`."""

    source: Split
    number: int


def sources_of(node: Node) -> tuple[Node, ...]:
    """The nodes that this one reads."""
    if isinstance(node, Merge | Join | MultiReduce):
        return node.sources
    source = getattr(node, "source", None)
    return () if source is None else (source,)


def walk(*roots: Node, starts: Container[int] = ()) -> list[Node]:
    """All nodes below the roots, each once, every node after those it reads; nothing below the starts (by id)."""
    seen: dict[int, Node] = {}

    def visit(node: Node) -> None:
        if id(node) not in seen:
            for source in () if id(node) in starts else sources_of(node):
                visit(source)
            seen[id(node)] = node

    for root in roots:
        visit(root)
    return list(seen.values())
