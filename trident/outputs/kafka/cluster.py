"""Requests of an output to a Kafka cluster: the existing topics, and the committed offset of the output's group."""

from collections.abc import Mapping
from typing import Any

from trident.base.errors import OutputError
from trident.outputs.kafka.errors import REFUSALS, OutputErrors
from trident_spouts.kafka.cluster import Cluster


class OutputCluster(Cluster):
    """A connection whose errors are OutputErrors. `owner` is the output's label."""

    refusals = REFUSALS

    def __init__(self, config: Mapping[str, Any], errors: OutputErrors, owner: str) -> None:
        super().__init__(config, "read_committed", owner)
        self._errors = errors

    def committed(self, group: str, topic: str, stable: bool) -> tuple[int, str | None] | None:
        """Return the offset that a group committed for partition 0 of a topic, and its metadata; None if there is none.

        If `stable`, wait until no transaction is open that may replace it.
        """
        return self._ask("read the record of the last batch", lambda secs: self._committed(group, topic, stable, secs))

    def _committed(self, group: str, topic: str, stable: bool, secs: float) -> tuple[int, str | None] | None:
        asked = self._kafka.ConsumerGroupTopicPartitions(group, [self._kafka.TopicPartition(topic, 0)])
        futures = self._admin.list_consumer_group_offsets([asked], require_stable=stable, request_timeout=secs)
        (stored,) = futures[group].result().topic_partitions
        if stored.error is not None:
            raise self._kafka.KafkaException(stored.error)
        return None if stored.offset < 0 else (stored.offset, stored.metadata)

    def unreadable(self, what: str, why: str) -> OutputError:
        return self._errors.unavailable(what, why)

    def refused(self, what: str, why: str) -> OutputError:
        return self._errors.refused(what, why)
