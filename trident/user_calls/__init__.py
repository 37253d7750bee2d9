"""Calls of user code: the threads they run in, and the limit on each."""
