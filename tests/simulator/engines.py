"""Engines that change: in some schedules each stage of each attempt runs on one of two, as ``engine="auto"`` chooses.

The slot and the choice are the library's own. What they see of the world is drawn: when Spark is up, what a stage took,
and which engine fails.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from trident.base.attempt import TransactionAttempt
from trident.base.errors import AttemptCancelledError, SparkFailedError, SparkSetupError, UserFunctionError
from trident.compiler.auto.choice import EngineChoice, Side, Size
from trident.compiler.auto.deferred_spark import DeferredSpark
from trident.compiler.auto.engine import AutoSlot
from trident.compiler.engine import Slot
from trident.compiler.program import Group, Stage
from trident.frozen.results import StageResult
from trident.plan.nodes import Node

if TYPE_CHECKING:
    from tests.simulator.world import World

SCHEDULES = 0.4
"""In how many of the schedules engines change."""
_TROUBLES = ("spark fails", "spark fails", "no memory", "no memory", "spark cannot")
_TOOK = (0.001, 0.01, 0.03, 0.1, 2.0)


class Engines:
    """The engines of a schedule, by draws of its own: a schedule with one engine is drawn as if there were no other."""

    def __init__(self, world: "World", seed: int) -> None:
        self.world, self.dice = world, Random(f"engines {seed}")
        self._used = self.dice.random() < SCHEDULES
        self._left = self.dice.choice((0, 1, 2, 4))

    def slot_of(self, group: Group, one: Callable[[Group], Slot]) -> Slot:
        """Return the slot for a group of a driver. `one` returns the slot of the driver's own engine."""
        if not self._used:
            return one(group)
        here: Any = _Side(self, "embedded", one)
        later = _Later(self, _Side(self, "spark", one))
        most = self.dice.choice((2, 5, 10**6, 10**6))
        return AutoSlot(group, here, later, _DrawnTimes(self.dice, most))

    def trouble(self, side: Side) -> str | None:
        """Return what goes wrong on this engine now."""
        if self.world.ending or not self._left or self.dice.random() > 0.15:
            return None
        kind = self.dice.choice(_TROUBLES)
        if (side == "embedded") != (kind == "no memory"):
            return None
        self._left -= 1
        self.world.say("engine: %s", kind)
        self.world.result.faults[f"engine: {kind}"] += 1
        return kind

    def stopped(self, error: BaseException | None) -> bool:
        """Return whether a driver stopped because Spark is not set up, and only Spark can run one of its stages."""
        return error is not None and (isinstance(error, SparkSetupError) or self.stopped(error.__cause__))


class _DrawnTimes(EngineChoice):
    """The library's choice, over times that are drawn: a schedule is told by its seed alone."""

    def __init__(self, dice: Random, most: int) -> None:
        super().__init__(most, 1 << 40)
        self._dice = dice

    def ran(self, group: str, stage: int, side: Side, size: Size, seconds: float) -> None:
        super().ran(group, stage, side, size, self._dice.choice(_TOOK))

    def is_longer(self, group: str, stage: int, side: Side, size: Size, seconds: float) -> bool:
        return super().is_longer(group, stage, side, size, self._dice.choice(_TOOK))


class _Later(DeferredSpark):
    """Spark, which comes up in the world's time."""

    def __init__(self, engines: Engines, spark: "_Side") -> None:
        super().__init__(lambda: spark, session=engines.dice.random() < 0.5)  # type: ignore[arg-type, return-value]
        self._scheduler, self._spark = engines.world.scheduler, spark
        self._takes = engines.dice.choice((0.0, 0.05, 2.0))
        self._up_at = 0.0 if engines.dice.random() < 0.4 else float("inf")

    @property
    def engine(self) -> Any:
        return self._spark if self._scheduler.now >= self._up_at else None

    def begin(self, why: str) -> None:
        self._up_at = min(self._up_at, self._scheduler.now + self._takes)

    def get(self, check: Callable[[], None] = lambda: None) -> Any:
        self.begin("it is needed")
        cancelled: list[AttemptCancelledError] = []

        def is_over() -> bool:
            try:
                check()
            except AttemptCancelledError as error:
                cancelled.append(error)
            return bool(cancelled) or self.engine is not None

        self._scheduler.wait(is_over)
        if cancelled:
            raise cancelled[0]
        return self._spark


class _Side:
    """One of the two engines."""

    def __init__(self, engines: Engines, side: Side, one: Callable[[Group], Slot]) -> None:
        self.engines, self.side, self._one = engines, side, one

    def slot(self, group: Group) -> "_SideSlot":
        return _SideSlot(self, self._one(group))


class _SideSlot:
    """A slot of one of the two engines: fails, or computes."""

    def __init__(self, at: _Side, slot: Slot) -> None:
        self._at, self._slot = at, slot
        self._cancelled = False

    def run(self, stage: Stage, inputs: Mapping[Node, Any], attempt: TransactionAttempt, scratch: Path) -> StageResult:
        at, self._cancelled = self._at, False
        engines, side = at.engines, at.side
        scheduler = engines.world.scheduler
        scheduler.point("engine", side, attempt, "stage", stage.number)
        match engines.trouble(side):
            case "spark fails":
                raise SparkFailedError(f"attempt {attempt}: Spark lost its workers")
            case "spark cannot":
                raise SparkSetupError(f"attempt {attempt}: Spark's workers lack a module")
            case "no memory":
                raise UserFunctionError(f"attempt {attempt}: a function lacked memory") from MemoryError()
        if side == "spark":
            scheduler.wait(lambda: self._cancelled, engines.dice.choice((0.0, 0.03, 0.2)))
            if self._cancelled:
                raise AttemptCancelledError(f"attempt {attempt} was cancelled")
        return self._slot.run(stage, inputs, attempt, scratch)

    def cancel(self) -> None:
        self._cancelled = True

    def close(self) -> None: ...
