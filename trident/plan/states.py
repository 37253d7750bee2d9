"""The traits of each class of nodes that has a state, in one table, beside the traits of all nodes.

The compiler, pictures and queries ask for the traits of a state's node, so they name no class of nodes. A new node that
writes a state needs one row here; `tests/plan/test_states.py` fails without it. The function that computes its new
values is in `trident.compiler.state_updates.UPDATES`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pyspark.sql.types import StructField, StructType

from trident.base.callsite import CallSite
from trident.base.spark_types import select
from trident.operations.aggregator_names import aggregator_name
from trident.operations.aggregators import Aggregation, Reduction
from trident.operations.watermark_records import watermark_aggregation
from trident.operations.windows import CountWindow, SessionWindow, Timing, wakes
from trident.plan import nodes
from trident.plan.dead_letters import keeper_of
from trident.plan.watermark_names import watermark_meaning
from trident.plan.window_inputs import closed_by, counted_by
from trident.plan.window_schema import PARTITION, has_bounds
from trident_state.store import ttl_of_factory

H = TypeVar("H", bound=nodes.Node)

NewValues = Literal[
    "own",
    "emitted",
    "a watermark and has no stream of new values",
    "only read here and has no new values",
]
"""The tuples of a state's `newValuesStream`: those that leave the step itself, those that its update emits, or the
reason why there are none."""

Dues = Literal["sessions", "timers"]
"""The parts of values that hold due times: the ends of open sessions, or the timers of a stateful operation."""


@dataclass(frozen=True, slots=True)
class StateTraits(Generic[H]):
    """The traits of one class of nodes that has a state."""

    keys: Callable[[H], StructType]
    """The key fields. A state of one global value has none."""

    site: Callable[[H], CallSite]
    """The location of the user's code that updates the state, or that declares a static state."""

    meaning: Callable[[H], str]
    """The name of the aggregator or update that computes the values. A store with another name is refused."""

    new_values: NewValues
    """The tuples of `newValuesStream`."""

    why_driver: Callable[[H], str | None]
    """The reason why executors cannot compute the new values, each executor for some keys; None if they can."""

    value: Callable[[H], StructField] = lambda node: node.schema.fields[-1]
    """The field of the stored value."""

    presents: Callable[[H], Aggregation | Reduction | None] = lambda node: None
    """The aggregation whose `present` turns a stored value into the value that queries see; None if there is none."""

    parted_by: Callable[[H], tuple[str, ...]] = lambda node: ()
    """The fields of the tuples by which an update can be divided; no fields if it cannot be divided."""

    same_in_parts: Callable[[H], bool] = lambda node: True
    """True if the result is the same when the tuples are applied in portions that each have all tuples of some keys."""

    late_by: Callable[[H, int], Timing | None] = lambda node, side: None
    """The window or event time that decides which tuples of a source are late; None if no tuple is ever late. The
    second argument is the number of the source."""

    dues: Callable[[H], Dues | None] = lambda node: None
    """The part of each value that holds the times at which its key is due; None if no key is ever due."""

    wakes: Callable[[H], bool] = lambda node: False
    """True if the state may need a batch when no tuple comes. Its update says when (`Updated.due`)."""

    slide_by_partition: Callable[[H], int | None] = lambda node: None
    """The slide of windows by count if each partition has a separate series of windows; otherwise None."""

    closing: Callable[[H], tuple[Any, ...] | None] = lambda node: None
    """The windows whose results leave with the batch that closes them, with the steps whose tuples they count or
    that have their watermarks. Updates with equal values close their windows in the same batch. None if there are no
    such windows."""

    in_windows: bool = False
    """True for windows and joins by time, whose guarantee differs from that of Trident's windows."""

    replaces: Callable[[H], bool] = lambda node: False
    """True if a new value of a key replaces the key's former value in `newValuesStream`."""

    passes_on: Callable[[H], bool] = lambda node: False
    """True if the update emits tuples of its sources, or pairs of them, so that replacing values are passed on."""

    first_of: Callable[[H], tuple[str, ...] | None] = lambda node: None
    """The fields by which the update passes on only the first tuple, for ever; None if there are no such fields."""

    emits_changes: Callable[[H], bool] = lambda node: False
    """True if the update emits changes of rows, at most one per row in a batch."""

    alone: Callable[[H], tuple[str, ...] | None] = lambda node: None
    """The fields whose values are unique among the tuples that the update emits in one batch; None if there are
    none."""

    in_order: Callable[[H], tuple[str, ...] | None] = lambda node: None
    """The fields of tuples that the update emits unchanged and in their order; None without that order."""

    holds_back: Callable[[H], bool] = lambda node: False
    """True if the update passes tuples on or drops them. Progress events count the dropped ones."""


def state_traits(node: H) -> StateTraits[H]:
    """Return the traits of a node with a state, by its class."""
    if type(node) not in STATES:
        raise TypeError(f"{type(node).__name__} has no entry in trident.plan.states.STATES: add one")
    return STATES[type(node)]


# --- the reasons for the driver ---------------------------------------------------------------------------------------


def _executors_combine(node: nodes.PersistentAggregate) -> None:
    return None


def _by_watermark(node: nodes.Node) -> str:
    return "the driver keeps a watermark, and the tuples that wait for it"


def _without_keys(keys: tuple[str, ...]) -> str | None:
    return None if keys else "its state has no key fields, so that all tuples belong together"


def _why_updater(node: nodes.PartitionPersist) -> str | None:
    if (why := node.updating.why_driver) is not None:
        return why
    if keeper_of(node) is not None:
        return "only the newest dead letters are kept, so an update compares all of them"
    entering = {field.name: field.dataType for field in node.source.schema if field.name in node.inputs}
    for field in node.keys:
        if entering.get(field.name) != field.dataType:
            return f"its tuples lack the key field {field.name!r} of its state; give it as an input field"
    return _without_keys(tuple(node.keys.names))


def _why_window(node: nodes.Window) -> str | None:
    by_key = isinstance(node.windowing.config, CountWindow | SessionWindow)
    if by_key and wakes(node.windowing.config):
        return "with idleAfter the driver keeps the time of the next end of a session"
    return _without_keys(node.group) if by_key else _by_watermark(node)


# --- the values -------------------------------------------------------------------------------------------------------


def _group(node: nodes.PersistentAggregate | nodes.PersistentReduce) -> StructType:
    return select(node.source.schema, node.group)


def _keys(node: nodes.StaticState | nodes.EmittingUpdate | nodes.Watermark) -> StructType:
    return node.keys


def _always(node: nodes.Node) -> bool:
    return True


def _first_of(node: nodes.PartitionPersist) -> tuple[str, ...] | None:
    forgets = node.updating.time is not None or ttl_of_factory(node.state.factory) is not None
    return tuple(node.keys.names) if node.updating.holds_back and not forgets else None


def _window_time(node: nodes.Window, side: int) -> Timing | None:
    config = node.windowing.config
    return None if isinstance(config, CountWindow) else config


def _window_closing(node: nodes.Window) -> tuple[Any, ...] | None:
    config = node.windowing.config
    if node.windowing.early:
        return None
    if isinstance(config, CountWindow):
        return (config, frozenset(node.group), counted_by(node))
    if isinstance(config, SessionWindow):
        return (config, frozenset(node.group), *closed_by(node))
    return (config, *closed_by(node)) if has_bounds(node.windowing) else (config,)  # by batch time all end together


def _slide_by_partition(node: nodes.Window) -> int | None:
    config = node.windowing.config
    return config.slide if isinstance(config, CountWindow) and PARTITION in node.group else None


# --- the table --------------------------------------------------------------------------------------------------------

STATES: Mapping[type[nodes.Node], StateTraits[Any]] = {
    # Each row by position: keys, site, meaning, new_values, why_driver.
    nodes.PersistentAggregate: StateTraits(
        _group,
        lambda node: node.aggregation.site,
        lambda node: aggregator_name(node.aggregation.aggregator),
        "own",
        _executors_combine,
        value=lambda node: StructField(node.aggregation.output, node.aggregation.type),
        presents=lambda node: node.aggregation,
        alone=lambda node: node.group,
        replaces=_always,
    ),
    nodes.PersistentReduce: StateTraits(
        _group,
        lambda node: node.reduction.site,
        lambda node: aggregator_name(node.reduction.aggregator),
        "own",
        lambda node: _without_keys(node.group),
        presents=lambda node: node.reduction,
        parted_by=lambda node: node.group,
        alone=lambda node: node.group,
        replaces=_always,
    ),
    nodes.PartitionPersist: StateTraits(
        _keys,
        lambda node: node.updating.site,
        lambda node: node.updating.meaning,
        "emitted",
        _why_updater,
        parted_by=lambda node: tuple(node.keys.names),
        same_in_parts=lambda node: node.updating.same_in_parts,
        late_by=lambda node, side: node.updating.time,
        replaces=lambda node: node.updating.replaces,
        passes_on=lambda node: node.updating.passes_on,
        first_of=_first_of,
        holds_back=lambda node: node.updating.holds_back,
        in_order=lambda node: tuple((node.source.schema if node.updating.holds_back else node.keys).names),
        presents=lambda node: node.updating.presents,
        dues=lambda node: "timers" if node.updating.timed else None,
        wakes=lambda node: node.updating.timed,
    ),
    nodes.Watermark: StateTraits(
        _keys,
        lambda node: node.windowing.site,
        watermark_meaning,
        "a watermark and has no stream of new values",
        _by_watermark,
        presents=lambda node: watermark_aggregation(node.windowing.site, node.schema.fields[-1]),
        in_windows=True,
    ),
    nodes.Window: StateTraits(
        _keys,
        lambda node: node.windowing.site,
        lambda node: node.windowing.meaning,
        "emitted",
        _why_window,
        presents=lambda node: node.windowing.aggregation if node.windowing.panes else None,
        parted_by=lambda node: node.group,
        late_by=_window_time,
        dues=lambda node: "sessions" if isinstance(node.windowing.config, SessionWindow) else None,
        wakes=lambda node: wakes(node.windowing.config),
        slide_by_partition=_slide_by_partition,
        emits_changes=lambda node: node.windowing.early,
        alone=lambda node: ("windowStart", *node.group),
        closing=_window_closing,
        in_windows=True,
    ),
    nodes.IntervalJoin: StateTraits(
        _keys,
        lambda node: node.joining.site,
        lambda node: node.joining.meaning,
        "emitted",
        _by_watermark,
        late_by=lambda node, side: node.joining.sides[side].config,
        passes_on=_always,
        wakes=lambda node: wakes(node.joining.sides[0].config),
        in_windows=True,
    ),
    nodes.WindowJoin: StateTraits(
        _keys,
        lambda node: node.joining.site,
        lambda node: node.joining.meaning,
        "emitted",
        _by_watermark,
        late_by=lambda node, side: node.joining.sides[side].config,
        passes_on=_always,
        wakes=lambda node: wakes(node.joining.window),
        closing=lambda node: (*(side.config for side in node.joining.sides), *closed_by(node)),
        in_windows=True,
    ),
    nodes.StaticState: StateTraits(
        _keys,
        lambda node: node.site,
        lambda node: "put",
        "only read here and has no new values",
        lambda node: "no step of this topology writes it",
    ),
}
