"""A run: the coordinator, the threads that drive it, and the handle that users hold."""
