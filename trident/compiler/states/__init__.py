"""Reads and updates of states by a stage, before any change is written."""
