"""The traits of each class of sinks, in one table, beside the traits of all nodes.

A new sink needs one row here; `tests/plan/test_sinks.py` fails without it. The function that opens the output is in
`openers` of `trident.outputs.outlets`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from trident.plan import nodes
from trident_state.state_shape import StateKind

S = TypeVar("S", bound=nodes.Sink)


@dataclass(frozen=True, slots=True)
class SinkTraits(Generic[S]):
    """The traits of one class of sinks."""

    keeps_progress: bool
    """True if the log keeps the output's progress. Other outputs end with the process, or may leave batches out."""

    promised_as: Callable[[S], StateKind | None] = lambda node: None
    """The kind of state that has the same promise; None if the output makes no promise."""

    place: Callable[[S], str] = lambda node: ""
    """The location of the rows as text, if they outlive the process; "" if they do not."""

    elsewhere: Callable[[S], bool] = lambda node: False
    """True if rows may also go to places other than `place`, which only the program knows."""

    keeps_rows: Callable[[S], bool] = lambda node: False
    """True if the target holds the rows of a table whose changes the output receives."""

    row_key: Callable[[S], tuple[str, ...]] = lambda node: ()
    """The fields of the tuples by which such a target finds a row."""

    target: Callable[[S], object] = lambda node: None
    """The description of the target system, which may be `Examined`; None if there is none."""

    in_branch: bool = False
    """True if the sink is allowed in a best-effort branch, which may lose batches."""


def sink_traits(node: S) -> SinkTraits[S]:
    """Return the traits of a sink, by its class."""
    if type(node) not in SINKS:
        raise TypeError(f"{type(node).__name__} has no entry in trident.plan.sinks.SINKS: add one")
    return SINKS[type(node)]


def _kafka_promise(node: nodes.WriteKafka) -> StateKind:
    return StateKind.NON_TRANSACTIONAL if node.kafka.guarantee == "at-least-once" else StateKind.OPAQUE


SINKS: Mapping[type[nodes.Node], SinkTraits[Any]] = {
    nodes.ForeachBatch: SinkTraits(True, elsewhere=lambda node: True, in_branch=True),
    nodes.WriteParquet: SinkTraits(True, lambda node: StateKind.OPAQUE, lambda node: node.path),
    nodes.WriteKafka: SinkTraits(
        True,
        _kafka_promise,
        lambda node: f"topic {node.kafka.topic}",
        lambda node: node.kafka.topic_field is not None,
        lambda node: node.kafka.changes,
        lambda node: (node.kafka.key or "",),
        lambda node: node.kafka,
    ),
    nodes.WriteJdbc: SinkTraits(
        True,
        lambda node: StateKind.OPAQUE,
        lambda node: f"table {node.jdbc.table}",
        keeps_rows=lambda node: node.jdbc.changes,
        row_key=lambda node: node.jdbc.key,
        target=lambda node: node.jdbc,
    ),
    nodes.WriteDelta: SinkTraits(
        True,
        lambda node: StateKind.OPAQUE,
        lambda node: node.delta.uri,
        keeps_rows=lambda node: node.delta.changes,
        row_key=lambda node: node.delta.key,
        target=lambda node: node.delta,
    ),
    nodes.CountMetric: SinkTraits(False),
    nodes.BestEffort: SinkTraits(False),
}
