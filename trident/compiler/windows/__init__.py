"""Windows: what waits, what comes out, and when; one file a kind of window."""
