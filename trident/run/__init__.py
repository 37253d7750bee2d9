"""A run as a whole: its start, its options, its registry, and the handle that users hold."""
