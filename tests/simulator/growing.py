"""A program that gets more states in the middle of its stream, which begin with the tuples before (``backfill=True``).

The new program is started after the former one has ended, or beside it; its start dies, the former program goes on in
between, and at last the new one has its states.
"""

from random import Random
from typing import TYPE_CHECKING

from tests.simulator.driver import Driver
from tests.simulator.flows import Flow
from tests.simulator.verdict import Verdict
from trident.base import errors

if TYPE_CHECKING:
    from tests.simulator.staying import Staying

_OF_SIDES = (errors.BatchFailedError, errors.BatchTimeoutError, errors.SpoutError, errors.UserFunctionError)


class Growth:
    """The growth of a schedule's program by new states. Its own random numbers decide when."""

    def __init__(self, world: "Staying", flow: Flow, seed: int) -> None:
        assert flow.former is not None
        self._world, self._dice = world, Random(f"growth {seed}")
        self._flow, self._former = flow, flow.former
        self._new = {*flow.states} - {*self._former.states}
        self._wanted = False
        self._returns = self._dice.choice((0, 1, 2))
        """The number of times that the user goes back to the former program."""
        self.founded = False
        """True once the new states were created. From then on only the new program is started."""
        self.skipped = False
        """True if a former program froze a batch after that, which the new states lack."""
        world.scheduler.after(self._dice.choice((0.01, 0.03, 0.05, 0.1, 0.3, 1.0)), self._due)

    @property
    def over(self) -> bool:
        """Return whether a driver with the new states works, or the next one has them.

        The driver that created them may have slept while a former program was started beside it.
        """
        world = self._world
        return self.founded and any(shape == self._flow for shape in (world.shape, *(d.shape for d in world._at_work)))

    def stop_former(self) -> bool:
        """Stop drivers of the former program, so that the next one has the new states; whether there are any.

        One that slept before it took the log may be the last at work.
        """
        former = [driver for driver in self._world._at_work if driver.shape == self._former]
        for driver in former:
            driver.stop()
        return bool(former)

    def next_shape(self) -> Flow:
        """The program of the next start."""
        if self.founded or (self._wanted and not (self._returns and self._dice.random() < 0.4)):
            return self._flow
        self._returns -= self._wanted
        return self._former

    def _due(self) -> None:
        """The new program is wanted: it is started beside the former one, or that one is to stop first."""
        world = self._world
        if self.founded or world.over:
            return
        self._wanted = True
        world.scheduler.after(self._dice.choice((1.0, 5.0)), self._due)
        former = [driver for driver in world._at_work if driver.shape == self._former]
        if self._dice.random() < 0.6 and former:
            world.shape = self._flow
            world._start_driver()
        else:
            for driver in former:
                driver.stop()

    def created(self, states: set[str]) -> None:
        """A start created states."""
        self.founded = self.founded or bool(self._new & states)

    def froze(self, driver: Driver) -> None:
        """A driver froze a batch."""
        self.skipped = self.skipped or (self.founded and driver.shape == self._former)

    def why_right(self, driver: Driver, error: BaseException) -> Verdict:
        """Why a driver was right to stop with this error, if it has to do with the change of the program."""
        if driver.side_failures and driver.run is None and isinstance(error, _OF_SIDES):
            return "again"
        if isinstance(error, errors.LogError) and "removed or replaced" in str(error):
            return "again" if len(self._world.drivers) > 1 else None  # a later start has filled the states meanwhile
        if isinstance(error, errors.CodeChangedError) and driver.shape == self._former:
            return "again" if self.founded else None
        if isinstance(error, errors.CodeChangedError) and not driver.frozen_before and driver.run is None:
            return "again"  # there was nothing to fill when it looked, and then the former driver froze its first batch
        if isinstance(error, errors.CodeChangedError):
            return "final" if self.skipped and "would lack the tuples read meanwhile" in str(error) else None
        return None
