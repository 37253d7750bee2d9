"""The ledger of a batch. It counts, by number and token, all rows that one partition sends and another receives."""
