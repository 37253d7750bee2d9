"""The shape of a state: its keys, its values, and how a batch's value combines with the stored one."""

import re
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from trident.base.errors import FailedException, StateShapeError
from trident.base.spark_types import arrow_schema, arrow_type
from trident.compiler.aggregates.column_combiners import ColumnCombine, combines_columns
from trident.compiler.columns.function_errors import Where, described, short
from trident.compiler.states.due_times import DUES
from trident.operations.aggregator_names import aggregator_name
from trident.operations.aggregators import Aggregation, Native
from trident.operations.bundles import bundle_of
from trident.operations.checked_aggregators import combine_values
from trident.operations.sum_overflow import wider_input
from trident.plan import nodes
from trident.plan.state_schema import parts_of
from trident.plan.states import state_traits
from trident.plan.watermark_names import WATERMARK
from trident_state.fingerprint import Fingerprint, read_fingerprint
from trident_state.state_shape import Combine, StateShape, replacing


@dataclass(frozen=True)
class Combining:
    """``aggregator.combine`` as stores call it: picklable, with errors that name the user's function."""

    aggregation: Aggregation
    where: Where

    @property
    def __wrapped__(self) -> Any:
        """The aggregator's own `combine`, at which `site_of` points in errors of a store."""
        return self.aggregation.aggregator.combine

    def __call__(self, stored: Any, delta: Any) -> Any:
        try:  # not `Calling`: stores call this for every key, and entering a context costs more than most combines
            return delta if stored is None else combine_values(self.aggregation.aggregator, stored, delta)
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            what = f"{described(cause)}; combining {short(stored)} with {short(delta)}"
            raise self.where.error(what, cause) from cause


def shape_of(node: nodes.HeldState) -> StateShape:
    """Return the shape of a step's state.

    The result of an update replaces the stored value, so that applying a frozen batch again needs no user code.
    """
    traits = state_traits(node)
    keys, value = nullable(arrow_schema(traits.keys(node))), arrow_type(traits.value(node).dataType)
    if isinstance(node, nodes.PersistentAggregate):
        where = Where(node.step, node.aggregation.site, node.inputs)
        return StateShape(keys, value, combine_of(node.aggregation, where))
    dues = traits.dues(node)
    return StateShape(keys, value, replacing(traits.meaning(node)), None if dues is None else DUES[dues])


def is_watermark(fingerprint: str) -> bool:
    """Return whether a stored fingerprint belongs to a watermark.

    >>> is_watermark("() -> timestamp[us] by Watermark(seen, at)"), is_watermark("(word string) -> int64 by Count")
    (True, False)
    """
    try:
        held = read_fingerprint(fingerprint)
    except StateShapeError:  # a fingerprint that another version wrote
        return False
    return is_of_watermark(held)


def is_of_watermark(held: Fingerprint) -> bool:
    """Return whether a fingerprint that was read belongs to a watermark."""
    return not held.keys.names and held.aggregator.startswith(f"{WATERMARK}(")


@dataclass(frozen=True)
class WindowMeaning:
    """A window in the form in which a stored state names it: ``SlidingEventTimeWindow(1 hour, 15 minutes by at)``."""

    kind: str
    sizes: tuple[str, ...]
    field: str | None
    emit: str = "final"

    @property
    def names(self) -> tuple[str, ...]:
        """The argument names of the window's sizes: "gap" of a session; "length", and "slide" if there is one."""
        return ("gap",) if self.kind == "SessionWindow" else ("length", "slide")[: len(self.sizes)]


_MEANING = re.compile(r"(\{.*\}|\S+) in (\w+)\((.*?)(?: by (.*))?\)(?:, emit (changes))?", re.DOTALL)


def window_of(maker: str) -> tuple[str, WindowMeaning | None]:
    """Parse the stored name of a state's aggregator or update. Return the aggregator, and the window or None.

    >>> window_of("Sum in TumblingEventTimeWindow(1 hour by at)")
    ('Sum', WindowMeaning(kind='TumblingEventTimeWindow', sizes=('1 hour',), field='at', emit='final'))
    >>> window_of("Count")
    ('Count', None)
    """
    match = _MEANING.fullmatch(maker)
    if match is None:
        return maker, None
    aggregator, kind, written, field, emit = match.groups()
    sizes = tuple(written.split(", "))
    if kind.startswith("Sliding") and len(sizes) == 1:  # the windows slide by their length
        sizes *= 2
    return aggregator, WindowMeaning(kind, sizes, field, emit or "final")


def combine_of(aggregation: Aggregation, where: Where) -> Combine:
    """Return the Combine by which a store combines the results of this aggregation with stored ones."""
    combining, bundle = Combining(aggregation, where), bundle_of(aggregation)
    parts = None
    if bundle is not None:
        of_member = [(m.aggregation, Where(where.step, m.aggregation.site, m.inputs)) for m in bundle.members]
        parts = tuple(combine_of(how, own) for how, own in of_member)
    columns = None
    if combines_columns(aggregation):
        columns = ColumnCombine(aggregation, where, pa.field(aggregation.output, arrow_type(aggregation.type)))
    name, native = aggregator_name(aggregation.aggregator), native_form(aggregation.native)
    wider = wider_input(aggregation, where.inputs)
    return Combine(name, combining, native, columns, parts, wider, bundle is not None and bundle.zeros_leave)


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return the same fields, all nullable.

    The engines differ in the fields that they call nullable; frozen tables must not differ.
    """
    return pa.schema([field.with_nullable(True) for field in schema])


def new_values(step: nodes.StateWriter, table: pa.Table) -> pa.Table:
    """Return the keys and values of a state as its step outputs them, with one field for each aggregate."""
    if parts_of(step) is None:
        return table
    *keys, values = table.columns
    return pa.table([*keys, *values.flatten()], names=step.schema.names)


def native_form(native: Native | None) -> Literal["sum", "min", "max"] | None:
    """Return the operation by which a store can combine values itself; None if only the aggregator can.

    A store can for some types only: ``trident_state.value_rules`` and the stores know for which.
    """
    match native:
        case "count" | "sum":
            return "sum"
        case "min" | "max":
            return native
    return None
