"""Delta tables as an output: a batch is one version of the table, which records the batch's txid."""
