"""A table whose changes tests read, and short words for what they do with it."""

from typing import Any

from tests.spouts.jdbc.reads import emitted, planned
from tests.support.postgres import PostgresServer
from trident.spouts import PostgresChangesSpout
from trident_spouts.executor import Metadata, SpoutExecutor

COLUMNS = "id bigint primary key, customer text, price bigint"
FIELDS = "id long, customer string, price long"


class ChangedTable:
    """A table with a publication of its name and a slot of its name."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server, self.name = server, name

    def create(self, columns: str = COLUMNS) -> None:
        """Create the table, with the whole row before each change in the log, and its publication."""
        self.run(
            f"create table {self.name} ({columns})",
            f"alter table {self.name} replica identity full",
            f"create publication {self.name} for table {self.name}",
        )

    def run(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own; T is the name of the table."""
        self.server.run(*(statement.replace(" T", f" {self.name}") for statement in statements))

    def spout(self, schema: str | None = FIELDS, **options: Any) -> PostgresChangesSpout:
        """Return a spout of the table's changes."""
        options = {"slot": self.name, "publication": self.name, "retrySecs": 5, **options}
        return PostgresChangesSpout(self.server.url, self.name, schema, **options)

    def create_slot(self) -> None:
        self.server.run(f"select pg_create_logical_replication_slot('{self.name}', 'pgoutput')")

    def drop_slot(self) -> None:
        self.server.run(
            f"select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = '{self.name}'"
        )

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of the table."""
        with self.server.connect() as connection:
            return connection.execute(f"select * from {self.name} order by 1".encode()).fetchall()


def changes(executor: SpoutExecutor, plan: Metadata) -> list[tuple[Any, ...]]:
    """Return the tuples of a batch, in their order."""
    return [tuple(row.values()) for row in emitted(executor, plan).arrow().to_pylist()]


def drained(executor: SpoutExecutor, position: Metadata = None) -> tuple[list[tuple[Any, ...]], Any]:
    """Read and commit batch by batch until nothing is left; return all tuples, and the position after them."""
    read: list[tuple[Any, ...]] = []
    while (plan := planned(executor, position)) is not None:
        read += changes(executor, plan)
        executor.success(1, plan)
        position = plan
    return read, position
