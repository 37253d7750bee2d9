"""The steps of a program so far, the names in use, and the steps that a run needs."""

import weakref
from collections.abc import Iterable
from typing import Any

from trident.base.errors import DuplicateNameError, TopologyError
from trident.base.names import RESERVED, reserved
from trident.base.verb_call import Step, caller, verb_label
from trident.plan.defining_cells import DefiningCells, note_of
from trident.plan.nodes import (
    Emitted,
    EmittingUpdate,
    LateTuples,
    LettersOf,
    Node,
    RequestSource,
    Sink,
    SpoutSource,
    StateWriter,
    StaticState,
    built_on,
    sources_of,
    walk,
)
from trident.plan.split_schema import streams_of
from trident.plan.traits import may_lose_batches, traits_of


class Register:
    """The steps of one topology, in the order they were written. All streams of the topology share it."""

    def __init__(self, branch: str = "", atLeastOnce: bool = False) -> None:
        self.branch = branch
        """The file and line where the best-effort branch of these steps begins; "" for the steps of the topology
        itself."""
        self.atLeastOnce = atLeastOnce
        """True if every state is kept as a nonTransactional one, regardless of its factory."""
        self.streams: dict[str, SpoutSource] = {}
        self.functions: dict[str, RequestSource] = {}
        self.states: dict[str, StateWriter] = {}
        self.statics: dict[str, StaticState] = {}
        self.sinks: dict[str, Sink] = {}
        self.replayable: dict[str, Node] = {}
        """The steps after which replayed dead letters are inserted, by the label of their stream."""
        self.replays: dict[Node, SpoutSource] = {}
        """The sources that emit replayed dead letters, by the step before which the letters are inserted."""
        self.letters: dict[Node, LettersOf] = {}
        """The steps that output dead letters, by the step whose function failed on the tuples."""
        self.emitted: dict[Node, Emitted] = {}
        """The steps that output the emissions of updaters, by the updater's step. Each updater has at most one."""
        self.changes: dict[tuple[Node, bool], Node] = {}
        """The steps that output the changes of states, by the state's step and whether null values are rows."""
        self.indexes: dict[tuple[Node, tuple[str, ...]], StateWriter] = {}
        """The states with the keys of the rows of a table that refer to others, by the table's step and the fields."""
        self.ordered: dict[tuple[Node, tuple[str, ...]], Step] = {}
        """The calls that require the changes of each key in the order of their source, by the preceding step and the
        key."""
        self.everyChange: set[Node] = set()
        """The nodes after which each change of a value is needed, because the program passed ``everyChange=True``."""
        self.late: dict[tuple[EmittingUpdate, int | None], LateTuples] = {}
        """The steps that output late tuples, by the step for which they are late and its stream's number."""
        self._nodes: dict[Node, None] = {}
        """All steps, in the order they were written."""
        self._looked_at: set[Node] = set()
        """The steps that were only previewed. They are kept as long as the program holds one of their streams."""
        self._views: weakref.WeakKeyDictionary[object, Node] = weakref.WeakKeyDictionary()
        """The program's streams, each with its step."""
        self._counts: dict[str, int] = {}
        self._cells = DefiningCells()

    def why_foreign(self, other: "Register") -> str:
        """Return why the steps of `other` cannot be used with the steps of this register."""
        branch = self.branch or other.branch
        if not branch:
            return "belongs to another topology"
        return (
            f"cannot join the branch that begins with bestEffort at {branch}: the branch may lose batches, so it "
            f"has only functions, peek, Debug and foreachBatch, and no other stream and no state; write this on the "
            f"stream before it"
        )

    def step(self, stream: str, verb: str) -> Step:
        """Begin a call of `verb`. Return the label of the stream's next step, and the call as its errors name it."""
        self.begin_call()
        return Step(self.label(stream, verb), caller(verb))

    def begin_call(self) -> None:
        """Remove the steps that an earlier run of this notebook cell defined, and all steps built on them.

        Print a note.

        Every verb calls this first, before it checks names. So a cell that runs again finds its names free, and an
        effect such as `peek` is not doubled.
        """
        own = self._cells.outdated()
        if not own:
            return
        gone = self._with_whole_functions(self._built_on(own), own)
        others = [node for node in self.nodes if node in gone and node not in own]
        note = note_of(own, {node: self._cells.run_of(node) for node in others})
        self._take_out(gone)
        if note:
            print(note)

    def label(self, stream: str, verb: str) -> str:
        """Return the label of the next step of a stream."""
        return f"{stream}/{self._counts.get(stream, 0)}:{verb_label(verb)}"

    def add(self, stream: str, node: Node, part: bool = False) -> None:
        """Add a step.

        Raises TopologyError if a best-effort branch must not have it, or if the name of a field is reserved.

        A verb that makes several steps adds all but one of them with `part`: the stream's labels count them once.
        """
        if self.branch and not may_lose_batches(node):
            raise TopologyError(
                f"{node.step} (called at {node.site.location}): the branch that begins with bestEffort at "
                f"{self.branch} may lose batches, so it takes only peek, Debug and foreachBatch, and nothing that "
                f"must be exact; write this on the stream before it"
            )
        _check_free_names(node)
        for above in built_on(node):
            self._keep(above, node)
        if not part:
            self._counts[stream] = self._counts.get(stream, 0) + 1
        self._nodes[node] = None
        self._cells.record(node)
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
        """Raise DuplicateNameError if another state of the topology has this name."""
        if name in self.states:
            first = self.states[name]
            way = self.way_to_replace(first)
            raise step.error(
                DuplicateNameError,
                f"state {name!r} is already updated by {first.step} ({first.site.location}), and only one step may "
                f"update a state; merge the streams first, or give this state another name={way}",
            )
        if name in self.statics:
            static = self.statics[name]
            raise step.error(
                DuplicateNameError,
                f"state {name!r} is a static state ({static.site.location}); give this state another name="
                f"{self.way_to_replace(static)}",
            )

    def check_free_sink(self, name: str, step: Step) -> None:
        """Raise DuplicateNameError if another sink of the topology has this name."""
        if name in self.sinks:
            first = self.sinks[name]
            raise step.error(
                DuplicateNameError,
                f"there is already an output {name!r}, {first.step} ({first.site.location}); "
                f"give this one another name={self.way_to_replace(first)}",
            )

    def way_to_replace(self, node: Node) -> str:
        """Return the end of a message about a name that `node` has: see `DefiningCells.way_to_replace`."""
        return self._cells.way_to_replace(node)

    def viewed_by(self, view: object, node: Node) -> None:
        """Record that `view`, a stream of the program, has the tuples of `node`."""
        self._views[view] = node

    def looked_at(self, node: Node) -> None:
        """Release `node` and the steps that lead to it, unless they have an effect or another step reads them.

        They stay in the topology only as long as the program holds their streams, or for good if a later verb builds on
        them. So a preview of a stream (`take`, `show`) leaves no trace.
        """
        kept = [other for other in self._nodes if other not in self._looked_at]
        read = {id(above) for other in kept for above in built_on(other)}
        if id(node) not in read and traits_of(node).role in ("step", "aggregate", "meeting"):
            self._looked_at.add(node)
            for source in sources_of(node):
                self.looked_at(source)

    def _keep(self, node: Node, reader: Node) -> None:
        """Keep a step on which another step is built. Raises TopologyError if a notebook cell has replaced it."""
        if self._cells.has_replaced(node):
            raise Step(reader.step, reader.site).wrong(
                f"it follows {node.step} ({node.site.location}), which was replaced when its cell ran again: also run "
                f"the cells between the two steps again"
            )
        if node in self._looked_at:
            self._looked_at.remove(node)
            for above in built_on(node):
                self._keep(above, reader)

    def _with_whole_functions(self, gone: set[Node], own: Iterable[Node]) -> set[Node]:
        """Return the steps to remove, including as a whole each DRPC function that loses steps of other cells.

        Otherwise the last remaining step would become its answer. The cell that runs again is about to define its own
        steps again.
        """
        cut = list[Node]()
        for source in self.functions.values():
            below = self._below([source])
            if not gone.isdisjoint(below) and not set(own).intersection(below):
                cut.append(source)
        return self._built_on([*gone, *cut])

    def _take_out(self, gone: set[Node]) -> None:
        """Remove steps, and free their names and the numbers in their labels."""
        self._nodes = {node: None for node in self._nodes if node not in gone}
        self._looked_at -= gone
        self._cells.replace(gone)
        by_name = (self.streams, self.functions, self.states, self.statics, self.sinks, self.replayable)
        by_step = (self.letters, self.emitted, self.changes, self.indexes, self.late)
        tables: tuple[dict[Any, Any], ...] = (*by_name, *by_step)
        for table in tables:
            for key in [key for key, node in table.items() if node in gone]:
                del table[key]
        for step in gone & self.replays.keys():
            del self.replays[step]
        numbers = [_label_parts(node) for node in self.nodes]
        for stream in {stream for stream, _ in map(_label_parts, gone)}:
            self._counts[stream] = 1 + max((number for label, number in numbers if label == stream), default=-1)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All steps, in the order they were written."""
        if self._looked_at:
            gone = self._looked_at.difference(walk(*self._views.values()))
            self._looked_at -= gone
            self._nodes = {node: None for node in self._nodes if node not in gone}
        return tuple(self._nodes)

    def ends(self) -> list[Node]:
        """Return all steps that no other step reads, with or without an effect, except static states."""
        nodes = self.nodes
        read = {id(source) for node in nodes for source in sources_of(node)}
        return [node for node in nodes if id(node) not in read and not isinstance(node, StaticState)]

    def roots(self) -> tuple[Node, ...]:
        """Return the steps that a best-effort branch must run: its sinks, and effects that lead to no sink."""
        return (*self.sinks.values(), *self.loose_effects())

    def loose_effects(self) -> tuple[Node, ...]:
        """Return the effects (peek, Debug) that lead to no state, sink, answer or other effect. They run, too."""
        effects = [node for node in self.nodes if traits_of(node).role == "effect"]
        ending = [*walk(*self.states.values(), *self.sinks.values()), *self._answering()]
        covered = {id(node) for node in ending}
        for effect in effects:
            covered |= {id(node) for node in walk(*sources_of(effect))}
        return tuple(effect for effect in effects if id(effect) not in covered)

    def requests(self) -> dict[str, tuple[RequestSource, Node]]:
        """Return each DRPC function with its source and the step of its answer: the step that no step reads."""
        return {function: (source, self._answer(function, source)) for function, source in self.functions.items()}

    def _answer(self, function: str, source: RequestSource) -> Node:
        below = self._below([source])
        read = {id(source) for node in below for source in sources_of(node)}
        ends = [node for node in below if id(node) not in read]
        if len(ends) == 1:
            return ends[0]
        answers = " and ".join(f"{node.step} ({node.site.location})" for node in ends)
        raise TopologyError(
            f"DRPC function {function!r} has {len(ends)} answers, {answers}: expected exactly one last step, which "
            f"is the answer. Merge or join them; if a cell ran twice, create a new TridentTopology in it"
        )

    def _answering(self) -> list[Node]:
        return self._below(self.functions.values())

    def _below(self, sources: Iterable[Node]) -> list[Node]:
        """Return `sources` and all steps that read them, directly or through other steps."""
        reached = {id(source) for source in sources}
        for node in self.nodes:  # in this order, each step comes after the steps that it reads
            if any(id(source) in reached for source in sources_of(node)):
                reached.add(id(node))
        return [node for node in self.nodes if id(node) in reached]

    def _built_on(self, steps: Iterable[Node]) -> set[Node]:
        """Return `steps` and all steps that read their tuples, query their states or take their late tuples."""
        reached = set(steps)
        for node in self.nodes:
            if not reached.isdisjoint(built_on(node)):
                reached.add(node)
        return reached


def _label_parts(node: Node) -> tuple[str, int]:
    """Return the stream's name and the number in a step's label, such as ("words", 2) for ``words/2:filter(long)``."""
    stream, _, rest = node.step.partition("/")
    return stream, int(rest.partition(":")[0])


def _check_free_names(node: Node) -> None:
    """Raise TopologyError for reserved field names, which the engines use for hidden fields in a batch."""
    schemas = [schema for _, schema in streams_of(node)] or [node.schema]
    name = reserved(name for schema in schemas for name in schema.names)
    if name is not None:
        raise Step(node.step, node.site).wrong(
            f"field {name!r}: names that begin with {RESERVED!r} are reserved; choose another name"
        )
