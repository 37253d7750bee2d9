"""Tuples in memory, column by column, and how user code is applied to them."""
