"""The ledger of a batch, which counts, by number and token, all rows that one partition sends and another receives."""
