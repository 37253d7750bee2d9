"""Tuples in memory, column by column, and what user code makes of them."""
