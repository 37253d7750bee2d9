"""The Spark engine: a plan as DataFrames, and what travels to the workers."""
