"""The named streams of a split or a spout, and the fields of one of them (`trident.base.stream_fields`)."""

from collections.abc import Sequence

from pyspark.sql.types import StructType

from trident.base.spark_types import ddl
from trident.base.stream_fields import inside
from trident.plan.nodes import Node, Part, Split, SpoutSource


def own_fields(node: Part) -> dict[str, str]:
    """Return the fields of one stream: a field's name among the fields of all streams -> its name in the stream."""
    carried = node.source.carried if isinstance(node.source, Split) else ()
    return {name if name in carried else inside(node.number, name): name for name in node.schema.names}


def streams_of(node: Node) -> tuple[tuple[str, StructType], ...]:
    """Return the named streams of a split or a spout, with their fields; no streams for a node with a single one."""
    if isinstance(node, Split):
        return node.streams
    return getattr(node.spout, "emitted_streams", ()) if isinstance(node, SpoutSource) else ()


def shown_streams(streams: Sequence[tuple[str, StructType]]) -> str:
    """Return streams with their fields, as text for users."""
    return ", ".join(f"{name}({ddl(schema)})" for name, schema in streams)
