"""What a run says of itself: progress events, metrics, spans, and records of each batch in the Python log."""
