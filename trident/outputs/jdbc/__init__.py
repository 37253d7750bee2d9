"""PostgreSQL as an output: a batch is one transaction, which records the batch's txid."""
