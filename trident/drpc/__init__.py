"""Queries against the state, run by the driver over Arrow."""
