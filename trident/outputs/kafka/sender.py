"""A producer of Kafka that sends messages, and tells the first error of any of them."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from trident.outputs.kafka.faults import Faults
from trident.outputs.kafka.messages import Message
from trident_spouts.kafka.cluster import PATIENCE_SECS

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


_ABORT_SECS = 2.0


class Sender:
    """A producer for one output. After an error it is of no more use: whoever uses it opens another one.

    Raises OutputRefusedError or OutputUnavailableError, see `Faults`.
    """

    def __init__(self, kafka: Any, config: Mapping[str, Any], faults: Faults) -> None:
        self._kafka, self._faults = kafka, faults
        self._lost: KafkaError | None = None
        """The first error of a message that was not delivered."""
        told = {"error_cb": faults.hear, "on_delivery": self._delivered, "delivery.report.only.error": True}
        self._producer = kafka.Producer({**config, **told})

    def _delivered(self, error: "KafkaError | None", message: object) -> None:
        if self._lost is None:
            self._lost = error

    def call(self, what: str, method: str, *arguments: Any) -> None:
        """Call a method of the producer by its name."""
        try:
            getattr(self._producer, method)(*arguments)
        except self._kafka.KafkaException as error:
            raise self._faults.error(what, error.args[0]) from error

    def send(self, chunks: Iterable[list[Message]], prepare: Callable[[list[Message]], None]) -> None:
        """Send messages, and return when the brokers have them. `prepare` is called with each chunk before."""
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
            except BufferError:  # as many messages wait as librdkafka keeps
                self._wait(len(self._producer) // 2)
            except self._kafka.KafkaException as error:
                raise self._faults.error(f"send row {message.row} of the batch", error.args[0]) from error

    def _wait(self, most: int) -> None:
        """Wait until at most so many messages are left to deliver, for as long as there are fewer and fewer."""
        left, until = len(self._producer), monotonic() + PATIENCE_SECS
        self._serve(0, most)
        while len(self._producer) > most:
            self._serve(0.2, most)
            if len(self._producer) < left:
                left, until = len(self._producer), monotonic() + PATIENCE_SECS
            elif monotonic() > until:
                why = "no broker answers" if self._faults.heard is None else self._faults.heard.str()
                raise self._faults.unavailable("deliver the messages", why)

    def _serve(self, seconds: float, most: int) -> None:
        """Let the producer call back for some time; raise the first error that it tells."""
        try:
            # Unlike `poll`, `flush` sends messages at once that would wait for more.
            self._producer.flush(seconds) if most == 0 else self._producer.poll(seconds)
        except self._kafka.KafkaException as error:
            raise self._faults.error("deliver the messages", error.args[0]) from error
        if self._lost is not None:
            raise self._faults.error("deliver a message", self._lost)

    def drop(self, transactional: bool) -> None:
        """Forget the messages that are not delivered, and end an open transaction, if the brokers answer at once."""
        # If that fails, the next producer of the transactional.id ends the transaction, or Kafka after a time.
        with suppress(self._kafka.KafkaException):
            self._producer.abort_transaction(_ABORT_SECS) if transactional else self._producer.purge()
