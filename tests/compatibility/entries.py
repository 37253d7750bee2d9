"""The entries of a state as texts, to be stored and compared."""

from typing import Any


def entries(state: Any) -> list[list[str]]:
    """Return the keys and values of a state in order, as texts of exact values."""
    return sorted([repr(_plain(key)), repr(_plain(value))] for key, value in state.items())


def _plain(value: Any) -> Any:
    """Return a value without the order that a set does not have."""
    if isinstance(value, list | tuple) and not hasattr(value, "_fields") and all(isinstance(v, int) for v in value):
        return sorted(value)
    return value
