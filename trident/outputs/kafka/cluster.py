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
        self._check_coordinator(group, secs)
        asked = self._kafka.ConsumerGroupTopicPartitions(group, [self._kafka.TopicPartition(topic, 0)])
        futures = self._admin.list_consumer_group_offsets([asked], require_stable=stable, request_timeout=secs)
        (stored,) = futures[group].result().topic_partitions
        if stored.error is not None:
            raise self._kafka.KafkaException(stored.error)
        return None if stored.offset < 0 else (stored.offset, stored.metadata)

    def _check_coordinator(self, group: str, secs: float) -> None:
        """Raise KafkaException if the group's coordinator does not answer, for example because it has just moved.

        A request for offsets that a broker refuses for this reason ends the process: up to its version 2.16, librdkafka
        then uses the consumer group of its client, which an AdminClient does not have.
        """
        try:
            self._admin.describe_consumer_groups([group], request_timeout=secs)[group].result()
        except self._kafka.KafkaException as error:
            if error.args[0].name() != "GROUP_ID_NOT_FOUND":  # the coordinator answered: no batch was written yet
                raise

    def unreadable(self, what: str, why: str) -> OutputError:
        return self._errors.unavailable(what, why)

    def refused(self, what: str, why: str) -> OutputError:
        return self._errors.refused(what, why)
