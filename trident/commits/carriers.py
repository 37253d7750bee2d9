"""The carriers of one group in a run: the driver, and Spark's executors if the engine has some.

The plan says for each piece of work whether executors may do it. They do it if they have the tuples, in files or in
shares of an emission, and reach the state. Only this module chooses. It also gives the work to the driver if the
executors find during the work that they cannot do it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from trident.commits.carrier import Carrier, LeftToDriver, Tuples, UpdateResults, UpdateWork
from trident.commits.driver_carrier import DriverCarrier
from trident.commits.executor_carrier import ExecutorCarrier
from trident.compiler.carrier_choice import CarrierPlan, Verb
from trident.compiler.program import Output
from trident.frozen.results import FrozenFiles, Result
from trident.plan.nodes import Node, StateReader, StateWriter, sources_of
from trident_spouts.shared_reading import SharesEmission
from trident_state.store_messages import Applied

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Carriers:
    """The choice of the carrier for each piece of work. `executors`: None if the engine has no workers."""

    plan: CarrierPlan
    driver: DriverCarrier
    executors: ExecutorCarrier | None

    def of(self, verb: Verb, step: Node, given: Result | Tuples) -> Carrier:
        """Return the carrier that does a piece of work with the given tuples, as far as is known now."""
        executors = self.executors
        if executors is None or not isinstance(given, FrozenFiles | SharesEmission):
            return self.driver
        return executors if executors.reach.allows(self.plan.choice(verb, step)) else self.driver

    def write(self, step: StateWriter, txid: int, result: Result, values: bool) -> Applied:
        """Write a batch's result into the state of a step; see `Carrier.write`."""
        return self._done(self.of("write", step, result), lambda carrier: carrier.write(step, txid, result, values))

    def update(self, work: UpdateWork) -> UpdateResults:
        """Compute an update of a state; see `Carrier.update`."""
        tuples = work.entering.of(sources_of(work.step)[0])  # the driver updates a step with several sources
        return self._done(self.of("update", work.step, tuples), lambda carrier: carrier.update(work))

    def ask(self, step: StateReader, asking: Result, as_of: int) -> Tuples:
        """Return tuples with the answers of a state; see `Carrier.ask`."""
        return self._done(self.of("ask", step, asking), lambda carrier: carrier.ask(step, asking, as_of))

    def carry(self, output: Output, result: Result) -> Tuples:
        """Return a result as the tuples from which later stages start; see `Carrier.carry`."""
        return self._done(self.of("carry", output.step, result), lambda carrier: carrier.carry(output, result))

    def _done(self, carrier: Carrier, work: Callable[[Carrier], T]) -> T:
        try:
            return work(carrier)
        except LeftToDriver:
            return work(self.driver)
