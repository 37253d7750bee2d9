"""Many tuples become few: aggregates, picks and reducers over columns."""
