"""State updates that the library applies to whole columns, as plain data. The compiler has the functions for them."""

from dataclasses import dataclass
from typing import ClassVar

from trident.base.callsite import CallSite
from trident.operations.update_forms import UpdateForm


@dataclass(frozen=True, slots=True, eq=False)
class ColumnUpdater(UpdateForm):
    """An update of whole columns. It calls no user code, and creates no objects for tuples."""

    site: CallSite

    @property
    def meaning(self) -> str:
        """The parts of the update that must not change between restarts, as text."""
        return type(self).__name__

    @property
    def same_in_parts(self) -> bool:
        """True: the result for a key depends on the tuples of this key alone."""
        return True


@dataclass(frozen=True, slots=True, eq=False)
class LastOfKey(ColumnUpdater):
    """The update of `toTable`: keep the last tuple of each key, as a struct of the fields in `values`.

    With `change`, the field with the kind of a change, a key leaves the state whose last tuple takes its row away. With
    `consolidated`, the tuples are the changes of a state, where each row is taken away once and added once in a batch:
    then a key leaves only if no tuple adds a row, because several rows may exchange their keys.

    With `order`, one of the `values`, a tuple that is less by this field does not replace a greater one, nor a stored
    row that is greater. A null is the least value.
    """

    replaces: ClassVar[bool] = True

    values: tuple[str, ...]
    change: str | None = None
    consolidated: bool = False
    order: str | None = None
