"""The carriers of work in a commit turn: the driver or Spark's executors. Both have the same methods.

Both send the same scripts and reads to a state, so that after a failure either can repeat work that the other began.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import pyarrow as pa

from trident.base.cached_property import cached_property
from trident.compiler.program import Output
from trident.compiler.states.updates import NextDue
from trident.frozen.results import Result
from trident.plan.nodes import Node, StateReader, StateUpdate, StateWriter
from trident_spouts.executor import Emission
from trident_state.store_messages import Applied

Tuples: TypeAlias = pa.Table | Emission
"""The tuples from which a later stage starts: in the driver, or for workers to read."""

StageTables = dict[Node, Tuples]
"""The tuples from which later stages start, by the step that emits them."""


class LeftToDriver(Exception):
    """Raised by the executors if the driver must do a piece of work. Only `Carriers` catches it."""


class Entering:
    """The tuples that enter the work of a stage, by the step that emits them. The driver reads each at most once."""

    def __init__(self, given: Mapping[Node, Tuples]) -> None:
        self._given = given
        self._tables: dict[Node, pa.Table] = {}

    def of(self, source: Node) -> Tuples:
        """Return the tuples in the form in which they are: a table, or a reference to files."""
        return self._given[source]

    def table(self, source: Node) -> pa.Table:
        """Return the tuples as a table in the driver's memory."""
        if source not in self._tables:
            tuples = self._given[source]
            self._tables[source] = tuples if isinstance(tuples, pa.Table) else tuples.arrow()
        return self._tables[source]


@dataclass(frozen=True)
class UpdateWork:
    """The update of a state in a batch: its output, the output for its emitted tuples if any, and its input."""

    txid: int
    stage: int
    output: Output
    emitted: Output | None
    entering: Entering

    @cached_property
    def step(self) -> StateUpdate:
        """The step that updates the state."""
        assert isinstance(self.output.step, StateUpdate)
        return self.output.step


@dataclass(frozen=True, slots=True)
class UpdateResults:
    """The results of an update: the changes of its state, and the emitted tuples if a step reads them.

    `due` has the meaning of `Updated.due`.
    """

    puts: Result
    emitted: Result | None
    due: NextDue = None


class Carrier(Protocol):
    """A component that does pieces of work for one group: the driver, or the executors of a run."""

    @property
    def name(self) -> Literal["driver", "executors"]:
        """The name of the carrier in progress events."""
        ...

    def write(self, step: StateWriter, txid: int, result: Result, values: bool) -> Applied:
        """Write a batch's result into the state of a step. `values`: return the new values, for later stages.

        Threads of different states may call at once. Raises the errors of `Store.apply`.
        """
        ...

    def update(self, work: UpdateWork) -> UpdateResults:
        """Compute an update of a state from the state as of the previous batch.

        Raises StateRecoveringError if the state lacks that batch, and the errors of the user's code.
        """
        ...

    def ask(self, step: StateReader, asking: Result, as_of: int) -> Tuples:
        """Return tuples with the answers of a state as of a txid.

        Raises StateRecoveringError if the state has not reached the txid.
        """
        ...

    def carry(self, output: Output, result: Result) -> Tuples:
        """Return a result, unchanged, as the tuples from which later stages start."""
        ...
