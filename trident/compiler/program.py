"""The program: a topology cut into batch groups, and each group into stages between its state steps.

Stage 1 reads the spouts and no state. A stage ends where state steps begin: its outputs are the tables that enter
these steps, and the log freezes them. Stage k+1 reads what the state steps of stage k give.
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
    """A table that a stage makes and the log freezes. What it holds depends on the class of `step`.

    - PersistentAggregate: the group fields, then one value column, each key once (ungrouped: exactly one row).
    - StateQuery: the tuples that enter the query.
    - StateUpdate (the driver makes it): the key fields, then the new value, each key once; a null removes the key.
    - Emitted: the tuples that the updater emitted, or a window's results. LateTuples: the late tuples.
    - LettersOf: the dead letters that its step made in this stage.
    - Sink: the tuples that enter it. The driver hands them on where they are a table already.
    - Any other node: its own tuples, carried to a later stage that reads them beside a state's new values
      (``join(stream, counts.newValuesStream())``), or to a state update. The table enters that stage as it is.
      Where only updates read it, it holds only the fields that they need.

    `name` is unique in its group and stable over restarts; `_output_names` in `stages.py` lists the forms.
    """

    name: str
    step: Node
    schema: pa.Schema

    @property
    def carried(self) -> bool:
        """Return whether these tuples enter no state step and no sink, only a later stage."""
        return not isinstance(self.step, StateStep | Sink)


@dataclass(frozen=True, eq=False)
class Stage:
    """A part of the plan that runs as one piece. It has at least one output, Debug step, effect or update."""

    number: int
    inputs: tuple[Node, ...]
    """The nodes whose tuples the engine starts from: the spouts in stage 1, later the steps of earlier outputs.

    Such a step stands for the tuples behind it: for a PersistentAggregate its new values, for a StateQuery the answered
    tuples, for a carried node its own table.
    """
    outputs: tuple[Output, ...]
    """The tables that the engine makes."""
    debugs: tuple[Debug, ...] = ()
    effects: tuple[Node, ...] = ()
    """Leaves without a state, which run for what their functions do."""
    updates: tuple[Output, ...] = ()
    """The tables that the driver makes without an engine: from states and the tuples that enter StateUpdates, or of
    tables that enter Sinks. They are frozen with the outputs."""

    @cached_property
    def frozen(self) -> tuple[Output, ...]:
        """All outputs of this stage that the log freezes."""
        return (*self.outputs, *self.updates)

    @property
    def states(self) -> tuple[StateWriter, ...]:
        """The steps that write states."""
        return tuple(o.step for o in self.frozen if isinstance(o.step, StateWriter))

    @property
    def runs(self) -> bool:
        """Return whether an engine has anything to do for this stage."""
        return bool(self.outputs or self.debugs or self.effects)

    @cached_property
    def reads(self) -> tuple[Node, ...]:
        """The nodes whose tuples engine or driver read: outputs of earlier stages, and the spouts in stage 1."""
        drivers = StateUpdate | LateTuples | Sink
        entering = [o.step.source for o in self.updates if isinstance(o.step, drivers)]
        return tuple(dict.fromkeys([*self.inputs, *entering]))

    @property
    def nodes(self) -> list[Node]:
        """The nodes of this stage in walk order, those that it reads among them."""
        ends = [output.step for output in self.frozen]
        return walk(*ends, *self.debugs, *self.effects, starts={id(node) for node in self.reads})


@dataclass(frozen=True, eq=False)
class Group:
    """Spouts that share txids, because a merge, a join, a query or a common state connects them."""

    name: str
    """The first stream name in alphabetical order. In a run: the group's name in the log, which never changes."""
    spouts: tuple[SpoutSource, ...]
    stages: tuple[Stage, ...]

    @cached_property
    def states(self) -> tuple[StateWriter, ...]:
        """The steps that write states, in stage order."""
        return tuple(step for stage in self.stages for step in stage.states)

    @cached_property
    def sinks(self) -> tuple[Output, ...]:
        """The outputs that leave the topology, in stage order."""
        return tuple(o for s in self.stages for o in s.frozen if isinstance(o.step, Sink))

    @cached_property
    def outline(self) -> Outline:
        """The outline of the frozen outputs, which the log keeps with each batch."""
        frozen = [(stage.number, o.name, o.schema, o.step) for stage in self.stages for o in stage.frozen]
        return outline_of(frozen, lambda node: self._stage_numbers[id(node)])

    @cached_property
    def _stage_numbers(self) -> dict[int, int]:
        """The number of the first stage that each node is in, by the node's id."""
        numbers: dict[int, int] = {}
        for stage in self.stages:
            for node in stage.nodes:
                numbers.setdefault(id(node), stage.number)
        return numbers


@dataclass(frozen=True, slots=True, eq=False)
class RequestPlan:
    """A DRPC function: the plan from the request's arguments to the leaf, and the states that it reads."""

    function: str
    source: RequestSource
    leaf: Node
    queries: tuple[StateQuery, ...]
    python: bool
    """True where every operation has a Python form, so that no Spark job is needed."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A whole topology, cut into batch groups and DRPC functions."""

    groups: tuple[Group, ...]
    requests: tuple[RequestPlan, ...]
    shapes: dict[str, StateShape]
    """The shape of each state, by its name."""
    statics: tuple[StaticState, ...] = ()
    """The states that are only read."""
