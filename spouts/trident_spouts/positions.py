"""Positions of streams in the terms of their sources, for people: an offset of a partition, the bytes of a file.

The log keeps a position as JSON that only its spout understands. `position_by_part` names the same position by the
parts of the source, without a connection to the source, so that it also works while no topology runs.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from trident_spouts.executor import Metadata


@runtime_checkable
class ShowsPosition(Protocol):
    """A spout that describes its positions.

    If the method is static, the class can describe them without an instance.
    """

    def position_by_part(self, position: Metadata) -> Mapping[str, Metadata]:
        """Return how far the batches up to a position have read each part of the source, as JSON by part.

        The method opens nothing, and depends only on the position. It is not called for None.
        """


def position_by_part(spout: object, position: Metadata) -> dict[str, Metadata]:
    """Return how far the batches up to a position of `spout` have read each part of its source.

    `spout` may be a class, or None for an unknown one. A spout without the method of `ShowsPosition` has the parts
    under ``positions`` in its position, as the spouts over partitions keep them; otherwise it has one part, "position".

    >>> position_by_part(None, {"positions": {"p": 5, "q": None}})
    {'p': 5, 'q': None}
    >>> position_by_part(None, {"day": "2026-01-31"}), position_by_part(None, None)
    ({'position': {'day': '2026-01-31'}}, {})
    """
    if position is None:
        return {}
    if isinstance(spout, ShowsPosition):
        return dict(spout.position_by_part(position))
    parts = position.get("positions") if isinstance(position, dict) else None
    return dict(parts) if isinstance(parts, dict) else {"position": position}
