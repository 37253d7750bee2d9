"""Queries from outside over the states, answered in the driver over Arrow."""
