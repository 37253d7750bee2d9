"""The mark of a step in the ids of its dead letters. By it a later program recognises the step.

A step's label has its number in the stream. In a later program with other branches, another step may have this label.
The mark says to which states and outputs the step leads, by name, because these must get the tuple, and has a digest of
the steps above it. The users' functions are not part of it, since a letter is usually replayed after one was corrected.

A letter with a mark has the id ``txid.stage.number.shape.lead.lead...``. Letters of earlier versions have no mark.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeGuard

from trident.compiler.outline import shapes_above
from trident.compiler.program import Group
from trident.operations.error_policy import DeadLetter
from trident.plan.nodes import (
    BestEffort,
    LettersOf,
    Merge,
    Node,
    Project,
    Sink,
    SpoutSource,
    StateWriter,
    sources_of,
    walk,
)
from trident.spouts.dead_letters import ReplaySpout

_MOST_LEADS = 8
"""The most states and outputs that an id names. For a step that leads to more, these distinguish it well enough."""
_DIGITS = 8
_PARTS = 3
"""The parts of an id before the mark: txid, stage, number."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of a step that makes dead letters.

    `shape` is a digest of the graph of the step and those above it. `leads` has a digest of the name of each state and
    output below the step, in an id at most eight of them.
    """

    shape: str
    leads: frozenset[str]

    @staticmethod
    def in_id(id: str) -> "Mark | None":
        """Return the mark in the id of a letter; None if it has no mark."""
        shape, *leads = id.split(".")[_PARTS:] or [""]
        return Mark(shape, frozenset(leads)) if leads else None


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of the steps of a program that make dead letters, by label, and the digests of what it writes."""

    of_steps: dict[str, Mark]
    written: frozenset[str]

    @staticmethod
    def of(groups: Iterable[Group]) -> "Marks":
        """Return the marks of the steps of these groups. A step that leads to no state and no output has none."""
        steps, written = dict[str, Mark](), frozenset[str]()
        for group in groups:
            ends = [*group.states, *(output.step for output in group.sinks)]
            written |= frozenset(map(_lead, filter(_counts, ends)))
            steps |= _marks(walk(*ends))
        return Marks(steps, written)

    def leads_there(self, step: str, mark: Mark) -> bool:
        """Return whether a step leads to those states and outputs of a mark that the program still has.

        If it has none of them, nothing shows that the step is the marked one.
        """
        left = mark.leads & self.written
        own = self.of_steps.get(step)
        return bool(left) and own is not None and left <= own.leads

    def may_be(self, label: str, mark: Mark | None, steps: Collection[str]) -> list[str]:
        """Return those of the `steps` that may be the marked one, which had this label. One without a mark is believed.

        A step with the label may lead to more than before, because a branch was added below it; but if only the number
        of another step differs, it may be that one, too.
        """
        own = [label] if label in steps and (mark is None or self.leads_there(label, mark)) else []
        if mark is None or (own and _leads_in_id(self.of_steps[label]) == _leads_in_id(mark)):
            return own
        return [*own, *(step for step in steps if step != label and self.is_same(step, label, mark))]

    def is_same(self, step: str, label: str, mark: Mark) -> bool:
        """Return whether only the number of a step differs from those of the marked one, which had this label.

        A step that leads to more may replace several former steps. Then a tuple with a letter of each would come twice.
        """
        own = self.of_steps.get(step)
        return own is not None and marked_id(step, own) == marked_id(step, mark) and _call(step) == _call(label)


def marked_id(id: str, mark: Mark | None) -> str:
    """Return the id of a letter with the mark of its step."""
    return id if mark is None else ".".join((id, mark.shape, *_leads_in_id(mark)))


def _leads_in_id(mark: Mark) -> list[str]:
    return sorted(mark.leads)[:_MOST_LEADS]


def _call(label: str) -> str:
    """Return the verb and the function in a label, without its stream and number."""
    return label.partition(":")[2]


def _marks(nodes: list[Node]) -> dict[str, Mark]:
    """Return the marks of those of the `nodes` that make dead letters. Each of the nodes is after its sources."""
    failing = [node for node in nodes if isinstance(getattr(node, "onError", None), DeadLetter)]
    if not failing:
        return {}
    shapes, leads = shapes_above(nodes, _without_replays), _leads(nodes)
    marks = {node.step: Mark(shapes[id(node)][:_DIGITS], frozenset(leads[id(node)])) for node in failing}
    return {step: mark for step, mark in marks.items() if mark.leads}


def _leads(nodes: list[Node]) -> dict[int, set[str]]:
    """Return for each node (by id) the states and outputs that get its tuples. Its dead letters do not count."""
    below: dict[int, set[str]] = {id(node): set() for node in nodes}
    for node in reversed(nodes):
        if _counts(node):
            below[id(node)].add(_lead(node))
        for source in () if isinstance(node, LettersOf) else sources_of(node):
            below[id(source)] |= below[id(node)]
    return below


def _counts(node: Node) -> TypeGuard[StateWriter | Sink]:
    """Return whether a node is a state, or an output that no batch may miss."""
    return isinstance(node, StateWriter | Sink) and not isinstance(node, BestEffort)


def _lead(node: StateWriter | Sink) -> str:
    name = f"output {node.name}" if isinstance(node, Sink) else f"state {node.state.name}"
    return hashlib.blake2b(name.encode(), digest_size=_DIGITS // 2).hexdigest()


def _without_replays(node: Node) -> Iterator[Node]:
    """Yield the sources of a node, without those of replayed letters, which are numbered in the order of the steps."""
    for source in sources_of(node):
        above = source.source if isinstance(node, Merge) and isinstance(source, Project) else None
        if not (isinstance(above, SpoutSource) and isinstance(above.spout, ReplaySpout)):
            yield source
