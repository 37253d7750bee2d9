"""The shape of a state: what its keys and accumulators are and how a batch's value meets the stored one."""

import re
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from trident.base.errors import FailedException
from trident.base.types import arrow_schema, arrow_type, select
from trident.compiler.columns.failures import Where, short
from trident.operations.aggregators import Aggregation
from trident.operations.builtin_aggregators import NAMES, BuiltinAggregator
from trident.plan.nodes import HeldState, PersistentAggregate, PersistentReduce, Watermark, Window
from trident.plan.state_schema import keys_of, value_of
from trident_state.state_shape import Combine, StateShape, replacing


@dataclass(frozen=True)
class Combining:
    """``aggregator.combine`` as stores call it: picklable, and an exception says whose it is."""

    aggregation: Aggregation
    where: Where

    def __call__(self, stored: Any, delta: Any) -> Any:
        try:
            return delta if stored is None else self.aggregation.aggregator.combine(stored, delta)
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            what = f"raised {type(cause).__name__}: {cause}; combining {short(stored)} with {short(delta)}"
            raise self.where.error(what, cause) from cause


def shape_of(node: HeldState) -> StateShape:
    """The shape of a step's state. What an update computes takes the stored value's place, so that applying a frozen
    batch again needs none of the user's code."""
    if isinstance(node, PersistentAggregate):
        return _aggregated(node)
    keys = nullable(arrow_schema(keys_of(node)))
    return StateShape(keys, arrow_type(value_of(node).dataType), replacing(_made_by(node)))


def _made_by(node: HeldState) -> str:
    """What makes a state's values: a state made by another thing is not gone on with."""
    match node:
        case PersistentReduce(reduction=reduction):
            return aggregator_name(reduction.aggregator)
        case Window(windowing=windowing):
            return f"{aggregator_name(windowing.aggregator)} in {windowing.config.meaning}"
        case Watermark():
            return "Watermark"
    return "put"


@dataclass(frozen=True)
class WindowMeaning:
    """A window as a stored state is known by it: ``SlidingEventTimeWindow(1 hour, 15 minutes by at)``."""

    kind: str
    sizes: tuple[str, ...]
    field: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """What the sizes are called."""
        return ("gap",) if self.kind == "SessionWindow" else ("length", "slide")[: len(self.sizes)]


_MEANING = re.compile(r"(\S+) in (\w+)\((.*?)(?: by (.*))?\)", re.DOTALL)


def window_of(maker: str) -> tuple[str, WindowMeaning | None]:
    """From what makes a state's values to the aggregator, and the window, where it is one's.

    >>> window_of("Sum in TumblingEventTimeWindow(1 hour by at)")
    ('Sum', WindowMeaning(kind='TumblingEventTimeWindow', sizes=('1 hour',), field='at'))
    >>> window_of("Count")
    ('Count', None)
    """
    found = _MEANING.fullmatch(maker)
    if found is None:
        return maker, None
    aggregator, kind, written, field = found.groups()
    sizes = tuple(written.split(", "))
    if kind.startswith("Sliding") and len(sizes) == 1:  # they slide by their length
        sizes *= 2
    return aggregator, WindowMeaning(kind, sizes, field)


def _aggregated(node: PersistentAggregate) -> StateShape:
    aggregation = node.aggregation
    where = Where(node.step, aggregation.site, node.inputs)
    keys = nullable(arrow_schema(select(node.source.schema, node.group)))
    return StateShape(keys, arrow_type(aggregation.type), combine_of(aggregation, where))


def combine_of(aggregation: Aggregation, where: Where) -> Combine:
    """How a store combines what this aggregation comes to."""
    return Combine(aggregator_name(aggregation.aggregator), Combining(aggregation, where), _native(aggregation))


def aggregator_name(aggregator: object) -> str:
    """The aggregator's class. One of a user's own that is called like a built-in carries its module, because a stored
    state is known by this name: whoever reads it without the topology must not take it for ours."""
    kind = type(aggregator)
    name = kind.__qualname__.rpartition("<locals>.")[2]
    foreign = not isinstance(aggregator, BuiltinAggregator)
    return f"{kind.__module__}.{name}" if foreign and name in NAMES else name


def nullable(schema: pa.Schema) -> pa.Schema:
    """The same fields, null allowed: what an engine says of nulls varies, what is frozen must not."""
    return pa.schema([field.with_nullable(True) for field in schema])


def _native(aggregation: Aggregation) -> Literal["sum", "min", "max"] | None:
    """What a store can do by itself, where its type allows (``trident_state.rules`` and the stores know for which)."""
    match aggregation.native:
        case "count" | "sum":
            return "sum"
        case "min" | "max":
            return aggregation.native
    return None
