"""SQL over the states of a topology, by DuckDB in a process of its own."""
