"""State updates that the library applies to whole columns, as plain data. The compiler has the functions for them."""

from dataclasses import dataclass

from trident.base.callsite import CallSite
from trident.operations.windows import EventTime


@dataclass(frozen=True, slots=True, eq=False)
class FirstOfKey:
    """The update of `dropDuplicates`: let the first tuple of each key through, and drop the others.

    By event time (`config`) a key is remembered for `within` microseconds after the time of the tuple that went
    through. Without it a key is remembered for as long as the state keeps it.
    """

    site: CallSite
    config: EventTime | None
    within: int = 0

    @property
    def meaning(self) -> str:
        """The parts of the update that must not change between restarts, as text."""
        return "FirstOfKey" if self.config is None else f"FirstOfKey by {self.config.timestampField}"


@dataclass(frozen=True, slots=True, eq=False)
class LastOfKey:
    """The update of `toTable`: keep the last tuple of each key, as a struct of the fields in `values`."""

    site: CallSite
    values: tuple[str, ...]

    @property
    def meaning(self) -> str:
        """The parts of the update that must not change between restarts, as text."""
        return "LastOfKey"


ColumnUpdater = FirstOfKey | LastOfKey
"""An update of whole columns. It calls no user code, and creates no objects for tuples."""
