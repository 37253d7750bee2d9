"""A topology cut into what runs: batch groups, and in each the stages between state steps.

Stage 1 reads the spouts and no state. A stage ends where state steps begin: its outputs are the tables that enter
them, and these are what is frozen. Stage k+1 starts from what the state steps of stage k give.
"""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from trident.compiler.outline import Outline, outline_of
from trident.plan.nodes import (
    Debug,
    LateTuples,
    Node,
    RequestSource,
    Sink,
    SpoutSource,
    StateQuery,
    StateStep,
    StateUpdate,
    StateWriter,
    StaticState,
    walk,
)
from trident_state.state_shape import StateShape


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """A table that a stage makes: what enters one state step. `name` is unique in its group and stable over restarts
    (a state's name; "<state>?<n>" for a query).

    For a PersistentAggregate: the group fields, then one value column, each key once (ungrouped: exactly one row).
    For a StateQuery: the tuples that enter it.
    For a StateUpdate (made by the driver): the key fields, then the new value, each key once; a null is a removal.
    For an Emitted: what the updater emitted, or a window's results. For a LateTuples: these.
    For a LettersOf: the dead letters that its step made in this stage.
    For a Sink: the tuples that enter it; what already is a table there is handed on by the driver.
    For any other node: its own tuples, carried over because a later stage reads them beside a state's new values
    (``join(stream, counts.newValuesStream())``), or because a state update does; the table enters that stage as it is.
    Where updates alone read it, only the fields that these need are carried.
    """

    name: str
    step: Node
    schema: pa.Schema

    @property
    def carried(self) -> bool:
        """Whether these tuples enter no state step, but only a later stage."""
        return not isinstance(self.step, StateStep | Sink)


@dataclass(frozen=True, eq=False)
class Stage:
    """A stretch of the plan that runs as one piece.

    `inputs`: SpoutSources in stage 1; later the steps of outputs of any earlier stage, with what the runtime made of
    each (a PersistentAggregate: its new values; a StateQuery: the answered tuples; a carried node: its own table).
    `outputs` are what the engine makes. `effects` are leaves without a state that run for what their functions do.
    `updates` are what the driver makes, from the tuples that enter StateUpdates and the states themselves, or of
    tables that enter Sinks: no engine runs for them, and they are frozen with the outputs. A stage may have only one of
    all these.
    """

    number: int
    inputs: tuple[Node, ...]
    outputs: tuple[Output, ...]
    debugs: tuple[Debug, ...] = ()
    effects: tuple[Node, ...] = ()
    updates: tuple[Output, ...] = ()

    @cached_property
    def frozen(self) -> tuple[Output, ...]:
        """Everything that is frozen of this stage."""
        return (*self.outputs, *self.updates)

    @property
    def states(self) -> tuple[StateWriter, ...]:
        """The steps that write."""
        return tuple(o.step for o in self.frozen if isinstance(o.step, StateWriter))

    @property
    def runs(self) -> bool:
        """Whether there is anything for an engine to do."""
        return bool(self.outputs or self.debugs or self.effects)

    @cached_property
    def reads(self) -> tuple[Node, ...]:
        """What it needs of earlier stages, and the spouts in stage 1."""
        drivers = StateUpdate | LateTuples | Sink
        entering = [o.step.source for o in self.updates if isinstance(o.step, drivers)]
        return tuple(dict.fromkeys([*self.inputs, *entering]))


@dataclass(frozen=True, eq=False)
class Group:
    """Spouts that share txids, because merge, join or a common state connects them. `name`: the first spout's stream
    name in alphabetical order; in a run, the name under which the log knows the group, which stays."""

    name: str
    spouts: tuple[SpoutSource, ...]
    stages: tuple[Stage, ...]

    @cached_property
    def states(self) -> tuple[StateWriter, ...]:
        """The steps that write, in stage order."""
        return tuple(step for stage in self.stages for step in stage.states)

    @cached_property
    def sinks(self) -> tuple[Output, ...]:
        """What leaves the topology, in stage order."""
        return tuple(o for s in self.stages for o in s.frozen if isinstance(o.step, Sink))

    @cached_property
    def outline(self) -> Outline:
        """What each of its frozen outputs is: a batch is frozen with it."""
        frozen = [(stage.number, o.name, o.schema, o.step) for stage in self.stages for o in stage.frozen]
        return outline_of(frozen, lambda node: self._stage_numbers[id(node)])

    @cached_property
    def _stage_numbers(self) -> dict[int, int]:
        """In which stage each step is run, by the id of the step."""
        found: dict[int, int] = {}
        for stage in self.stages:
            ends = [output.step for output in stage.frozen] + [*stage.debugs, *stage.effects]
            for node in walk(*ends, starts={id(node) for node in stage.reads}):
                found.setdefault(id(node), stage.number)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class RequestPlan:
    """A DRPC function: from the request's arguments to the leaf, and the states it reads on the way."""

    function: str
    source: RequestSource
    leaf: Node
    queries: tuple[StateQuery, ...]
    python: bool
    """Whether every operation has a Python form, so that no Spark job is needed."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A whole topology, cut."""

    groups: tuple[Group, ...]
    requests: tuple[RequestPlan, ...]
    shapes: dict[str, StateShape]
    """The shape of each state, by its name."""
    statics: tuple[StaticState, ...] = ()
    """The states that are only read."""
