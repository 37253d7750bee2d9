"""The steps that a program has written so far, the names that are taken, and the steps that a run needs."""

from collections.abc import Iterable

from trident.base.errors import DuplicateNameError, TopologyError
from trident.base.names import RESERVED, reserved
from trident.base.step import Step, verb_label
from trident.plan.nodes import (
    Emitted,
    IntervalJoin,
    LateTuples,
    LettersOf,
    Node,
    PartitionPersist,
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
    """The steps of one topology, in the order they were written. All streams of the topology share it."""

    def __init__(self, branch: str = "") -> None:
        self.branch = branch
        """The file and line where these steps' best-effort branch begins; "" for the steps of the topology itself."""
        self.streams: dict[str, SpoutSource] = {}
        self.functions: dict[str, RequestSource] = {}
        self.states: dict[str, StateWriter] = {}
        self.statics: dict[str, StaticState] = {}
        self.sinks: dict[str, Sink] = {}
        self.replays: dict[str, SpoutSource] = {}
        """The sources through which dead letters come back, by the label of the stream that they come back to."""
        self.letters: dict[Node, LettersOf] = {}
        """The steps that give dead letters, by the step on whose tuples a function failed."""
        self.emitted: dict[Node, Emitted] = {}
        """The steps that give the emissions of updaters, by the updater's step. Each updater has at most one."""
        self.late: dict[tuple[Window | PartitionPersist | IntervalJoin, int | None], LateTuples] = {}
        """The steps that give late tuples, by what they are late for and the stream of it, if the program asks."""
        self._nodes: list[Node] = []
        self._counts: dict[str, int] = {}

    def why_foreign(self, other: "Register") -> str:
        """Return why the steps of `other` cannot be used with the steps of this register."""
        branch = self.branch or other.branch
        if not branch:
            return "belongs to another topology"
        return (
            f"does not meet the branch that begins with bestEffort at {branch}: that may lose batches, holds "
            "functions, peeks, Debugs and foreachBatch only, and meets no other stream and no state; write this on the "
            "stream before it"
        )

    def label(self, stream: str, verb: str) -> str:
        """Return the label of the next step of a stream."""
        return f"{stream}/{self._counts.get(stream, 0)}:{verb_label(verb)}"

    def add(self, stream: str, node: Node, part: bool = False) -> None:
        """Add a step. Raises TopologyError if the step cannot be in the branch, or gives a field with a reserved name.

        A verb that makes several steps adds all but one of them with `part`: the stream's labels count them once.
        """
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
        """Refuse a state's name that another state of the topology has."""
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
        """Refuse a sink's name that another sink of the topology has."""
        if name in self.sinks:
            first = self.sinks[name]
            raise step.error(
                DuplicateNameError,
                f"an output {name!r} is there already, {first.step} ({first.site.location}); "
                "give this one another name=",
            )

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All steps, in the order they were written."""
        return tuple(self._nodes)

    def ends(self) -> list[Node]:
        """Return all steps that no other step reads, with or without an effect, but no static states."""
        read = {id(source) for node in self._nodes for source in sources_of(node)}
        return [node for node in self._nodes if id(node) not in read and not isinstance(node, StaticState)]

    def roots(self) -> tuple[Node, ...]:
        """Return the steps that a best-effort branch has to run: its sinks, and effects that lead to no sink."""
        return (*self.sinks.values(), *self.loose_effects())

    def loose_effects(self) -> tuple[Node, ...]:
        """Return the effects (peek, Debug) that lead to no state, sink, answer or further effect: they run, too."""
        effects = [node for node in self._nodes if traits_of(node).role == "effect"]
        ending = [*walk(*self.states.values(), *self.sinks.values()), *self._answering()]
        covered = {id(node) for node in ending}
        for effect in effects:
            covered |= {id(node) for node in walk(*sources_of(effect))}
        return tuple(effect for effect in effects if id(effect) not in covered)

    def requests(self) -> dict[str, tuple[RequestSource, Node]]:
        """Return each DRPC function with its source and the step that gives its answer: the one that no step reads."""
        return {function: (source, self._answer(function, source)) for function, source in self.functions.items()}

    def _answer(self, function: str, source: RequestSource) -> Node:
        below = self._below([source])
        read = {id(source) for node in below for source in sources_of(node)}
        ends = [node for node in below if id(node) not in read]
        if len(ends) == 1:
            return ends[0]
        answers = " and ".join(f"{node.step} ({node.site.location})" for node in ends)
        raise TopologyError(
            f"DRPC function {function!r} has {len(ends)} answers, {answers}: the answer is the one step that "
            "no other reads. Merge or join them; where a cell ran twice, begin it with a new TridentTopology"
        )

    def _answering(self) -> list[Node]:
        return self._below(self.functions.values())

    def _below(self, sources: Iterable[Node]) -> list[Node]:
        """Return `sources` and all steps that read them, directly or through other steps."""
        reached = {id(source) for source in sources}
        for node in self._nodes:  # in this order, each step comes after the steps that it reads
            if any(id(source) in reached for source in sources_of(node)):
                reached.add(id(node))
        return [node for node in self._nodes if id(node) in reached]


def _check_free_names(node: Node) -> None:
    """Refuse fields with reserved names: the engines' own fields stand beside a node's fields in a batch."""
    schemas = [schema for _, schema in node.streams] if isinstance(node, Split) else [node.schema]
    name = reserved(name for schema in schemas for name in schema.names)
    if name is not None:
        raise Step(node.step, node.site).error(
            TopologyError,
            f"field {name!r}: names that begin with {RESERVED!r} are the engines' own; name it otherwise",
        )
