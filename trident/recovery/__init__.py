"""The start of a run on an existing log: take it over, and check that the program fits."""
