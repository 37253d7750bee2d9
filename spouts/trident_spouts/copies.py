"""Copies of lists and dicts that a user's spout and the library exchange, so that neither changes the other's data."""

from typing import Any


def copied(value: Any) -> Any:
    """Return a value with copies of all lists and dicts in it, at any depth.

    A spout may keep its position in the metadata that it gets, or reuse one list for all its rows.

    >>> row = [1, {"tags": ["a"]}]
    >>> kept = copied(row)
    >>> row[1]["tags"].append("b")
    >>> kept
    [1, {'tags': ['a']}]
    """
    if type(value) is list:
        return [copied(item) for item in value]
    if type(value) is dict:
        return {key: copied(item) for key, item in value.items()}
    return value
