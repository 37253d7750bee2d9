"""The collector into which a RichSpout emits its messages."""

import datetime
import decimal
from collections.abc import Callable, Mapping
from typing import Any

from trident.base.copied_values import own_value
from trident_spouts.messages.seen_messages import MessageId

_FIXED_BYTES = 8
"""The size of a number, a date, a flag or a null."""


class Collector:
    """Collects the messages of one batch. It is passed to ``nextTuple`` of a RichSpout."""

    def __init__(self, take: Callable[[Any, MessageId | None, str | None], None]) -> None:
        self._take = take

    def emit(self, values: Any, messageId: MessageId | None = None, stream: str | None = None) -> None:
        """Emit a message: a tuple of its fields, a dict or Row, or the value of the only field.

        One message may have several tuples, also on several streams: emit them under one id, in the call of
        ``nextTuple`` in which the message was delivered. It is acknowledged once all of them are durable. Tuples of one
        id that are equal in all fields count once, because a queue may deliver a message twice within one call.

        Parameters
        ----------
        values : tuple, dict, Row or a value
        messageId : str or int
            The id by which ``ack`` and ``fail`` name the message. It must be the same at every delivery of the message,
            even to another process, and no other message may have it. A spout with ``tracking = "none"`` passes no ids.
        stream : str, optional
            The stream to which the tuple goes, if `outputFields` declares several. Omitted: ``"default"``.

        Raises
        ------
        SpoutContractError
            The id is missing, is not a str or an int, or was given although ids are not tracked; there is no such
            stream; or one call of ``nextTuple`` emits more messages than `maxOverflow`.
        """
        self._take(own_value(values), messageId, stream)


def size_of(values: Any) -> int:
    """Return the approximate size of a message in bytes.

    >>> size_of(("dog", 7)), size_of({"word": "dog", "tags": ["a", "bc"]})
    (11, 6)
    """
    if isinstance(values, str | bytes):
        return len(values)
    if isinstance(values, Mapping):
        return sum(map(size_of, values.values()))
    if isinstance(values, list | tuple | set | frozenset):
        return sum(map(size_of, values))
    if isinstance(values, decimal.Decimal | datetime.timedelta):
        return 2 * _FIXED_BYTES
    return _FIXED_BYTES
