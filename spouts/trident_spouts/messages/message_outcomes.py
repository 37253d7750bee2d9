"""The calls of `ack` and `fail`, which report the outcomes of messages to a queue."""

import logging
from collections.abc import Collection, Iterable
from time import monotonic
from typing import Any

from trident_spouts.messages.seen_messages import MessageId
from trident_spouts.user_calls import call

logger = logging.getLogger("trident.spouts")

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 60.0
"""The shortest and longest pause (seconds) between the calls of an `ack` or a `fail` that raises."""


class Outcomes:
    """Reports the outcomes of messages to a spout. Each call is repeated until it returns.

    A queue that delivers a limited number of messages delivers no further message while it waits for an `ack` or a
    `fail`. So a call that raises is repeated with later plans, as long as the run lasts.
    """

    def __init__(self, spout: Any, name: str) -> None:
        self._spout, self._name = spout, name
        self._untold: dict[MessageId, tuple[str, ...]] = {}
        """The messages whose call raised, each with the method and the arguments after the id."""
        self._returned: dict[MessageId, None] = {}
        """The messages whose ``ack`` has returned, in the order of the returns, without those that `settle` removed."""
        self._pause = 0.0
        self._next = 0.0
        """The time at which the calls that raised are repeated."""

    def ack(self, message: MessageId) -> None:
        """Call the spout's `ack`, because a message is durable."""
        self._tell(message, "ack")

    def fail(self, message: MessageId, reason: str) -> None:
        """Call the spout's `fail`, so that the queue delivers a message again."""
        self._tell(message, "fail", reason)

    @property
    def returned(self) -> Collection[MessageId]:
        """The messages with an ``ack`` that has returned, although a position may still list them as unacknowledged."""
        return self._returned.keys()

    @property
    def due(self) -> set[MessageId]:
        """The messages whose ``ack`` has raised and must be repeated."""
        return {message for message, (method, *_) in self._untold.items() if method == "ack"}

    def settle(self, waiting: Collection[MessageId]) -> None:
        """Keep only the acks of messages that a committed position still lists as unacknowledged."""
        self._returned = {message: None for message in self._returned if message in waiting}

    def begin(self, messages: Iterable[MessageId]) -> None:
        """Record that a new batch has these messages. Their earlier acknowledgements were for other deliveries."""
        for message in messages:
            self._returned.pop(message, None)

    def tell_again(self) -> None:
        """Repeat the calls that raised, if their pause is over."""
        if not self._untold or monotonic() < self._next:
            return
        for message, (method, *arguments) in list(self._untold.items()):
            self._tell(message, method, *arguments)
        self._pause = min(_LONGEST_PAUSE, 2 * self._pause or _FIRST_PAUSE) if self._untold else 0.0
        self._next = monotonic() + self._pause

    def _tell(self, message: MessageId, method: str, *arguments: str) -> None:
        self._untold.pop(message, None)
        self._returned.pop(message, None)
        try:
            call(self._spout, method, message, *arguments)
        except Exception as error:  # the calls for the other messages must be repeated, too
            logger.warning(
                "%s failed in %s(%r), which is called again with a later batch: %s", self._name, method, message, error
            )
            self._untold[message] = (method, *arguments)
        else:
            if method == "ack":
                self._returned[message] = None
