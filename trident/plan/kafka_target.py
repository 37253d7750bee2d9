"""The target of a Kafka output: the topic, and the fields that make up a message."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from trident.base.finding import Finding, Now
from trident_spouts.kafka.examination import examine_cluster
from trident_spouts.kafka.options import Option

KafkaGuarantee = Literal["exactly-once", "at-least-once"]


@dataclass(frozen=True, slots=True, eq=False)
class KafkaTarget:
    """A topic of a cluster, and the fields of the tuples that become key, value, headers and topic of a message.

    Tuples without a topic in the field `topic_field` go to `topic`.
    """

    servers: str
    topic: str
    key: str | None
    value: str
    headers: str | None
    topic_field: str | None
    guarantee: KafkaGuarantee
    options: Mapping[str, Option] = field(repr=False)
    """The options of the clients, as users wrote them. They may hold a password, so no `repr` shows them."""
    changes: bool = False
    """True if tuples are changes: the topic gets only the last one of each key in a batch."""
    consolidated: bool = False
    """True if they are changes of a state; see `trident.plan.change_order`."""

    def examine(self, now: Now = time.time) -> Iterator[Finding]:
        """Yield the faults of the cluster that `trident doctor` reports. A topic may be made by the brokers."""
        yield from examine_cluster(f"the output to topic {self.topic!r}", self.servers, self.options, ())
