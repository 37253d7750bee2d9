"""What a topology has been told so far: names that are taken, steps, and from them what there is to run."""

from collections.abc import Iterable

from trident.base.errors import DuplicateNameError, TopologyError
from trident.base.names import RESERVED, reserved
from trident.base.step import Step, verb_label
from trident.plan.nodes import (
    Emitted,
    LateTuples,
    LettersOf,
    Node,
    RequestSource,
    Sink,
    Split,
    SpoutSource,
    StateWriter,
    StaticState,
    Window,
    sources_of,
    walk,
)
from trident.plan.traits import traits_of


class Register:
    """The steps of one topology, in the order they were made. Every stream of the topology holds it."""

    def __init__(self, branch: str = "") -> None:
        self.branch = branch
        """Of the steps of a best-effort branch: where it begins. Empty for a topology's own."""
        self.streams: dict[str, SpoutSource] = {}
        self.functions: dict[str, RequestSource] = {}
        self.states: dict[str, StateWriter] = {}
        self.statics: dict[str, StaticState] = {}
        self.sinks: dict[str, Sink] = {}
        self.replays: dict[str, SpoutSource] = {}
        """Where dead letters come back, by the stream's label."""
        self.letters: dict[Node, LettersOf] = {}
        """Dead letters, by the step that makes them."""
        self.emitted: dict[Node, Emitted] = {}
        """What updaters emit, by their step: one stream of new values, however often it is asked for."""
        self.late: dict[Window, LateTuples] = {}
        """The late tuples of windows, where they were asked for."""
        self._nodes: list[Node] = []
        self._counts: dict[str, int] = {}

    def stranger(self, other: "Register") -> str:
        """Why what the other one holds cannot be used here."""
        branch = self.branch or other.branch
        if not branch:
            return "belongs to another topology"
        return (
            f"does not meet the branch that begins with bestEffort at {branch}: that may lose batches, holds "
            "functions, peeks, Debugs and foreachBatch only, and meets no other stream and no state; write this on the "
            "stream before it"
        )

    def label(self, stream: str, verb: str) -> str:
        """The name of the next step of a stream."""
        return f"{stream}/{self._counts.get(stream, 0)}:{verb_label(verb)}"

    def add(self, stream: str, node: Node, part: bool = False) -> None:
        """Take in a step, under the label that it was given. `part`: it is one of several that a verb made, which count
        once."""
        if self.branch and not traits_of(node).in_branch:
            raise TopologyError(
                f"{node.step} (called at {node.site.location}): the branch that begins with bestEffort at "
                f"{self.branch} may lose batches, so it holds peeks, Debugs and foreachBatch, and nothing that is "
                "to be exact; write this on the stream before it"
            )
        _check_free_names(node)
        if not part:
            self._counts[stream] = self._counts.get(stream, 0) + 1
        self._nodes.append(node)
        if isinstance(node, SpoutSource):
            self.streams[node.stream] = node
        elif isinstance(node, RequestSource):
            self.functions[node.function] = node
        elif isinstance(node, Sink):
            self.sinks[node.name] = node
        elif isinstance(node, StaticState):
            self.statics[node.state.name] = node
        elif isinstance(node, StateWriter):
            self.states[node.state.name] = node

    def check_free(self, name: str, step: Step) -> None:
        """Refuse a second state of one name."""
        if name in self.states:
            first = self.states[name]
            raise step.error(
                DuplicateNameError,
                f"state {name!r} is updated by {first.step} ({first.site.location}) already, and it takes one step; "
                "merge the streams before it, or give this state another name=",
            )
        if name in self.statics:
            location = self.statics[name].site.location
            raise step.error(
                DuplicateNameError, f"state {name!r} is a static one ({location}); give this another name="
            )

    def check_free_sink(self, name: str, step: Step) -> None:
        """Refuse a second sink of one name."""
        if name in self.sinks:
            first = self.sinks[name]
            raise step.error(
                DuplicateNameError,
                f"an output {name!r} is there already, {first.step} ({first.site.location}); "
                "give this one another name=",
            )

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every step, in the order they were made."""
        return tuple(self._nodes)

    def ends(self) -> list[Node]:
        """Every step that no other reads, with an effect or without."""
        read = {id(source) for node in self._nodes for source in sources_of(node)}
        return [node for node in self._nodes if id(node) not in read and not isinstance(node, StaticState)]

    def roots(self) -> tuple[Node, ...]:
        """What there is to run of a branch: its outputs and effects."""
        return (*self.sinks.values(), *self.leaves())

    def leaves(self) -> tuple[Node, ...]:
        """Steps with an effect of their own (peek, Debug) that lead to no state and no answer: they run, too."""
        effects = [node for node in self._nodes if traits_of(node).role == "effect"]
        ending = [*walk(*self.states.values(), *self.sinks.values()), *self._answering()]
        covered = {id(node) for node in ending}
        for effect in effects:
            covered |= {id(node) for node in walk(*sources_of(effect))}
        return tuple(effect for effect in effects if id(effect) not in covered)

    def requests(self) -> dict[str, tuple[RequestSource, Node]]:
        """Every DRPC function with the step that gives its answer: the one that no other step reads."""
        return {function: (source, self._answer(function, source)) for function, source in self.functions.items()}

    def _answer(self, function: str, source: RequestSource) -> Node:
        below = self._below([source])
        read = {id(each) for node in below for each in sources_of(node)}
        leaves = [node for node in below if id(node) not in read]
        if len(leaves) == 1:
            return leaves[0]
        places = " and ".join(f"{leaf.step} ({leaf.site.location})" for leaf in leaves)
        raise TopologyError(
            f"DRPC function {function!r} has {len(leaves)} answers, {places}: the answer is the one step that "
            "no other reads. Merge or join them; where a cell ran twice, begin it with a new TridentTopology"
        )

    def _answering(self) -> list[Node]:
        return self._below(self.functions.values())

    def _below(self, sources: Iterable[Node]) -> list[Node]:
        """These nodes and every step that reads them, however far."""
        reached = {id(source) for source in sources}
        for node in self._nodes:  # made in order: each after those it reads
            if any(id(source) in reached for source in sources_of(node)):
                reached.add(id(node))
        return [node for node in self._nodes if id(node) in reached]


def _check_free_names(node: Node) -> None:
    """Refuse fields that are named like the engines' own, which stand beside them in a batch."""
    schemas = [schema for _, schema in node.streams] if isinstance(node, Split) else [node.schema]
    taken = reserved(name for schema in schemas for name in schema.names)
    if taken is not None:
        raise Step(node.step, node.site).error(
            TopologyError,
            f"field {taken!r}: names that begin with {RESERVED!r} are the engines' own; name it otherwise",
        )
