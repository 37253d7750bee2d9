"""State updates over whole columns, as plain data. The compiler has a function for each of them."""

from dataclasses import dataclass
from typing import ClassVar

from trident.base.callsite import CallSite
from trident.operations.update_forms import UpdateForm


@dataclass(frozen=True, slots=True, eq=False)
class ColumnUpdater(UpdateForm):
    """An update over whole columns. It calls no user code, and creates no objects for tuples."""

    site: CallSite

    @property
    def meaning(self) -> str:
        """The parts of the update that must not change between restarts, as text."""
        return type(self).__name__

    @property
    def same_in_parts(self) -> bool:
        """True: the result for a key depends only on the tuples of this key."""
        return True


@dataclass(frozen=True, slots=True, eq=False)
class LastOfKey(ColumnUpdater):
    """The update of `toTable`: keep the last tuple of each key, as a struct of the fields in `values`.

    With `change`, the field with the kind of a change, a key leaves the state if its last tuple removes the row. With
    `consolidated`, the tuples are the changes of a state, in which a batch removes and adds each row once: then a key
    leaves only if no tuple adds a row, because several rows may exchange their keys.

    With `order`, one of the `values`, a tuple never replaces a tuple or stored row with a greater value of this field.
    Null is the least value.
    """

    replaces: ClassVar[bool] = True

    values: tuple[str, ...]
    change: str | None = None
    consolidated: bool = False
    order: str | None = None
