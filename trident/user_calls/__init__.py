"""Calls of user code: the threads in which they run, and the limit of each."""
