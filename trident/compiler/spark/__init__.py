"""The Spark engine: plans as DataFrames, and the functions that are sent to the workers."""
