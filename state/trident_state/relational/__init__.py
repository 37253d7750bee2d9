"""States in relational databases: a table and a view for each state, one transaction for each batch."""

from trident_state.relational.factory import PostgresMapState, SqliteMapState

__all__ = ["PostgresMapState", "SqliteMapState"]
