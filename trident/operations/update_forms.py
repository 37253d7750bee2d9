"""The base of the forms of a state update: the properties of each form, with their defaults."""

from typing import Any, ClassVar

from trident.operations.windows import EventTime


class UpdateForm:
    """One form of a state update, as plain data. The class determines how the update is called.

    A subclass overrides the properties in which it differs. `trident.compiler.state_updates.FORMS` has the function
    that runs each form; a test fails if a form has none.
    """

    __slots__ = ()

    replaces: ClassVar[bool] = False
    """True if a value that the update emits for a key replaces the one it emitted before."""

    holds_back: ClassVar[bool] = False
    """True if the update emits some tuples and drops others. Progress events count the dropped ones."""

    @property
    def passes_on(self) -> bool:
        """True if the update emits its input tuples unchanged."""
        return self.holds_back

    @property
    def meaning(self) -> str:
        """The name that stores record for the values. A store with another name is refused."""
        return "put"

    @property
    def time(self) -> EventTime | None:
        """The event time that decides which tuples are late; None without event time."""
        return None

    @property
    def timed(self) -> bool:
        """True if the stored values hold timers."""
        return False

    @property
    def presents(self) -> Any:
        """The `Aggregation` whose `present` converts stored values for queries; None if they need no conversion."""
        return None

    @property
    def why_driver(self) -> str | None:
        """The reason why executors cannot compute the update, whatever its keys; None if they can."""
        return None

    @property
    def same_in_parts(self) -> bool:
        """True if the result is the same when the tuples are applied in portions, divided by key."""
        return False
