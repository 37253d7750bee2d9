"""RichSpout: the base class of sources, such as queues, that acknowledge their messages one by one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from pyspark.sql.types import StructType

from trident.base.argument_checks import check_whole_number
from trident.base.durations import read_seconds
from trident.base.errors import TopologyError
from trident_spouts.awaited_rows import MayWait
from trident_spouts.executor import Metadata, SpoutKind
from trident_spouts.messages.collector import Collector
from trident_spouts.messages.seen_messages import MessageId, seen_in

Tracking: TypeAlias = Literal["tracked", "emission", "none"]


class RichSpout(MayWait, ABC):
    """A source of messages: ``nextTuple`` emits them, and later ``ack`` or ``fail`` is called for each.

    The library calls all methods on one thread, one at a time. It gathers messages into batches: it calls ``nextTuple``
    until a call emits nothing, or the batch has `maxRows` messages, `maxBytes` bytes, or took `maxSecs` seconds.

    The treatment of a message depends on `tracking`, which also decides the promise in ``explain()``:

    - ``"tracked"``: every message has a `messageId`. ``ack`` is called when every state and output has the message's
      batch. ``fail`` is called if the batch failed or exceeded its time limit; the source should deliver the message
      again, and a new batch is made of the messages that are then delivered. The log keeps the ids of a batch's
      messages with the batch. So a message that is delivered twice, because the driver or the queue died before the
      ack, is counted once: it is acknowledged and left out. The spout is opaque: exactly once with transactional and
      opaque states. The ids belong to one stream, so no other stream or topology may read the same queue.
    - ``"emission"``: a message is acknowledged at once, before its batch is computed. A batch that fails is computed
      again from memory. If the driver dies, the messages in flight are lost.
    - ``"none"``: messages have no ids, and ``ack`` and ``fail`` are not called.

    Attributes
    ----------
    outputFields : str, StructType or dict
        The fields with their types, ``"user long, word string"``. For several streams a dict of their names and fields,
        ``{"orders": "id long", "errors": "line string"}``; `TridentTopology.newStreams` begins them.
    tracking : "tracked", "emission" or "none"
    maxRows, maxBytes, maxSecs : int, int, float
        The limits of a batch. If one call of ``nextTuple`` emits more messages, the surplus waits in order for the next
        batches, and ``nextTuple`` is not called meanwhile. A message with tuples on several streams is never divided.
    maxOverflow : int
        The most messages that one call may emit; more are an error.
    maxPending : int or None
        ``nextTuple`` is not called while this many messages are neither acknowledged nor failed.
    remember : int
        The number of acknowledged ids that the log keeps, in addition to those with an open ``ack``. An ack may be lost
        on its way to the queue, which then delivers the message again. Give the most messages that the queue delivers
        without an ack (RabbitMQ's prefetch count). Each batch stores these ids.
    redeliverySecs : float or str
        How long after a start the spout recognises messages that an earlier run committed and perhaps did not
        acknowledge. Give at least twice the time after which the queue delivers a dead reader's message again (the
        visibility timeout); a message that comes later counts twice. Each batch stores the ids of the last batches of
        all runs within this time.

    Examples
    --------
    >>> class Orders(RichSpout):
    ...     outputFields = "word string"
    ...     def open(self):
    ...         self.waiting = {1: "dog", 2: "cat"}
    ...         self.out = {}
    ...     def nextTuple(self, collector):
    ...         if self.waiting:
    ...             id, word = self.waiting.popitem()
    ...             self.out[id] = word
    ...             collector.emit(word, messageId=id)
    ...     def ack(self, messageId):
    ...         del self.out[messageId]
    ...     def fail(self, messageId, reason):
    ...         self.waiting[messageId] = self.out.pop(messageId)

    Notes
    -----
    Meaning: Storm's ``IRichSpout``. There, a message id may be any object; here it is a str or an int that is the same
    at every delivery of the message, even to another process, because it distinguishes two deliveries of one message
    from two messages.
    """

    outputFields: str | StructType | Mapping[str, str | StructType]
    tracking: Tracking = "tracked"
    maxRows: int = 1000
    maxBytes: int = 8 << 20
    maxSecs: float = 0.1
    maxOverflow: int = 10_000
    maxPending: int | None = None
    remember: int = 1000
    redeliverySecs: float | str = "1 day"

    @property
    def kind(self) -> SpoutKind:
        """The kind of the spout, which follows from `tracking`."""
        return SpoutKind.OPAQUE if self.tracking == "tracked" else SpoutKind.NON_TRANSACTIONAL

    @staticmethod
    def position_by_part(position: Metadata) -> dict[str, Metadata]:
        """Return the number of batches that were read. Messages themselves have no position."""
        return {"batches": seen_in(position, "RichSpout").number}

    def open(self) -> None:  # noqa: B027  may be left out
        """Connect. Called once in each run, when the run first becomes active: usually at its start."""

    def activate(self) -> None:  # noqa: B027
        """Begin to take messages. Called after ``open``, and once whenever an inactive run becomes active again."""

    @abstractmethod
    def nextTuple(self, collector: Collector) -> None:
        """Emit the next message, or several, by ``collector.emit``; emit nothing if there is none now.

        Must not wait.
        """

    def ack(self, messageId: MessageId) -> None:  # noqa: B027
        """Acknowledge a message of this run that is in a committed batch.

        If this method raises, it is called again later, as long as the run lasts; so is ``fail``.
        """

    def fail(self, messageId: MessageId, reason: str) -> None:  # noqa: B027
        """Make the queue deliver a message again, because its batch failed."""

    def deactivate(self) -> None:  # noqa: B027
        """Stop taking messages, because the run becomes inactive or ends.

        ``ack`` and ``fail`` are still called for messages in flight.
        """

    def close(self) -> None:  # noqa: B027
        """Disconnect. Called once at the end of each run. Messages in flight are neither acknowledged nor failed."""


def check_limits(spout: Any) -> None:
    """Raise TopologyError for an invalid limit or an invalid value of `tracking`."""
    name = type(spout).__name__
    if not isinstance(spout, RichSpout):
        raise TopologyError(f"{name} has nextTuple but does not extend RichSpout; write class {name}(RichSpout)")
    if spout.tracking not in get_args(Tracking):
        raise TopologyError(f"{name}.tracking is {spout.tracking!r}: expected 'tracked', 'emission' or 'none'")
    for limit in ("maxRows", "maxBytes", "maxOverflow"):
        check_whole_number(f"{name}.{limit}", getattr(spout, limit))
    if spout.maxPending is not None:
        check_whole_number(f"{name}.maxPending", spout.maxPending)
    check_whole_number(f"{name}.remember", spout.remember, 0)
    read_seconds(f"{name}.maxSecs", spout.maxSecs)
    read_seconds(f"{name}.redeliverySecs", spout.redeliverySecs)
