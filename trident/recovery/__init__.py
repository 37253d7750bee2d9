"""The start of a run on an existing log: the takeover of the log, and the checks that the program fits."""
