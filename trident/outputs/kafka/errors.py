"""The meaning of Kafka's errors for an output: whether another attempt may succeed, and advice if it cannot."""

from typing import TYPE_CHECKING

from trident.base.errors import OutputError, OutputRefusedError, OutputUnavailableError
from trident_spouts.kafka.cluster import LOGIN_REFUSALS

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_RIGHTS = (
    "; the user needs the right to write to the topic, and for guarantee='exactly-once' also to read it, to write and "
    "describe the transactional.id, and to read the group"
)
_NO_TRANSACTIONS = (
    "; if these brokers have no transactions, use guarantee='at-least-once': a batch may then be written twice "
    "after a crash"
)
_TOO_LARGE = (
    "; raise message.max.bytes in options, and max.message.bytes of the topic (message.max.bytes of the brokers), or "
    "write smaller messages"
)
REFUSALS = LOGIN_REFUSALS | {
    "MSG_SIZE_TOO_LARGE": _TOO_LARGE,
    "RECORD_LIST_TOO_LARGE": _TOO_LARGE,
    "INVALID_RECORD": "; every message in a compacted topic needs a key",
    "TOPIC_AUTHORIZATION_FAILED": _RIGHTS,
    "GROUP_AUTHORIZATION_FAILED": _RIGHTS,
    "CLUSTER_AUTHORIZATION_FAILED": _RIGHTS,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": _RIGHTS,
    "INVALID_TRANSACTION_TIMEOUT": "; lower transaction.timeout.ms in options, to at most the "
    "transaction.max.timeout.ms of the brokers",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": _NO_TRANSACTIONS,
    "UNSUPPORTED_VERSION": _NO_TRANSACTIONS,
    "_UNSUPPORTED_FEATURE": _NO_TRANSACTIONS,
    "_INVALID_ARG": "",
}
"""The errors that are not temporary, by their names in librdkafka, each with advice."""

_FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")


class OutputErrors:
    """Creates the errors of an output. `step` is the output's label, `servers` are its brokers."""

    def __init__(self, step: str, servers: str) -> None:
        self._step, self._servers = step, servers
        self.heard: KafkaError | None = None
        """The last error that a client reported outside its calls. It may explain a call that timed out."""

    def hear(self, error: "KafkaError") -> None:
        """Record an error that a client reports between calls. It may explain the next call that fails."""
        self.heard = error

    def error(self, what: str, fault: "KafkaError") -> OutputError:
        """Return the error for a request that failed."""
        for each in (fault, self.heard):
            if each is not None and each.name() in REFUSALS:
                return self.refused(what, f"{each.str()}{REFUSALS[each.name()]}")
        if fault.name() in _FENCED:
            return self.unavailable(what, f"{fault.str()} (another producer uses its transactional.id)")
        return self.unavailable(what, fault.str() if self.heard is None else f"{fault.str()}; {self.heard.str()}")

    def refused(self, what: str, why: str) -> OutputRefusedError:
        """Return the error for a request that would fail again if it were repeated."""
        return OutputRefusedError(f"{self._step}: cannot {what} at {self._servers}: {why}")

    def unavailable(self, what: str, why: str) -> OutputUnavailableError:
        """Return the error for a request that may succeed if it is repeated."""
        return OutputUnavailableError(f"{self._step}: cannot {what} at {self._servers}: {why}")
