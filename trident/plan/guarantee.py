"""The promise for the content of each state, computed from its spouts, its kind and the abilities of its store.

The promise covers the content of states only. A side effect of a user's function is repeated at every replay.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from trident.base.errors import GuaranteeError
from trident.plan.nodes import Node, Sink, SpoutSource, StateWriter, asked_by, walk
from trident.plan.sinks import sink_traits
from trident.plan.states import state_traits
from trident.plan.topology_protocol import TopologyPlan
from trident_spouts.executor import SpoutKind
from trident_spouts.spark_spout import SparkSpout
from trident_spouts.streaming_spout import StreamingSpout
from trident_state.state_shape import StateKind
from trident_state.store import Fencing


class Promise(enum.Enum):
    """The number of times that a state counts a tuple of the source, even after failures."""

    EXACTLY_ONCE = "exactly-once"
    BATCHES_ONCE = "each emitted batch once, but the spout may lose or repeat tuples"
    AT_LEAST_ONCE = "at-least-once"
    NOTHING = "nothing: the spout may lose or repeat tuples, and a retried commit counts twice"


_WEAKEST_FIRST = (SpoutKind.NON_TRANSACTIONAL, SpoutKind.OPAQUE, SpoutKind.TRANSACTIONAL)

_TRIDENT = {
    (SpoutKind.TRANSACTIONAL, StateKind.TRANSACTIONAL): "exactly-once",
    (SpoutKind.TRANSACTIONAL, StateKind.OPAQUE): "exactly-once",
    (SpoutKind.OPAQUE, StateKind.OPAQUE): "exactly-once, except for keys that only a failed attempt touched",
    (SpoutKind.OPAQUE, StateKind.TRANSACTIONAL): "not exactly-once: a replay with other tuples is skipped",
}

_WINDOW = "not exactly-once: a replayed batch enters its windows again"

_UNFENCED = "only while one driver lives and the store loses nothing: it has no conditional put"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The promise for one state.

    `spouts` are the streams that feed the state, each with the kind of its spout. `condition` is the condition of the
    promise, "" if it is unconditional. `trident` is the promise of Storm's Trident for the same pair of spout and
    state.
    """

    state: str
    kind: StateKind
    store: str
    spouts: tuple[tuple[str, SpoutKind], ...]
    promise: Promise
    condition: str
    trident: str

    @property
    def exactlyOnce(self) -> bool:
        """Return whether the promise is exactly-once without a condition."""
        return self.promise is Promise.EXACTLY_ONCE and not self.condition

    trusted: str = ""
    """The streams whose rows are not compared in a replay on Spark, and why that matters, as text; "" if there are
    none."""

    @property
    def origin(self) -> str:
        """The streams that feed the state, with their kinds, as text."""
        return ", ".join(f"{stream} ({kind.value})" for stream, kind in self.spouts)

    def __str__(self) -> str:
        return self.promise.value + (f", {self.condition}" if self.condition else "")


def guarantee_of(node: StateWriter) -> Guarantee:
    """Return the guarantee of the state that a step updates."""
    factory = node.state.factory
    weakest = _weakest(node)
    promise = _promise(weakest, factory.kind)
    fenced = not isinstance(factory, Fencing) or factory.fenced or promise is not Promise.EXACTLY_ONCE
    return Guarantee(
        node.state.name,
        factory.kind,
        type(factory).__name__,
        tuple((source.stream, source.spout.kind) for source in _sources(node)),
        promise,
        "; ".join(filter(None, ("" if fenced else _UNFENCED, _leaning(node, promise)))),
        _WINDOW if state_traits(node).in_windows else _TRIDENT.get((weakest, factory.kind), _no_exactness(weakest)),
        _trusted(node),
    )


def promise_of(node: Sink) -> Promise | None:
    """Return the promise for the batches that an output publishes; None if the output makes no promise.

    An output that publishes each batch once has the promise of an opaque state; another one that of a non-transactional
    state.
    """
    kind = sink_traits(node).promised_as(node)
    return None if kind is None else _promise(_weakest(node), kind)


def promise_text(node: Sink) -> str:
    """Return the promise of an output that has one, as text."""
    promise = promise_of(node)
    assert promise is not None
    return promise.value


def guarantees(roots: Iterable[Node]) -> tuple[Guarantee, ...]:
    """Return the guarantees of all states that `roots` and the nodes that lead to them update."""
    return tuple(guarantee_of(node) for node in walk(*roots) if isinstance(node, StateWriter))


def check_exactly_once(topology: TopologyPlan) -> None:
    """Raise GuaranteeError if a state, or an output to Parquet or Kafka, has a weaker promise than exactly-once.

    The error names the first such output, or all such states, and the way out.
    """
    weak = [guarantee for guarantee in guarantees(topology.sinks) if not guarantee.exactlyOnce]
    for node in (node for node in walk(*topology.sinks) if isinstance(node, Sink)):
        promise = promise_of(node)
        if promise is not None and promise is not Promise.EXACTLY_ONCE:
            weak_spout = _weakest(node) is SpoutKind.NON_TRANSACTIONAL
            way_out = "use a transactional or opaque spout" if weak_spout else "leave out guarantee='at-least-once'"
            raise GuaranteeError(
                f"requireExactlyOnce=True, and output {node.name} ({node.step}) guarantees only: {promise.value}; "
                f"{way_out}"
            )
    if weak:
        lines = [
            f"  {each.state} ({each.kind.value}, {each.store}) from {each.origin}: {each}; {_way_out(each)}"
            for each in weak
        ]
        raise GuaranteeError("requireExactlyOnce=True, but these states guarantee less:\n" + "\n".join(lines))


def _sources(node: Node) -> list[SpoutSource]:
    return [source for source in walk(node) if isinstance(source, SpoutSource)]


def _leaning(node: StateWriter, promise: Promise) -> str:
    """Return the weaker states from which the tuples of a state come, as a condition; "" if there are none."""
    above = [step for step in walk(node) if step is not node]
    read = [step for step in (*above, *chain.from_iterable(map(asked_by, above))) if isinstance(step, StateWriter)]
    weak = {step.state.name: None for step in read if step.state.factory.kind is StateKind.NON_TRANSACTIONAL}
    if not weak or promise is not Promise.EXACTLY_ONCE:
        return ""
    return f"for the values of {', '.join(weak)}, which {'is' if len(weak) == 1 else 'are'} nonTransactional"


def _trusted(node: Node) -> str:
    """Return which streams are trusted to return the same rows again when Spark's workers read them; "" if none are."""
    streams = [source.stream for source in _sources(node) if _is_trusted(source.spout)]
    if not streams:
        return ""
    return (
        f"rows of {', '.join(streams)} that Spark's workers read by reference (a "
        f"replay must have the same rows; with engine='embedded' the driver compares them)"
    )


def _is_trusted(spout: object) -> bool:
    """Return whether a spout promises the same rows at a replay, but a replay on Spark can go unchecked.

    This applies to spouts of users and to readers of Spark. Other spouts check their rows, or emit them by value, so
    that the library compares digests.
    """
    own = getattr(spout, "spout", spout)
    foreign = not type(own).__module__.startswith(("trident.", "trident_spouts."))
    return getattr(spout, "kind", None) is SpoutKind.TRANSACTIONAL and (
        foreign or isinstance(own, SparkSpout | StreamingSpout)
    )


def _weakest(node: Node) -> SpoutKind:
    kinds = [source.spout.kind for source in _sources(node)]
    return min(kinds, key=_WEAKEST_FIRST.index, default=SpoutKind.TRANSACTIONAL)


def _promise(spout: SpoutKind, state: StateKind) -> Promise:
    if state is StateKind.NON_TRANSACTIONAL:
        return Promise.NOTHING if spout is SpoutKind.NON_TRANSACTIONAL else Promise.AT_LEAST_ONCE
    return Promise.BATCHES_ONCE if spout is SpoutKind.NON_TRANSACTIONAL else Promise.EXACTLY_ONCE


def _no_exactness(spout: SpoutKind) -> str:
    """Return why Storm's Trident is not exactly-once with a spout of this kind."""
    if spout is SpoutKind.NON_TRANSACTIONAL:
        return "not exactly-once: a failed batch is not replayed as it was"
    return "not exactly-once: a replayed batch is added again"


def _way_out(guarantee: Guarantee) -> str:
    if guarantee.promise is Promise.AT_LEAST_ONCE:
        return "make the state transactional or opaque"
    if guarantee.promise is Promise.EXACTLY_ONCE and guarantee.condition.startswith(_UNFENCED):
        return "use a store of this library, or a BackingMap with a conditional put"
    if guarantee.promise is Promise.EXACTLY_ONCE:
        return "make those states transactional or opaque"
    return "use a transactional or opaque spout" + (
        ", and a transactional or opaque state" if guarantee.promise is Promise.NOTHING else ""
    )
