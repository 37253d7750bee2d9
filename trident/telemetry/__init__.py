"""The reports of a run: progress events, metrics, spans, and records of each batch in the Python log."""
