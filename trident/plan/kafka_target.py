"""The target of a Kafka output: the topic, and the fields that make up a message."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
