"""The program: a topology cut into batch groups, and each group into stages between its state steps.

Stage 1 reads the spouts and no state. A stage ends where state steps begin: its outputs are the input tables of the
state steps, and the log freezes these tables. The next stage reads the results of the state steps.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from trident.base.cached_property import cached_property
from trident.base.run_facts import NO_FACTS, RunFacts
from trident.compiler.outline import Outline, outline_of
from trident.plan.nodes import (
    Debug,
    Derived,
    Node,
    RequestSource,
    Sink,
    SpoutSource,
    StateQuery,
    StateStep,
    StateWriter,
    StaticState,
    sources_of,
    walk,
)
from trident.plan.parallelism_hints import Hints, hints_in
from trident_state.state_shape import StateShape


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """A table that a stage computes and the log freezes. Its content depends on the class of `step`.

    - PersistentAggregate: the group fields, then one value column, each key once (ungrouped: exactly one row).
    - StateQuery: the input tuples of the query.
    - CommittedQuery: the tuples with the answers, which the driver found.
    - StateUpdate (made by the driver): the key fields, then the new value, each key once; a null removes the key.
    - Emitted: the tuples that the updater emitted, or a window's results.
    - LateTuples: the late tuples.
    - TableChanges: the changes of a table, or of a join of two.
    - LettersOf: the dead letters of the step before it, as that step made them in this stage.
    - Sink: the input tuples of the sink. The driver makes this output if a state step gave the tuples.
    - Any other node: the node's output, carried to a later stage: to be joined with a state's new values
      (``join(stream, counts.newValuesStream())``), or to a state update. The later stage gets the table unchanged.
      If only state updates read the table, it has only the fields that they need.

    `name` is unique in its group and stable over restarts; `_output_names` in `stages.py` lists the forms.
    """

    name: str
    step: Node
    schema: pa.Schema

    @property
    def carried(self) -> bool:
        """Return whether the log only carries this output to a later stage: no state step or sink reads it."""
        return not isinstance(self.step, StateStep | Sink)


@dataclass(frozen=True, eq=False)
class Stage:
    """A part of the plan that runs as one piece. It has at least one output, Debug step, effect or update."""

    number: int
    inputs: tuple[Node, ...]
    """The nodes from whose tuples the engine starts: in stage 1 the spouts, in later stages steps of earlier outputs.
    The tuples of such a step are those of its output: the new values of a PersistentAggregate, the answered tuples of a
    StateQuery, the table of a carried node."""
    outputs: tuple[Output, ...]
    """The tables that the engine computes."""
    debugs: tuple[Debug, ...] = ()
    effects: tuple[Node, ...] = ()
    """The leaves of the plan that are neither a state nor a sink. They run for the side effects of user functions."""
    updates: tuple[Output, ...] = ()
    """The tables that are computed in the commit turn without an engine, and frozen with `outputs`: results of
    StateUpdates, late tuples, dead letters, and tables that a state step hands to a sink."""

    @cached_property
    def frozen(self) -> tuple[Output, ...]:
        """All outputs of this stage that the log freezes."""
        return (*self.outputs, *self.updates)

    @property
    def states(self) -> tuple[StateWriter, ...]:
        """The steps of this stage that write states."""
        return tuple(o.step for o in self.frozen if isinstance(o.step, StateWriter))

    @property
    def runs(self) -> bool:
        """Return whether an engine has anything to run for this stage."""
        return bool(self.outputs or self.debugs or self.effects)

    @cached_property
    def reads(self) -> tuple[Node, ...]:
        """The nodes that the engine or the driver reads: in stage 1 spouts, later steps of earlier outputs."""
        return tuple(dict.fromkeys([*self.inputs, *self.read_by_driver]))

    @cached_property
    def read_by_driver(self) -> tuple[Node, ...]:
        """The nodes that the driver reads: inputs of this stage's state updates, sinks and queries."""
        read = [o.step for o in self.updates if not isinstance(o.step, Derived) or o.step.after_source]
        return tuple(source for step in read for source in sources_of(step))

    @property
    def nodes(self) -> list[Node]:
        """The nodes of this stage and those that it reads (`reads`), in walk order: each after its sources."""
        ends = [output.step for output in self.frozen]
        return walk(*ends, *self.debugs, *self.effects, starts={id(node) for node in self.reads})


@dataclass(frozen=True, eq=False)
class Group:
    """A batch group: spouts that share txids, because a merge, a join, a query or a common state connects them."""

    name: str
    """The group's name. After compilation: the alphabetically first stream of the group. In a run: the lasting name in
    the log."""
    spouts: tuple[SpoutSource, ...]
    stages: tuple[Stage, ...]
    links: tuple[Node, ...] = ()
    """The steps that connect the streams. Without these steps, each stream would be a separate group."""
    hints: Hints = field(default_factory=dict)
    """The numbers of partitions that replace those of the program, by step."""
    skips: bool = False
    """True if steps without an error policy skip the tuples on which they fail, as in a best-effort branch."""
    facts: RunFacts = NO_FACTS
    """The facts of the run that user code may read."""

    @cached_property
    def states(self) -> tuple[StateWriter, ...]:
        """The steps that write states, in stage order."""
        return tuple(step for stage in self.stages for step in stage.states)

    @cached_property
    def sinks(self) -> tuple[Output, ...]:
        """The outputs to sinks, in stage order."""
        return tuple(o for s in self.stages for o in s.frozen if isinstance(o.step, Sink))

    @cached_property
    def outline(self) -> Outline:
        """The outline of the frozen outputs, which the log keeps with each batch."""
        frozen = [(stage.number, o.name, o.schema, o.step) for stage in self.stages for o in stage.frozen]
        return outline_of(frozen, lambda node: self._stage_numbers[id(node)])

    @cached_property
    def _stage_numbers(self) -> dict[int, int]:
        """For each node (by id) the number of the first stage that contains it."""
        numbers: dict[int, int] = {}
        for stage in self.stages:
            for node in stage.nodes:
                numbers.setdefault(id(node), stage.number)
        return numbers


@dataclass(frozen=True, slots=True, eq=False)
class RequestPlan:
    """A DRPC function: the plan from a request's arguments (`source`) to its answers (`leaf`), and its queries."""

    function: str
    source: RequestSource
    leaf: Node
    queries: tuple[StateQuery, ...]
    python: bool
    """True if every operation has a Python form, so that no Spark job is needed."""
    facts: RunFacts = NO_FACTS
    """The facts of the run that user code may read."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A whole topology, cut into batch groups and DRPC functions."""

    groups: tuple[Group, ...]
    requests: tuple[RequestPlan, ...]
    shapes: dict[str, StateShape]
    """The shape of each state, by its name."""
    statics: tuple[StaticState, ...] = ()
    """The states that the topology reads but never writes."""

    def in_run(self, facts: RunFacts) -> "Program":
        """Return this program for a run with these facts."""
        groups = tuple(replace(group, facts=facts) for group in self.groups)
        requests = tuple(replace(request, facts=facts) for request in self.requests)
        return replace(self, groups=groups, requests=requests)


def hints_in_groups(groups: Iterable[Group]) -> dict[str, int]:
    """Return the numbers of partitions that the program sets for the steps of these groups, by step."""
    return hints_in(node for group in groups for stage in group.stages for node in stage.nodes)
