"""Aggregates, selections and reducers over columns: they reduce many tuples to few rows."""
