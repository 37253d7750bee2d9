"""The refusal to continue a stored state whose key types, value type, aggregator or kind changed, with advice."""

from trident.base.errors import StateShapeError
from trident.base.value_conversion import type_name
from trident.compiler.states.shapes import WindowMeaning, window_of
from trident.configuration.settings import Settings
from trident.log.protocol import LogReading
from trident.operations.aggregator_names import bundle_names
from trident.plan.evolutions import can_evolve
from trident.plan.nodes import StateWriter
from trident.plan.watermark_names import WATERMARK, dropped_by
from trident.recovery.index_filling import changes_indexed
from trident.recovery.state_evolution import declared_former, stored_fingerprint
from trident_state.fingerprint import Fingerprint, read_fingerprint, shown_shapes
from trident_state.state_shape import StateShape
from trident_state.store import StateFactory
from trident_state.store_messages import StoreReport


def check_same_shape(
    node: StateWriter, report: StoreReport, shape: StateShape, log: LogReading, settings: Settings
) -> None:
    """Raise StateShapeError if the declared keys, value type, aggregator or kind differ from the stored state's.

    A former shape that the program declares is not refused.
    """
    name, factory = node.state.name, node.state.factory
    kind, index = factory.kind, changes_indexed(node, shape)
    ways = _ways_out(dropped_by(node), factory, log, settings, None if index is None else index.table.state.name)
    export = _EXPORT if index is None else ""
    stored = stored_fingerprint(report, log.births().get(name))
    if stored is not None and not shape.fits(stored) and declared_former(node, stored) is None:
        held, declared = shown_shapes(stored, shape.fingerprint)
        raise StateShapeError(
            f"state {name!r} has {held}, but the topology declares {declared} "
            f"({changed_parts(stored, shape.fingerprint)}). {ways}{'' if index else _way_to_keep(node, stored, shape)}"
        )
    if report.kind is not None and report.kind is not kind:
        raise StateShapeError(
            f"state {name!r} is {report.kind.value}, but the topology declares it {kind.value}. {ways}{export}"
        )


def changed_parts(stored: str, declared: str) -> str:
    """Return in words which parts of two fingerprints differ."""
    try:
        was, now = read_fingerprint(stored), read_fingerprint(declared)
    except StateShapeError:  # a fingerprint that another version wrote
        return "another shape"
    return ", ".join(_differences(was, now)) or "another shape"


def _differences(was: Fingerprint, now: Fingerprint) -> list[str]:
    parts = []
    if was.keys.types != now.keys.types:
        parts.append("other key types")
    elif was.keys.names != now.keys.names:
        parts.append("other names of the key fields")
    if was.value != now.value:
        parts.append("another value type")
    return [*parts, *_aggregation_differences(was.aggregator, now.aggregator)]


def _aggregation_differences(was: str, now: str) -> list[str]:
    """Return in words how the aggregators or their windows differ."""
    if was.startswith(f"{WATERMARK}(") and now.startswith(f"{WATERMARK}("):
        return ["the watermark uses another field"]
    (by, window), (now_by, now_window) = window_of(was), window_of(now)
    parts = [] if by == now_by else [_changed_aggregators(by, now_by)]
    if window is None or now_window is None:
        return parts if window is now_window else [*parts, "a window" if window is None else "no window"]
    if window.kind != now_window.kind:
        return [*parts, f"another kind of window: {window.kind} before, {now_window.kind} now"]
    if window.sizes != now_window.sizes:
        parts.append(f"another {' and '.join(_resized(window, now_window))}")
    if window.emit != now_window.emit:
        parts.append(f"emit={window.emit!r} before, {now_window.emit!r} now")
    if window.field != now_window.field:
        parts.append(f"the window used {window.field!r} and now uses {now_window.field!r}")
    return parts


def _changed_aggregators(was: str, now: str) -> str:
    """Return in words how the aggregators of a state differ from those with which it was written."""
    then, today = bundle_names(was), bundle_names(now)
    if then is None or today is None:
        if then is today:
            return "another aggregator"
        return "one aggregator before, several now" if then is None else "several aggregators before, one now"
    changes = [f"{field!r} is new" for field in today if field not in then]
    changes += [f"{field!r} was removed" for field in then if field not in today]
    kept = [field for field in then if field in today and then[field] != today[field]]
    changes += [f"{field!r} was made by {then[field]} and is now made by {today[field]}" for field in kept]
    return f"another aggregator: {'; '.join(changes)}" if changes else "the aggregators have another order"


def _resized(was: WindowMeaning, now: WindowMeaning) -> list[str]:
    return [
        f"{name} of the window: {then} before, {today} now"
        for name, then, today in zip(was.names, was.sizes, now.sizes, strict=True)
        if then != today
    ]


_EXPORT = " To keep its values, export them first (trident state export)"


def _way_to_keep(node: StateWriter, stored: str, shape: StateShape) -> str:
    """Return the advice for a state whose values are to be kept: declare their former shape, if that is possible."""
    try:
        was = read_fingerprint(stored)
    except StateShapeError:  # a fingerprint that another version wrote
        return _EXPORT
    if was.keys.types != shape.keys.types or was.keys.names != shape.keys.names or not can_evolve(node):
        return _EXPORT
    by = "" if was.aggregator == shape.combine.name else f", by={was.aggregator!r}"
    return (
        f" To keep its values, declare their former shape and how they become new ones, "
        f"evolve=Evolution(was={type_name(was.value)!r}{by}, ...); or export them first (trident state export)"
    )


def _ways_out(name: str, factory: StateFactory, log: LogReading, settings: Settings, indexed: str | None) -> str:
    """Return the advice to the user. `indexed`: the state that this state is an index of.

    The refusal comes before the log is taken, so the last driver may still hold the log; then the advised drop
    needs force=True. If a batch waits, the former program must run once more anyway, and it gives the log back at
    its end.
    """
    birth, lease = log.births().get(name), log.lease()
    waiting = log.history(birth.group).frozen if birth is not None else ()
    first, force = "", not waiting and lease is not None and lease.token != ""
    if birth is not None and waiting:
        first = (
            f"Batch {waiting[0]} of group {birth.group!r} is frozen but not committed: its changes are not in the "
            f"state yet, and a drop or an export now would miss them. Start the previous program once, which "
            f"commits the batch. Then choose one of these ways. "
        )
    reason = " (force=True fences the driver that has the log, in case it still runs)" if force else ""
    drop = f"drop it with {settings.drop(name, factory.survives, force=force)}{reason}"
    if indexed is not None:
        return f"{first}It is an index of state {indexed!r}: {drop}, and the next start fills it again from the rows."
    return (
        f"{first}Give the new state another name= (the stored state stays, and openState can read it); or {drop}, "
        f"so that it starts empty with the next batch; or {settings.way_out}."
    )
