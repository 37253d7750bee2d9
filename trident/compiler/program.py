"""A topology cut into what runs: batch groups, and in each the stages between state steps.

Stage 1 reads the spouts and no state. A stage ends where state steps begin: its outputs are the tables that enter
them, and these are what is frozen. Stage k+1 starts from what the state steps of stage k give.
"""

from dataclasses import dataclass

import pyarrow as pa

from trident.plan.nodes import Debug, Node, PersistentAggregate, RequestSource, SpoutSource, StateQuery, StateStep
from trident_state.store import StateShape


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """A table that a stage makes: what enters one state step. `name` is unique in its group and stable over restarts
    (a state's name; "<state>?<n>" for a query).

    For a PersistentAggregate: the group fields, then one value column, each key once (ungrouped: exactly one row).
    For a StateQuery: the tuples that enter it.
    """

    name: str
    step: StateStep
    schema: pa.Schema


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A stretch of the plan that runs as one piece. `inputs`: SpoutSources in stage 1, state steps later."""

    number: int
    inputs: tuple[Node, ...]
    outputs: tuple[Output, ...]
    debugs: tuple[Debug, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Spouts that share txids, because merge, join or a common state connects them. `name` is stable over restarts:
    the first spout's stream name in alphabetical order."""

    name: str
    spouts: tuple[SpoutSource, ...]
    stages: tuple[Stage, ...]

    @property
    def states(self) -> tuple[PersistentAggregate, ...]:
        """The steps that write, in stage order."""
        return tuple(o.step for s in self.stages for o in s.outputs if isinstance(o.step, PersistentAggregate))


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
