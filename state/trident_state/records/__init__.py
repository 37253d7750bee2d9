"""Records: the triples (txid, value before that txid, value) that a store keeps for its keys, as bytes."""
