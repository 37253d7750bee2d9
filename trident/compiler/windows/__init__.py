"""Windows: the tuples that wait in them, and the results when windows close; one file for each kind of window."""
