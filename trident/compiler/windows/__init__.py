"""Windows: the tuples that wait, and the results when they close; one file for each kind of window."""
