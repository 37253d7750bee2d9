"""The target of an output into Delta: the table, the fields that identify a row, and the fields of partitions."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, eq=False)
class DeltaTarget:
    """A Delta table. Its columns have the names of the fields."""

    uri: str
    """The table's folder, or its address on an object store."""
    options: tuple[tuple[str, str], ...] = field(repr=False)
    """The options of the object store, sorted. They may hold secrets, so no `repr` shows them."""
    key: tuple[str, ...] = ()
    """The fields that identify a row; empty if every tuple becomes a row."""
    partitions: tuple[str, ...] = ()
    """The fields by which the table is partitioned."""
    changes: bool = False
    """True if tuples are changes, which also delete rows."""
    consolidated: bool = False
    """True if they are changes of a state; see `trident.plan.change_order`."""

    @property
    def shown(self) -> str:
        """The target in words."""
        by = f" by {', '.join(self.key)}" if self.key else ""
        return f"the Delta table {self.uri}{by}"
