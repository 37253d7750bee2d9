"""The batch groups of a run: the coordinator decides what is next, threads plan, attempt and commit."""
