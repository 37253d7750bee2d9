"""Claims on sources that return each row only once, and so can have only one reader at a time."""

import threading
from typing import Protocol, runtime_checkable

from trident.base.errors import TopologyError

_lock = threading.Lock()
_claimed: dict[int, object] = {}
"""The sources that have a reader now, by id. As long as a source is in this dict, no other object can get its id."""


@runtime_checkable
class OneTimeSpout(Protocol):
    """A spout with a source that may return each row only once. A preview would take such rows away from the run."""

    def previewable_if(self) -> str | None:
        """Return how to make the spout previewable; None if a preview takes no row away."""
        ...


def check_previewable(spout: object, step: object) -> None:
    """Raise TopologyError if a preview would take rows away from the run; `step` begins the message."""
    way_out = spout.previewable_if() if isinstance(spout, OneTimeSpout) else None
    if way_out is not None:
        raise TopologyError(
            f"{step}: its source returns each row once, so the rows that a preview reads would be missing in the run. "
            f"{way_out}; or start the topology, and read its tuples there"
        )


def claim(source: object, name: str) -> None:
    """Claim a source for a reader; `name` begins the error's message.

    Raises TopologyError if the source has a reader already, because each reader would get only a part of the rows.
    """
    with _lock:
        if id(source) in _claimed:
            raise TopologyError(
                f"{name} already has a running stream that reads it, and each row is read once: a second stream "
                f"would take rows from the first. Start all branches from one stream, or give each stream a "
                f"separate spout with a separate source, because streams of one queue may count a message twice. "
                f"If an earlier topology still reads it, stop that topology first"
            )
        _claimed[id(source)] = source


def release(source: object) -> None:
    """End the claim on a source, so that another reader can claim it."""
    with _lock:
        _claimed.pop(id(source), None)
