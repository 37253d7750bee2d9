"""What a store keeps of a key, the triple (txid, prev, value), as bytes."""
