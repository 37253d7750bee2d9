"""The rows of a PostgreSQL table and their changes, from a slot of its logical replication."""
