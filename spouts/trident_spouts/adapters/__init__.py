"""Adapters: executors that a run calls, over the contracts that users implement."""
