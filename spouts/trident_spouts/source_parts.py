"""Parts of a source, such as topics or files, that may move from one stream's spout to another's."""

from collections.abc import Collection
from typing import Protocol, runtime_checkable

from trident_spouts.executor import Metadata


@runtime_checkable
class ReadsParts(Protocol):
    """A spout of several parts, each of which another stream's spout could read.

    A position belongs to a stream. So a part that moves to another stream is read again from its beginning, and a start
    compares the parts (`recovery.moved_parts`).
    """

    def parts_read(self, position: Metadata) -> Collection[str]:
        """Return the names of the parts from which the batches up to a position of such a spout took tuples."""

    def reads_part(self, part: str) -> bool:
        """Return whether this spout reads a part of this name."""
