"""The fields that the steps of a window read from their sources, and the steps whose tuples advance its watermark."""

from trident.operations.bound_expressions import Computed, Condition
from trident.operations.windows import timestamp_field
from trident.plan import nodes
from trident.plan.nodes import Watermark, Window, WindowPanes
from trident.plan.window_schema import PARTITION

_SAME_PARTITIONS = (nodes.Project, nodes.Peek, nodes.Debug, nodes.PartitionOf, nodes.WindowPanes)
"""The steps that keep the number of tuples in each partition."""

_SAME_TIMES = (*_SAME_PARTITIONS, nodes.Repartition, nodes.ParallelismHint)
"""The steps that keep the latest time of a batch."""


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


def closed_by(node: Window | nodes.WindowJoin) -> tuple[nodes.Node, ...]:
    """Return the steps whose tuples advance the watermarks of a window, skipping steps that keep all tuples."""
    return tuple(_before_same_times(watermark.source) for watermark in nodes.watermarks_of(node))


def counted_by(node: Window) -> nodes.Node:
    """Return the step whose tuples a window counts, skipping steps that keep all tuples, and its partitions if needed.

    A window of a partition begins with a node `PartitionOf`.
    """
    parted = PARTITION in node.group
    return _before_same_times(node.source, _SAME_PARTITIONS if parted else _SAME_TIMES)


def _before_same_times(node: nodes.Node, keeping: tuple[type[nodes.Node], ...] = _SAME_TIMES) -> nodes.Node:
    while isinstance(node, keeping) or (isinstance(node, nodes.Each) and _gives_each_tuple_once(node)):
        (node,) = nodes.sources_of(node)
    return node


def _gives_each_tuple_once(node: nodes.Each) -> bool:
    target = node.function.target
    return isinstance(target, Computed) and not isinstance(target, Condition)
