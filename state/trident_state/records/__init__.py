"""Records: the triple (txid, prev, value) that a store keeps for a key, as bytes."""
