"""The target of an output into a database: the table, and the fields that identify a row."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from trident.base.finding import Finding, Now


@dataclass(frozen=True, slots=True, eq=False)
class JdbcTarget:
    """A table of a PostgreSQL database. Its columns have the names of the fields."""

    url: str = field(repr=False)
    """The address, as users wrote it. It may hold a password, so no `repr` shows it."""
    table: str
    """The name of the table, as users wrote it."""
    key: tuple[str, ...]
    """The fields that identify a row; empty if every tuple becomes a row."""
    changes: bool = False
    """True if tuples are changes, which also delete rows."""
    consolidated: bool = False
    """True if they are changes of a state; see `trident.plan.change_order`."""

    @property
    def shown(self) -> str:
        """The target in words."""
        by = f" by {', '.join(self.key)}" if self.key else ""
        return f"the table {self.table}{by}"

    def examine(self, now: Now = time.time) -> Iterator[Finding]:
        """Yield the faults of the database that `trident doctor` reports."""
        # Imported here, because a program that declares an output needs neither of the modules.
        from trident.base.postgres_examination import durable, examine_database, may_create, primary
        from trident.base.redis_address import redacted

        about = f"the table {self.table} at {redacted(self.url)}"
        asked = primary(about), may_create(about), durable(about)
        yield from examine_database(about, self.url, None, None, "jdbc", now, *asked)
