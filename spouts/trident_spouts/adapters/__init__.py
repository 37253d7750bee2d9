"""Adapters from the contracts that users implement to the executors that the engine calls."""
