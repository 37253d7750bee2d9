"""What one does without this library, written as its users would write it: one file an engine."""
