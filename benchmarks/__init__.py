"""Benchmarks of the library against Spark alone and against hand-written code: ``make bench``."""
