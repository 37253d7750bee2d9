"""What two readings may see before one offset, without a broker."""

from trident_spouts.kafka.last_messages import LastMessage, LastMessages
from trident_spouts.kafka.losses import Losses

PARTITION = ("t", 0)


def test_a_batch_ahead_that_looks_back_after_compaction_contradicts_nothing() -> None:
    """The last message was read, and compacted before the batch ahead was read; then the batch between is read."""
    lasts = LastMessages(Losses("fail"), lambda topic: True)
    lasts.note(PARTITION, 15, LastMessage(14, 5, "read"))
    lasts.note(PARTITION, 16, LastMessage(13, 4, "older"))
    lasts.note_none(PARTITION, 15, 16)
    assert lasts.at(PARTITION, 16) == LastMessage(13, 4, "older")


def test_a_range_without_messages_carries_on_the_last_one() -> None:
    lasts = LastMessages(Losses("fail"), lambda topic: False)
    lasts.note(PARTITION, 15, LastMessage(14, 5, "read"))
    lasts.note_none(PARTITION, 15, 16)
    assert lasts.at(PARTITION, 16) == LastMessage(14, 5, "read")
