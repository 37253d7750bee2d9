"""Reads and updates of states by a stage, before anything is written."""
