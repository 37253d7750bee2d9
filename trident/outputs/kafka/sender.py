"""A producer of Kafka that sends messages and raises the first error of any message."""

import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from trident.outputs.kafka.errors import OutputErrors
from trident.outputs.kafka.messages import Message
from trident_spouts.kafka.cluster import PATIENCE_SECS

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


_ABORT_SECS = 2.0
_REBOOTSTRAPS = 0x020B0000
"""The first version of librdkafka that forgets all brokers if none answers. A transaction may then wait for a forgotten
broker (its issue 5511). Here that behaviour is off, and a new producer begins with the configured brokers."""


class Sender:
    """A producer for one output. After an error it must not be used again: create a new producer.

    Raises OutputRefusedError or OutputUnavailableError, see `OutputErrors`.
    """

    def __init__(self, kafka: Any, config: Mapping[str, Any], errors: OutputErrors) -> None:
        self._kafka, self._errors = kafka, errors
        self._lost: KafkaError | None = None
        """The first error of a message that was not delivered."""
        self._until = 0.0
        self.renew()
        if kafka.libversion()[1] >= _REBOOTSTRAPS:
            config = {"metadata.recovery.strategy": "none", **config}
        told = {"error_cb": errors.hear, "on_delivery": self._delivered, "delivery.report.only.error": True}
        self._producer = kafka.Producer({**config, **told})

    def _delivered(self, error: "KafkaError | None", message: object) -> None:
        if self._lost is None:
            self._lost = error

    def renew(self) -> None:
        """Restart the time limit: the next calls together may wait `PATIENCE_SECS` for brokers that do not answer."""
        self._until = monotonic() + PATIENCE_SECS

    def call(self, what: str, method: str, *arguments: Any) -> None:
        """Call a method of the producer by name.

        All methods but `begin_transaction` also get the seconds that are left.
        """
        seconds = max(1.0, self._until - monotonic())
        called = partial(getattr(self._producer, method), *arguments)
        try:
            if method == "begin_transaction":
                called()
            elif method == "send_offsets_to_transaction":
                self._call_beside(what, partial(called, seconds), seconds)
            else:
                called(seconds)
        except self._kafka.KafkaException as error:
            raise self._errors.error(what, error.args[0]) from error

    def _call_beside(self, what: str, call: Callable[[], None], seconds: float) -> None:
        """Make a call in a separate thread. If it does not end in time, abandon the thread.

        After an outage of a broker, librdkafka may wait for ever for a former connection to it, regardless of the
        timeout (its issue 5456). A new producer does not.
        """
        ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

        def run() -> None:
            try:
                call()
                ended.put(None)
            except BaseException as error:
                ended.put(error)

        threading.Thread(target=run, name="trident-kafka", daemon=True).start()
        try:
            error = ended.get(timeout=seconds + 1)
        except queue.Empty:
            raise self._errors.unavailable(
                what, "a call of the Kafka client does not return; the client is abandoned"
            ) from None
        if error is not None:
            raise error

    def send(self, chunks: Iterable[list[Message]], prepare: Callable[[list[Message]], None]) -> None:
        """Send messages, and return when the brokers have them.

        `prepare` is called with each chunk before it is sent.
        """
        for chunk in chunks:
            prepare(chunk)
            for message in chunk:
                self._send(message)
            self._wait(len(self._producer))
        self._wait(0)

    def _send(self, message: Message) -> None:
        while True:
            try:
                self._producer.produce(message.topic, message.value, message.key, headers=message.headers)
                return
            except BufferError:  # librdkafka's queue is full
                self._wait(len(self._producer) // 2)
            except self._kafka.KafkaException as error:
                raise self._errors.error(f"send row {message.row} of the batch", error.args[0]) from error

    def _wait(self, most: int) -> None:
        """Wait until at most `most` messages are undelivered, as long as their number keeps decreasing."""
        left = len(self._producer)
        self._serve(0, most)
        while len(self._producer) > most:
            self._serve(0.2, most)
            if len(self._producer) < left:
                left = len(self._producer)
                self.renew()
            elif monotonic() > self._until:
                why = "no broker answers" if self._errors.heard is None else self._errors.heard.str()
                raise self._errors.unavailable("deliver the messages", why)

    def _serve(self, seconds: float, most: int) -> None:
        """Let the producer run callbacks for some seconds. Raise the first error that it reports."""
        try:
            # `flush` sends at once the messages that would wait for more messages; `poll` does not.
            self._producer.flush(seconds) if most == 0 else self._producer.poll(seconds)
        except self._kafka.KafkaException as error:
            raise self._errors.error("deliver the messages", error.args[0]) from error
        if self._lost is not None:
            raise self._errors.error("deliver a message", self._lost)

    def drop(self, transactional: bool) -> None:
        """Drop the undelivered messages, and end an open transaction if the brokers answer at once."""
        # If that fails, the next producer of the transactional.id ends the transaction, or Kafka ends it after a time.
        with suppress(self._kafka.KafkaException):
            self._producer.abort_transaction(_ABORT_SECS) if transactional else self._producer.purge()
