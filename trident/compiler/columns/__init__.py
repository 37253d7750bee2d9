"""Tuples in memory, column by column, and the application of user code to them."""
