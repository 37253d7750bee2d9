"""The fields that the steps of a window read from their sources."""

from trident.operations.column_updaters import FirstOfKey
from trident.operations.windows import EventTime, WindowConfig, timestamp_field
from trident.plan.nodes import IntervalJoin, LateTuples, Watermark, Window, WindowPanes


def config_of(node: LateTuples) -> WindowConfig | EventTime | None:
    """Return the window or the event time by which tuples are late; None if the update has neither."""
    window = node.window
    if isinstance(window, IntervalJoin):
        return window.joining.sides[node.side or 0].config
    if isinstance(window, Window):
        return window.windowing.config
    return window.updating.config if isinstance(window.updating, FirstOfKey) else None


def entering_panes(node: WindowPanes) -> tuple[str, ...]:
    """Return the fields that a `WindowPanes` step reads from its source."""
    return _read(node)


def entering_window(node: Window) -> tuple[str, ...]:
    """Return the fields that a window reads from its source."""
    return tuple(node.source.schema.names) if isinstance(node.source, WindowPanes) else _read(node)


def entering_watermark(node: Watermark) -> tuple[str, ...]:
    """Return the fields that a watermark reads from its source."""
    return tuple(node.source.schema.names) if isinstance(node.source, WindowPanes) else _time(node)


def _read(node: Window | WindowPanes) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*node.group, *node.inputs, *_time(node)]))


def _time(node: Window | Watermark | WindowPanes) -> tuple[str, ...]:
    config = node.windowing.config
    field = None if config is None else timestamp_field(config)
    return () if field is None else (field,)
