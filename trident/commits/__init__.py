"""The commit turn of a batch: later stages, updates, queries, states and outputs, by the driver or the executors."""
