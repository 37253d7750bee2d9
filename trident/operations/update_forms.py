"""The base of the forms of an update in `partitionPersist`: the properties of each form, with their defaults."""

from typing import Any, ClassVar

from trident.operations.windows import EventTime


class UpdateForm:
    """One form of the update of a state, as plain data. The class determines how the update is called.

    A subclass overrides the properties in which it differs. `trident.compiler.state_updates.FORMS` has the function
    that runs each form; a test fails if a form has none.
    """

    __slots__ = ()

    replaces: ClassVar[bool] = False
    """True if a new value that the update emits for a key replaces a value that it emitted before."""

    holds_back: ClassVar[bool] = False
    """True if the update passes tuples on or drops them. Progress events count those that it drops."""

    @property
    def passes_on(self) -> bool:
        """True if the tuples that the update emits are tuples that it got, unchanged."""
        return self.holds_back

    @property
    def meaning(self) -> str:
        """The name that stores keep with the values. A store with another name is refused."""
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
        """The `Aggregation` whose `present` turns a stored value into the one that queries see; None without one."""
        return None

    @property
    def why_driver(self) -> str | None:
        """The reason why executors cannot compute the update, whatever its keys; None if they can."""
        return None

    @property
    def same_in_parts(self) -> bool:
        """True if the result is the same when the tuples are applied in portions, each with all tuples of some keys."""
        return False
