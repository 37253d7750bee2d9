"""Sources that hand out each row once, and so have one reader at a time."""

import threading

from trident.base.errors import TopologyError

_lock = threading.Lock()
_read: dict[int, object] = {}
"""The sources that are read now, by id."""


def claim(source: object, name: str) -> None:
    """Become the reader of a source. Raise where it has one: each would get a part of the rows."""
    with _lock:
        if id(source) in _read:
            raise TopologyError(
                f"{name} is read by a stream that runs, and hands out each row once: a second stream would take rows "
                f"from the first. Begin all branches at one stream, or give each stream a spout of its own; where an "
                f"earlier topology reads it still, stop that one first"
            )
        _read[id(source)] = source


def release(source: object) -> None:
    """Let the source have another reader."""
    with _lock:
        _read.pop(id(source), None)
