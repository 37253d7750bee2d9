"""SQL over the states of a topology, by DuckDB in a separate process."""
