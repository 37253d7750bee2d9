"""The life of a batch: the coordinator, its log, the threads that drive it, and the handle that users hold."""
