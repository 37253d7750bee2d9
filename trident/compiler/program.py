"""A topology cut into what runs: batch groups, and in each the stages between state steps.

Stage 1 reads the spouts and no state. A stage ends where state steps begin: its outputs are the tables that enter
them, and these are what is frozen. Stage k+1 starts from what the state steps of stage k give.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from trident.plan.nodes import (
    Debug,
    Emitted,
    LateTuples,
    LettersOf,
    Node,
    RequestSource,
    Sink,
    SpoutSource,
    StateQuery,
    StateStep,
    StateUpdate,
    StateWriter,
    StaticState,
)
from trident_state.store import StateShape


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
    `updates` are then the states of the updates that alone read it; of their fields, only what these need is carried.
    """

    name: str
    step: Node
    schema: pa.Schema
    updates: tuple[str, ...] = ()

    @property
    def carried(self) -> bool:
        """Whether these tuples enter no state step, but only a later stage."""
        return not isinstance(self.step, StateStep | Sink)

    @property
    def optional(self) -> bool:
        """Whether nothing of it means that it is empty."""
        return isinstance(self.step, LettersOf)

    @property
    def states(self) -> tuple[str, ...]:
        """The states without which nobody would make this output; () for one that is made in any case."""
        if isinstance(self.step, StateWriter):
            return (self.step.state.name,)
        if isinstance(self.step, LateTuples):
            return (self.step.window.state.name,)
        return (self.step.source.state.name,) if isinstance(self.step, Emitted) else self.updates

    def missed(self, there: Callable[[str], bool]) -> bool:
        """Whether a batch passes it by, because none of its states was `there` before the batch."""
        return bool(self.states) and not any(map(there, self.states))


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

    def leaves(self, there: Callable[[str], bool]) -> bool:
        """Whether anything of a batch stays or goes out here, in a state that was `there` before it or elsewhere."""
        out = self.debugs or self.effects or any(isinstance(o.step, Sink) for o in self.frozen)
        return bool(out) or any(there(step.state.name) for step in self.states)

    @cached_property
    def reads(self) -> tuple[Node, ...]:
        """What it needs of earlier stages, and the spouts in stage 1."""
        drivers = StateUpdate | LateTuples | Sink
        entering = [o.step.source for o in self.updates if isinstance(o.step, drivers)]
        return tuple(dict.fromkeys([*self.inputs, *entering]))


@dataclass(frozen=True, eq=False)
class Group:
    """Spouts that share txids, because merge, join or a common state connects them. `name` is stable over restarts:
    the first spout's stream name in alphabetical order."""

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

    def passed(self, there: Callable[[str], bool]) -> tuple[Stage, ...]:
        """The stages that a batch goes through: without the last ones, where they are new, and all their states younger
        than the batch. `there`: whether a state was there before it."""
        return self.stages[: max((s.number for s in self.stages if s.leaves(there)), default=1)]


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
