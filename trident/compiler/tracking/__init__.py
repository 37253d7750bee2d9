"""The ledger of a batch: every row that one partition sends and another one receives is in it, by number and token."""
