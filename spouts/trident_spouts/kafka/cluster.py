"""Requests to a Kafka cluster about its topics and their offsets.

Their number is the same for any number of partitions.
"""

import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from trident.base.errors import SourceUnreadableError, TopologyError, TridentError
from trident.base.optional_packages import optional_package
from trident_spouts.kafka.offset_ranges import Epochs, Offsets, Topic
from trident_spouts.kafka.options import Option

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException

T = TypeVar("T")

_log = logging.getLogger("trident.spouts")

PATIENCE_SECS = 20.0
"""The seconds for which one call waits for a broker. A batch may wait longer, because it has `maxAttempts` attempts."""

_REQUEST_SECS = 5.0
_PAUSE_SECS = 0.1
_ABSENT = ("UNKNOWN_TOPIC_OR_PART", "TOPIC_EXCEPTION")
"""The errors for a topic that does not exist. The second one is for a name that no topic can have."""

_ABSENT_SECS = 2.0
"""The seconds for which a known topic must be missing. A broker that has just started may not know the topic yet."""

CHECK_LOGIN = "; check security.protocol, sasl.* and ssl.* in options"
_CHECK_RIGHTS = "; the user needs the right to describe and to read the topics"
LOGIN_REFUSALS = dict.fromkeys(("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL"), CHECK_LOGIN)
_REFUSALS = LOGIN_REFUSALS | {
    "TOPIC_AUTHORIZATION_FAILED": _CHECK_RIGHTS,
    "CLUSTER_AUTHORIZATION_FAILED": _CHECK_RIGHTS,
    "_INVALID_ARG": "",
    "_UNSUPPORTED_FEATURE": "",
    "UNSUPPORTED_VERSION": "",
}
"""The errors that are not temporary, by their names in librdkafka, each with advice for the user."""

_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id that a broker sends if it does not support topic ids."""


def kafka_client(owner: str = "KafkaSpout") -> Any:
    """Return the module confluent_kafka. Raises MissingPackageError if it is not installed."""
    optional_package("confluent_kafka.admin", "kafka", f"{owner} needs the package confluent-kafka in the driver")
    return sys.modules["confluent_kafka"]


class Cluster:
    """A connection to a Kafka cluster. Calls wait for brokers, for up to `patience` seconds (None: `PATIENCE_SECS`)."""

    refusals: Mapping[str, str] = _REFUSALS

    def __init__(
        self, config: Mapping[str, Option], isolation: str, owner: str = "KafkaSpout", patience: float | None = None
    ) -> None:
        self._owner, self._patience = owner, patience
        self._kafka = kafka_client(owner)
        self.servers = str(config["bootstrap.servers"])
        self._last_error: KafkaError | None = None
        self.epochs: Epochs = {}
        """The epoch of each partition's leader when the partition's end was last requested."""
        self._silent: set[str] = set()
        """The partitions that did not answer the last request. Each is logged once, as a warning."""
        self._config = {**config, "error_cb": self._heard}
        self._admin = self._connected()
        committed = isolation == "read_committed"
        levels = self._kafka.IsolationLevel
        self._isolation = levels.READ_COMMITTED if committed else levels.READ_UNCOMMITTED
        self._uncommitted = levels.READ_UNCOMMITTED

    def _connected(self) -> Any:
        try:
            return self._kafka.admin.AdminClient(self._config)
        except self._kafka.KafkaException as error:
            raise TopologyError(f"{self._owner}: options: {error.args[0].str()}") from None

    def _heard(self, error: "KafkaError") -> None:
        # That all brokers are down often follows the reason, for example a refused login, and must not replace it.
        if self._last_error is None or error.name() != "_ALL_BROKERS_DOWN":
            self._last_error = error

    # --- topics ----------------------------------------------------------------------------------------------------

    def matching(self, pattern: re.Pattern[str]) -> list[str]:
        """Return the names of the topics that match a pattern as a whole, without Kafka's internal topics."""
        listed = self._ask("list the topics", lambda secs: self._admin.list_topics(timeout=secs).topics)
        return sorted(name for name in listed if pattern.fullmatch(name) and not name.startswith("__"))

    def describe(self, names: Iterable[str]) -> dict[str, Topic]:
        """Return the topics of these names that exist."""
        names = list(names)
        if not names:
            return {}
        return self._ask("describe the topics", lambda secs: self._describe(names, secs))

    def describe_all(self, names: Iterable[str]) -> dict[str, Topic]:
        """Return the topics of these names. If a topic is missing, repeat the request for a while."""
        names = list(names)
        until = monotonic() + _ABSENT_SECS
        while True:
            topics = self.describe(names)
            if len(topics) == len(set(names)) or monotonic() >= until:
                return topics
            time.sleep(_PAUSE_SECS)

    def id(self) -> str | None:
        """Return the id of the cluster; None if the broker has none."""
        found = self._ask(
            "request the cluster's id", lambda secs: self._admin.describe_cluster(request_timeout=secs).result()
        )
        return found.cluster_id or None

    def compacts(self, topic: str) -> bool | None:
        """Return whether Kafka compacts a topic instead of only deleting its beginning; None if that is not known."""
        resource = self._kafka.admin.ConfigResource(self._kafka.admin.ResourceType.TOPIC, topic)
        try:
            config = self._admin.describe_configs([resource], request_timeout=_REQUEST_SECS)[resource].result()
        except self._kafka.KafkaException:  # this request needs a separate permission
            return None
        return "compact" in config["cleanup.policy"].value if "cleanup.policy" in config else None

    def _describe(self, names: list[str], secs: float) -> dict[str, Topic]:
        asked = self._admin.describe_topics(self._kafka.TopicCollection(names), request_timeout=secs)
        topics = {}
        for name, future in asked.items():
            try:
                described = future.result()
            except self._kafka.KafkaException as error:
                if error.args[0].name() in _ABSENT:
                    continue
                raise
            number = str(described.topic_id)
            topics[name] = Topic(None if number == _NO_ID else number, len(described.partitions))
        return topics

    # --- offsets ---------------------------------------------------------------------------------------------------

    def earliest(self, partitions: Iterable[tuple[str, int]], every: bool = False) -> Offsets:
        """Return the first offset that each partition still has.

        A partition without a leader is left out; with `every`, the call waits until there is a leader. The methods
        below treat `every` in the same way.
        """
        return self._offsets("the earliest", partitions, self._kafka.admin.OffsetSpec.earliest(), every)

    def ends(self, partitions: Iterable[tuple[str, int]], every: bool = False) -> Offsets:
        """Return the offset up to which each partition can be read.

        With read_committed that is the last stable offset: the first offset of the earliest open transaction.
        """
        return self._offsets("the latest", partitions, self._kafka.admin.OffsetSpec.latest(), every)

    def high_watermarks(self, partitions: Iterable[tuple[str, int]]) -> Offsets:
        """Return the offset after the last record of each partition, including records of open transactions."""
        latest = self._kafka.admin.OffsetSpec.latest()
        return self._offsets("the latest", partitions, latest, isolation=self._uncommitted)

    def at_time(self, partitions: Iterable[tuple[str, int]], milliseconds: int) -> Offsets:
        """Return the offset of each partition's first record at or after a time.

        If a partition has no such record, return its end.
        """
        partitions = list(partitions)
        # The ends come first: a record that arrives between the two requests is then found by its time, or is after the
        # end. In the other order, a partition could begin after that record.
        ends = self.ends(partitions, every=True)
        spec = self._kafka.admin.OffsetSpec.for_timestamp(milliseconds)
        offsets = self._offsets("at a time", partitions, spec, every=True)
        return {partition: ends[partition] if offset < 0 else offset for partition, offset in offsets.items()}

    def _offsets(
        self,
        which: str,
        partitions: Iterable[tuple[str, int]],
        spec: Any,
        every: bool = False,
        isolation: Any = None,
    ) -> Offsets:
        wanted = {self._kafka.TopicPartition(*partition): spec for partition in partitions}
        if not wanted:
            return {}
        level = self._isolation if isolation is None else isolation
        return self._ask(f"request offsets ({which})", lambda secs: self._list_offsets(wanted, level, every, secs))

    def _list_offsets(self, wanted: dict[Any, Any], isolation: Any, every: bool, secs: float) -> Offsets:
        asked = self._admin.list_offsets(wanted, isolation_level=isolation, request_timeout=secs)
        offsets: Offsets = {}
        silent: set[str] = set()
        latest = self._kafka.admin.OffsetSpec.latest()
        for (partition, spec), future in zip(wanted.items(), asked.values(), strict=True):
            try:
                answer = future.result()
                if answer.offset == self._kafka.OFFSET_INVALID:  # the client's answer after a change of the leader
                    fault = self._kafka.KafkaError
                    raise self._kafka.KafkaException(fault(fault.OFFSET_NOT_AVAILABLE))
                offsets[partition.topic, partition.partition] = answer.offset
                if spec is latest:
                    self.epochs[partition.topic, partition.partition] = answer.leader_epoch
            except self._kafka.KafkaException as error:
                if every or len(silent) + 1 == len(wanted):
                    raise self._reason(error, partition.topic) from None
                silent.add(f"{partition.topic}-{partition.partition} ({error.args[0].str()})")
        if silent - self._silent:
            shown = ", ".join(sorted(silent)[:3])
            _log.warning("KafkaSpout: %s partition(s) do not answer, and are read once they do: %s", len(silent), shown)
        self._silent = silent
        if silent:
            self._admin = self._connected()
        return offsets

    def _reason(self, error: "KafkaException", topic: str) -> "KafkaException":
        """Return why a request for the offsets of a topic failed.

        The client looks for the leaders of a topic that the user has no right to describe until the time is over.
        """
        if error.args[0].name() == "_TIMED_OUT":
            asked = self._admin.describe_topics(self._kafka.TopicCollection([topic]), request_timeout=1.0)[topic]
            try:
                asked.result()
            except self._kafka.KafkaException as refused:
                if self._refusal(refused.args[0]):
                    return refused  # type: ignore[no-any-return]
        return error

    # --- waiting ---------------------------------------------------------------------------------------------------

    def _ask(self, what: str, request: Callable[[float], T]) -> T:
        """Send a request, and repeat it while brokers are unavailable.

        Raises SourceUnreadableError if they stay unavailable.
        """
        until = monotonic() + (PATIENCE_SECS if self._patience is None else self._patience)
        self._last_error = None
        while True:
            try:
                return request(max(1.0, min(_REQUEST_SECS, until - monotonic())))
            except self._kafka.KafkaException as error:
                fault: KafkaError = error.args[0]
                self._admin.poll(0)  # calls `_heard`
                refusal = self._refusal(fault) or self._refusal(self._last_error)
                if refusal:
                    raise self.refused(what, refusal) from error
                if monotonic() >= until:
                    raise self.unreadable(what, (self._last_error or fault).str()) from error
            time.sleep(_PAUSE_SECS)
            # A client continues for minutes with the leaders that it knows, even if a restarted broker refuses their
            # former epoch. A new client requests the leaders.
            self._admin = self._connected()

    def _refusal(self, error: "KafkaError | None") -> str:
        """Return a text about a broker's refusal, with advice for the user; "" for an error that may be temporary."""
        name = "" if error is None else error.name()
        if error is None or name not in self.refusals:
            return ""
        return f"{error.str()}{self.refusals[name]}"

    def unreadable(self, what: str, why: str) -> TridentError:
        """Return the error for a cluster that does not answer."""
        return SourceUnreadableError(f"{self._owner}: cannot {what} at {self.servers}: {why}")

    def refused(self, what: str, why: str) -> TridentError:
        """Return the error for a cluster that refuses."""
        return self.unreadable(what, why)
