"""The target of an output into a database: the table, and the fields that identify a row."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, eq=False)
class JdbcTarget:
    """A table of a PostgreSQL database. Its columns have the names of the fields."""

    url: str = field(repr=False)
    """The address, as users wrote it. It may hold a password, so no `repr` shows it."""
    table: str
    """The name of the table, as users wrote it."""
    key: tuple[str, ...]
    """The fields that identify a row; none if every tuple becomes a row."""
    changes: bool = False
    """True if tuples are changes, which also delete rows."""
    consolidated: bool = False
    """True if they are changes of a state; see `trident.plan.change_order`."""

    @property
    def shown(self) -> str:
        """The target in words."""
        by = f" by {', '.join(self.key)}" if self.key else ""
        return f"the table {self.table}{by}"
