"""The ids of messages in batches.

They are frozen with each batch, so that a second delivery of a message is recognised.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from trident_spouts.executor import Metadata
from trident_spouts.user_calls import foreign_metadata_error

MessageId: TypeAlias = str | int
"""The id of a message, the same at every delivery."""


@dataclass(frozen=True, slots=True)
class SeenMessages:
    """The position of a stream of messages: a batch of it, and the messages of this batch and of earlier ones.

    The stream numbers its own batches from 1 on; txids would not do, because they also count the batches of other
    streams in the batch group. `batches` holds the ids of each batch that is still known, in order.
    """

    number: int = 0
    batches: tuple[tuple[int, tuple[MessageId, ...]], ...] = ()

    @property
    def messages(self) -> tuple[MessageId, ...]:
        """The messages of the batch itself."""
        return self.batches[-1][1] if self.batches and self.batches[-1][0] == self.number else ()

    def __iter__(self) -> Iterator[tuple[MessageId, int]]:
        """Yield each known id with the number of its batch."""
        return ((message, number) for number, ids in self.batches for message in ids)

    def then(self, ids: Sequence[MessageId], committed: int, remember: int) -> "SeenMessages":
        """Return the position after one more batch, which holds `ids`.

        Of batches up to the number `committed` only the newest `remember` ids are kept. Their acks were sent, but the
        queue may not have received them.
        """
        kept: list[tuple[int, tuple[MessageId, ...]]] = [(self.number + 1, tuple(ids))]
        for number, earlier in reversed(self.batches):
            if number <= committed:
                earlier = earlier[max(0, len(earlier) - remember) :]
                remember -= len(earlier)
            if earlier:
                kept.append((number, earlier))
        return SeenMessages(self.number + 1, tuple(reversed(kept)))

    def to_json(self) -> Metadata:
        """Return the position in the form in which the log keeps it."""
        return {"number": self.number, "batches": [[number, list(ids)] for number, ids in self.batches]}


def seen_in(metadata: Any, spout: str) -> SeenMessages:
    """Return the position that the log kept; for None, the position before the first batch.

    Raises SpoutContractError if another kind of spout wrote it. `spout` begins the message.
    """
    if metadata is None:
        return SeenMessages()
    if not isinstance(metadata, dict) or set(metadata) != {"number", "batches"}:
        raise foreign_metadata_error(spout, metadata)
    return SeenMessages(metadata["number"], tuple((number, tuple(ids)) for number, ids in metadata["batches"]))
