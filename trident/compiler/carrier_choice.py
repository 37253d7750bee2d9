"""The choice between the driver and Spark's executors for each piece of work of a group's commit turns.

A state's factory names its writers: "driver", "executors", or "auto" for whichever of them has the tuples. Some
programs still need the driver for a piece of work. Then the choice has the reason, which `explain` and errors print.
Only a run shows the rest: whether a result is in memory or in files, and whether the workers reach the files and the
state.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from trident.base.cached_property import cached_property
from trident.base.errors import UserCodeError
from trident.compiler.columns.function_errors import Where
from trident.compiler.keyed_updates import KeyedUpdate, same_in_parts, why_not_by_key
from trident.compiler.program import Group, Output, Stage
from trident.compiler.stage_layout import check_pickles
from trident.compiler.states.queries import Question
from trident.operations.query_functions import answers_repeat
from trident.plan.nodes import (
    CommittedQuery,
    Emitted,
    HeldState,
    LateTuples,
    LettersOf,
    Node,
    PersistentAggregate,
    Sink,
    StateQuery,
    StateReader,
    StateSpec,
    StateUpdate,
    StateWriter,
    StaticState,
    TableChanges,
    Watermark,
    sources_of,
)
from trident.plan.state_schema import function_of
from trident_state.state_shape import StateKind
from trident_state.store import Sharing

Verb = Literal["write", "update", "ask", "carry"]
"""The work of a commit turn: write a result into a state, update a state, query a state, carry tuples on."""


def writers_of(state: StateSpec) -> str:
    """Return the writers of a state that its factory sets: "driver", "executors" or "auto"."""
    return state.factory.writers if isinstance(state.factory, Sharing) else "driver"


def writers_of_step(step: HeldState) -> str:
    """Return the writers of a step's state: as `writers_of`, but the driver writes a watermark, which is one value."""
    return "driver" if isinstance(step, Watermark) else writers_of(step.state)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The choice for one piece of work. `wanted`: the result of `writers_of_step`; "auto" for tuples carried on."""

    wanted: str
    why_driver: str | None
    """The reason why executors never do the work; None if they can."""
    state: str | None = None
    """The state that the executors must reach; None if they need only files."""
    readers: tuple["Choice", ...] = ()
    """The updates that read the tuples. Executors do the work only if they make all these updates, too."""

    @property
    def writers(self) -> str:
        """The writers: "driver", "executors" or "auto". "driver" also if "auto" always chooses the driver."""
        return "driver" if self.wanted == "auto" and self.why_driver is not None else self.wanted

    @property
    def by_executors(self) -> bool:
        """True if only executors do the work, whatever the size of a batch."""
        return self.wanted == "executors" and self.why_driver is None

    @property
    def divides(self) -> bool:
        """True if executors may do the work."""
        return self.wanted != "driver" and self.why_driver is None


def choice_of_static(state: StaticState) -> Choice:
    """Return the choice for queries of a state that the topology only reads. It does not depend on later steps."""
    return Choice(writers_of(state.state), _why_not_shared(state), state.state.name)


class CarrierPlan:
    """The choices of driver or executors for a group's work. Each is made once, when it is first needed."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._choices: dict[tuple[Verb, Node], Choice] = {}

    def choice(self, verb: Verb, step: Node) -> Choice:
        """Return who writes, updates or queries the state of `step`, or passes its tuples on to a later stage."""
        if (verb, step) not in self._choices:
            self._choices[verb, step] = self._chosen(verb, step)
        return self._choices[verb, step]

    @cached_property
    def by_state(self) -> Mapping[str, Choice]:
        """For each state that the group writes, the choice of its work: of its update, or of its writes."""
        return {
            s.state.name: self.choice("update" if isinstance(s, StateUpdate) else "write", s) for s in self._writers
        }

    @cached_property
    def by_query(self) -> Mapping[StateQuery, Choice]:
        """The choice for each query of a state."""
        queries = [output.step for output in self._frozen if isinstance(output.step, StateQuery)]
        return {query: self.choice("ask", query) for query in queries}

    def in_files(self, stage: Stage) -> frozenset[str]:
        """Return the outputs of a stage that executors write into files, whatever their size.

        Only executors work on them afterwards: they put them, use them to query a state, or to update one.
        """
        updates = [step for step in self._writers if isinstance(step, StateUpdate)]
        by_choice = [step for step in updates if self.choice("update", step).by_executors]
        entering = {source for step in by_choice for source in sources_of(step)}

        def by_executors(step: object) -> bool:
            if isinstance(step, PersistentAggregate | StateQuery):
                spec = step.state if isinstance(step, PersistentAggregate) else step.updated.state
                return writers_of(spec) == "executors"
            return step in entering

        return frozenset(output.name for output in stage.outputs if by_executors(output.step))

    # --- the choices -------------------------------------------------------------------------------------------------

    def _chosen(self, verb: Verb, step: Node) -> Choice:
        if isinstance(step, StateReader):
            return self._query(step)
        if verb == "carry":
            # An output reads the files itself.
            readers = [reader for reader in self._read_by.get(step, []) if not isinstance(reader, Sink)]
            return Choice("auto", self._why_read(readers), None, self._updates(readers))
        assert isinstance(step, StateWriter)
        wanted, state, why = writers_of_step(step), step.state.name, self._why_written(step)
        if verb == "update" and isinstance(step, StateUpdate):
            why = why or (_why_whole(step) if wanted == "auto" else None)
        return Choice(wanted, why, state)

    def _query(self, step: StateReader) -> Choice:
        if isinstance(step, CommittedQuery):
            return Choice("driver", "the driver asks for committed values", step.updated.state.name)
        wanted, readers = writers_of(step.updated.state), self._read_by.get(step, [])
        why = _why_not_shared(step.updated) or self._why_read(readers) or self._why_once(step, readers)
        why = why or (_why_unsendable(step) if wanted == "auto" else None)
        return Choice(wanted, why, step.updated.state.name, self._updates(readers))

    def _why_written(self, step: StateWriter) -> str | None:
        """Return why the executors cannot write the state of a step; None if they can write it."""
        if isinstance(step, StateUpdate):
            reasons = [why_not_by_key(step), self._why_late(step), *map(_why_in_driver, sources_of(step))]
            why = next((reason for reason in reasons if reason is not None), None)
            if why is not None:
                return f"the driver computes its values ({step.step}): {why}"
        elif any(step in stage.reads for stage in self.group.stages):
            return f"later steps read its new values ({step.step}), which are sent to the driver"
        return _why_not_shared(step)

    def _why_late(self, step: StateUpdate) -> str | None:
        """Return why the late tuples of an update need the driver; None if no step reads its late tuples."""
        if any(isinstance(output.step, LateTuples) and output.step.window is step for output in self._frozen):
            return "only the driver finds late tuples, and late() is read; leave late() out"
        return None

    def _why_read(self, readers: Iterable[Node]) -> str | None:
        """Return why the steps of commit turns that read tuples need them in the driver; None if they do not."""
        for reader in self._tuples_read_by(readers):
            if not isinstance(reader, StateUpdate):
                return f"{reader.step} reads its tuples in the driver"
            if not self.choice("update", reader).divides:
                return f"the driver makes {reader.step}, which reads its tuples"
        return None

    def _why_once(self, step: StateQuery, readers: Iterable[Node]) -> str | None:
        """Return why the answers of a query must be computed once, in the driver; None if they need not be.

        Otherwise each piece of work that reads the tuples would query again, but all must read the same evaluation
        (decision 18).
        """
        if answers_repeat(step.query.function):
            return None
        reads = sum(step in stage.inputs for stage in self.group.stages)
        for reader in readers:  # an update by event time searches the latest time first
            reads += 2 if isinstance(reader, StateUpdate) and KeyedUpdate.of(reader).by_event_time else 1
        return ASKED_ONCE if reads > 1 else None

    def _updates(self, readers: Iterable[Node]) -> tuple[Choice, ...]:
        updates = [reader for reader in self._tuples_read_by(readers) if isinstance(reader, StateUpdate)]
        return tuple(self.choice("update", update) for update in updates)

    def _tuples_read_by(self, readers: Iterable[Node]) -> list[Node]:
        """Return the steps that need the tuples themselves.

        A watermark needs only their latest time, which the workers find.
        """
        readers = list(readers)
        return [step for step in readers if not isinstance(step, Watermark)] or readers

    # --- the group ---------------------------------------------------------------------------------------------------

    @cached_property
    def _frozen(self) -> list[Output]:
        return [output for stage in self.group.stages for output in stage.frozen]

    @cached_property
    def _writers(self) -> list[StateWriter]:
        return [output.step for output in self._frozen if isinstance(output.step, StateWriter)]

    @cached_property
    def _read_by(self) -> dict[Node, list[Node]]:
        """For each node, the steps of commit turns that read its tuples."""
        steps: dict[Node, list[Node]] = {}
        for output in (output for stage in self.group.stages for output in stage.updates):
            for source in sources_of(output.step):
                steps.setdefault(source, []).append(output.step)
        return steps


# --- reasons ---------------------------------------------------------------------------------------------------------


ASKED_ONCE = "its tuples are read more than once, and a query function of the user's may answer differently each time"


def _why_in_driver(node: Node) -> str | None:
    """Return why the tuples that this node emits are in the driver, not in files; None if they are in files."""
    match node:
        case Emitted(source=updated) | StateQuery(updated=updated):
            by_executors = writers_of(updated.state) == "executors"
        case PersistentAggregate() | CommittedQuery() | LateTuples() | LettersOf() | TableChanges():
            by_executors = False
        case _:
            by_executors = not isinstance(node, StateWriter) or writers_of(node.state) == "executors"
    return None if by_executors else f"its tuples come from {node.step}, which sends them to the driver"


def _why_not_shared(step: HeldState) -> str | None:
    """Return why processes other than the driver cannot open a state. None if they can, or if writers="driver"."""
    factory = step.state.factory
    if writers_of(step.state) == "driver":
        return None
    if isinstance(factory, Sharing) and not factory.sendable:
        return (
            f"{factory!r} stays in the driver: Spark's workers get neither a password in an address (give it as "
            f"env:NAME or file:path) nor an object of the user's"
        )
    given = isinstance(step, StaticState) and step.writer is None
    if factory.kind is StateKind.NON_TRANSACTIONAL and not given:
        # A repeated put would count twice, and the values as of the batch before cannot be read.
        return "a nonTransactional state keeps no txid, so a put that is repeated would count twice"
    return None


def _why_whole(step: StateUpdate) -> str | None:
    """Return why "auto" does not divide a divisible update; None if it does."""
    if not same_in_parts(step):
        return (
            f"the driver computes its values ({step.step}): their result may depend on how its tuples are divided; "
            f"writers='executors' divides them all the same"
        )
    why = _why_unsendable(step)
    return None if why is None else f"the driver computes its values: {why}"


def _why_unsendable(step: StateUpdate | StateQuery) -> str | None:
    """Return why the user's code of a step cannot be sent to Spark's workers; None if it can be sent."""
    try:
        check_sendable(step)
    except UserCodeError as error:
        return str(error)
    return None


def check_sendable(step: StateUpdate | StateQuery) -> None:
    """Raise UserCodeError if the user's code of an update by key, or of a query, cannot be sent to Spark's workers."""
    if isinstance(step, StateQuery):
        check_pickles(Where(step.step, step.query.site, step.inputs), Question.of(step).detached())
    else:
        check_pickles(Where(step.step, function_of(step)), KeyedUpdate.of(step))
