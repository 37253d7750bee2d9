"""The Spark engine: plans as DataFrames, and the functions that travel to the workers."""
