"""The ids of messages in batches.

They are frozen with each batch, so that a second delivery of a message is recognised.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from trident_spouts.executor import Metadata
from trident_spouts.user_calls import foreign_metadata_error

MessageId: TypeAlias = str | int
"""The id of a message, the same at every delivery."""


class SeenBatch(NamedTuple):
    """The messages of a batch with acks that may not have reached the queue.

    `since`: the start of the first run that found these messages without acks, if they were not delivered again since
    then; otherwise None.
    """

    number: int
    ids: tuple[MessageId, ...]
    since: float | None = None

    def without(self, acks: "Acks", now: float, redelivery: float) -> "Iterator[SeenBatch]":
        """Yield the batch with only the messages without an ack.

        They are yielded in up to two parts. Messages that an earlier run left too long ago are left out.
        """
        ids = tuple(message for message in self.ids if message not in acks.returned)
        if self.number > acks.begun:
            yield SeenBatch(self.number, ids)
            return
        since = acks.since if self.since is None else self.since
        yield SeenBatch(self.number, tuple(message for message in ids if message in acks.due))
        if now - since < redelivery:
            yield SeenBatch(self.number, tuple(message for message in ids if message not in acks.due), since)


class Acks(NamedTuple):
    """A run's knowledge of the acks of messages in batches."""

    begun: int
    """The number of the last batch of earlier runs."""
    since: float
    """The start of the run."""
    returned: Collection[MessageId]
    """The messages whose ``ack`` has returned in this run, in the order of the returns."""
    due: Collection[MessageId]
    """Messages that were delivered again in this run, and whose ``ack`` has not returned yet."""


@dataclass(frozen=True, slots=True)
class SeenMessages:
    """The position of a stream of messages: the number of its last batch, and the messages that may be delivered again.

    The stream numbers its batches from 1 on. Txids cannot be used, because they also count the batches of other streams
    in the batch group. `batches` holds the ids of each batch that have no ack yet, in order of the batches, and
    `acknowledged` the newest ids with an ack.

    An id is in `acknowledged` only if a run has seen its ``ack`` return. Neither a later batch nor a restart proves
    that the queue got the ack: the ``ack`` may have raised, or the driver may have died before it.
    """

    number: int = 0
    batches: tuple[SeenBatch, ...] = ()
    acknowledged: tuple[MessageId, ...] = ()

    def __iter__(self) -> Iterator[tuple[MessageId, int]]:
        """Yield each known id with the number of its batch; 0 if the id was acknowledged."""
        yield from ((message, 0) for message in self.acknowledged)
        yield from ((message, batch.number) for batch in self.batches for message in batch.ids)

    def then(
        self, ids: Iterable[MessageId], acks: Acks, now: float, remember: int, redelivery: float
    ) -> "SeenMessages":
        """Return the position after another batch with the messages `ids`.

        The newest `remember` acknowledged ids are kept: the queue may not have received the ack. A message that came
        again, and was acknowledged again, counts as one of the newest. An id without an ack is kept as long as a run
        lasts. An id that an earlier run left without an ack is kept for `redelivery` seconds after the start of the run
        that found it. The last acks of a run are not in any position, so such ids would otherwise accumulate.
        """
        again = tuple(message for message in self.acknowledged if message in acks.due)
        seen = (SeenBatch(0, again), *self.batches)
        waiting = {*self.acknowledged, *(message for batch in seen for message in batch.ids)}
        newly = [message for message in acks.returned if message in waiting]
        older = {*self.acknowledged}.difference(newly, again)
        known = [message for message in self.acknowledged if message in older] + newly
        kept = [part for batch in seen for part in batch.without(acks, now, redelivery) if part.ids]
        following = SeenBatch(self.number + 1, tuple(ids))
        return SeenMessages(following.number, (*kept, following), tuple(known[max(0, len(known) - remember) :]))

    def to_json(self) -> Metadata:
        """Return the position in the form in which the log keeps it."""
        batches = [[number, list(ids), *([] if since is None else [since])] for number, ids, since in self.batches]
        return {"number": self.number, "batches": batches, "acknowledged": list(self.acknowledged)}


def seen_in(metadata: Any, spout: str) -> SeenMessages:
    """Return the position that the log kept; for None, the position before the first batch.

    Raises SpoutContractError, which begins with `spout`, if another kind of spout wrote it.
    """
    if metadata is None:
        return SeenMessages()
    if not isinstance(metadata, dict) or metadata.keys() != {"number", "batches", "acknowledged"}:
        raise foreign_metadata_error(spout, metadata)
    batches = tuple(SeenBatch(number, tuple(ids), *since) for number, ids, *since in metadata["batches"])
    return SeenMessages(metadata["number"], batches, tuple(metadata["acknowledged"]))
