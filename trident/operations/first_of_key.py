"""The update of `dropDuplicates`, as plain data."""

from dataclasses import dataclass
from typing import ClassVar

from trident.operations.column_updaters import ColumnUpdater
from trident.operations.windows import EventTime


@dataclass(frozen=True, slots=True, eq=False)
class FirstOfKey(ColumnUpdater):
    """An update that emits the first tuple of each key and drops the others.

    With event time (`config`) a key is remembered for `within` microseconds after the time of the emitted tuple,
    otherwise for as long as the state keeps it.
    """

    holds_back: ClassVar[bool] = True

    config: EventTime | None
    within: int = 0

    @property
    def meaning(self) -> str:
        """The parts of the update that must not change between restarts, as text."""
        return "FirstOfKey" if self.config is None else f"FirstOfKey by {self.config.timestampField}"

    @property
    def time(self) -> EventTime | None:
        """The event time that decides which tuples are late; None without event time."""
        return self.config

    @property
    def why_driver(self) -> str | None:
        """The reason why executors cannot compute the update; None if they can."""
        return None if self.config is None else "the driver keeps the expiry times of keys"
