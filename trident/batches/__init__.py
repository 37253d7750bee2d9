"""The batch groups of a run: the coordinator decides the next step, threads plan, attempt and commit."""
