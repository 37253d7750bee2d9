"""Clients of a topology's server."""
