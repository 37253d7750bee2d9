"""The fields that the steps of a window read from their sources."""

from trident.operations.windows import timestamp_field
from trident.plan.nodes import Watermark, Window, WindowPanes


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
