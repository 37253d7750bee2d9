"""Committed reads of states, as of one txid."""
