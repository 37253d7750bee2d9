"""The messages that one call of ``nextTuple`` emits: checked, and without messages that were emitted before."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trident.base.errors import SpoutContractError
from trident.base.short_texts import typed_brief
from trident_spouts.messages.collector import size_of
from trident_spouts.messages.named_streams import Streams, number_of
from trident_spouts.messages.seen_messages import MessageId
from trident_spouts.rows import table_of


@dataclass(slots=True)
class Message:
    """A message with its tuples, each preceded by the number of its stream. `size` is the approximate size in bytes."""

    id: MessageId | None
    tuples: list[tuple[int, Any]] = field(default_factory=list)
    size: int = 0

    def add(self, stream: int, values: Any) -> None:
        self.tuples.append((stream, values))
        self.size += size_of(values)


@dataclass(frozen=True, slots=True)
class Known:
    """The messages that are known already. If they are emitted again, they count as delivered twice."""

    seen: Mapping[MessageId, int]
    """The messages of earlier batches, each with the number of its batch."""
    under_way: set[MessageId]
    """The messages whose ack or fail is still pending."""


class Emitted:
    """The messages that one call of ``nextTuple`` emits.

    `tracked`: whether messages are tracked; None if they have no ids. `most`: the most messages that a call may emit.
    """

    def __init__(self, name: str, tracked: bool | None, streams: Streams, most: int, known: Known) -> None:
        self._name, self._tracked, self._most, self._known = name, tracked, most, known
        self._names = [stream for stream, _ in streams]
        self._fields = [fields for _, fields in streams]
        self._own: dict[MessageId, Message] = {}
        self.messages: list[Message] = []
        self.again: dict[MessageId, int] = {}
        """Messages that are already in earlier batches, each with the number of its batch."""
        self.repeated: MessageId | None = None
        """The last message that already had an equal tuple on the same stream."""
        self.calls = 0
        """The number of emitted tuples, including those that are left out."""

    def take(self, values: Any, message: MessageId | None, stream: str | None = None) -> None:
        """Add a tuple. Raises SpoutContractError if its id or stream is wrong, or if its message exceeds the limit."""
        self._check(message)
        number = number_of(stream, self._names, f"{self._name}.nextTuple: emit(...)")
        self.calls += 1
        if self._tracked and message is not None:
            if message in self._known.under_way:
                return
            if message in self._known.seen:
                self.again[message] = self._known.seen[message]
                return
            if message in self._own and self._is_repeated(self._own[message], number, values):
                self.repeated = message
                return
        self._of(message).add(number, values)

    def _is_repeated(self, message: Message, number: int, values: Any) -> bool:
        """Return whether a message already has an equal tuple on the stream.

        Then it was delivered twice within the call.

        Tuples that differ are parts of one message, and all of them count.
        """
        same = [values for at, values in message.tuples if at == number]
        return bool(same) and self._text(number, values) in [self._text(number, other) for other in same]

    def _text(self, number: int, values: Any) -> str:
        """Return a tuple's values as a text.

        It is equal for equal tuples, even if they were emitted in different forms.
        """
        where = f"{self._name}.nextTuple, stream {self._names[number]!r}"
        return repr(table_of([values], self._fields[number], where).to_pylist())

    def _of(self, message: MessageId | None) -> Message:
        """Return the message with this id; create it if this call has not emitted it yet."""
        if message is not None and message in self._own:
            return self._own[message]
        # Kept before the check, because this message was delivered, too, and fails with the others.
        self.messages.append(Message(message))
        if len(self.messages) > self._most:
            raise SpoutContractError(
                f"{self._name}.nextTuple emitted more than maxOverflow={self._most} messages in one call; emit the "
                f"other messages in the next call, or raise maxOverflow"
            )
        if message is not None:
            self._own[message] = self.messages[-1]
        return self.messages[-1]

    def _check(self, message: MessageId | None) -> None:
        where = f"{self._name}.nextTuple: emit(..., messageId={typed_brief(message)})"
        if self._tracked is None and message is not None:
            raise SpoutContractError(
                f"{where}: a message id is given, but tracking = 'none' acknowledges no message; omit the id, or set "
                f"tracking = 'tracked'"
            )
        if self._tracked is not None and (not isinstance(message, str | int) or isinstance(message, bool)):
            raise SpoutContractError(f"{where}: expected the message's id, a str or an int; or set tracking = 'none'")
