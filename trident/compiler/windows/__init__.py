"""Windows: the tuples that wait in them, and the results when they close. Each kind of window has a file."""
