"""Aggregates, selections and reducers over columns: many tuples become few."""
