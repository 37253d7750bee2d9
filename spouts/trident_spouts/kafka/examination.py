"""The checks of a Kafka cluster for `trident doctor`: reachable brokers, login, topics."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trident.base.errors import TridentError
from trident.base.finding import Finding
from trident.base.reachability import Endpoint, unreached
from trident_spouts.kafka.cluster import Cluster, kafka_client
from trident_spouts.kafka.options import Option, client_options

_PATIENCE_SECS = 4.0
_STOPS = "batches cannot be planned or written: each attempt waits 20 seconds, then the topology stops"


def examine_cluster(
    owner: str, servers: str, options: Mapping[str, Option], topics: Sequence[str] | re.Pattern[str]
) -> Iterator[Finding]:
    """Yield the faults of a cluster and of topics that must exist there. `servers` may be ``env:NAME``."""
    kafka_client(owner)
    try:
        config: dict[str, Any] = client_options(servers, options)
    except TridentError as error:
        yield Finding(f"{owner} at {servers}", str(error), _STOPS, "Set that variable or file, or correct the option")
        return
    about = f"{owner} at {config['bootstrap.servers']}"
    silent = [why for why in (unreached(*each) for each in endpoints(config["bootstrap.servers"])) if why]
    if len(silent) == len(endpoints(config["bootstrap.servers"])):
        todo = "Start the broker, or correct bootstrapServers; look at firewalls between this machine and the brokers"
        yield Finding(about, f"no broker answers: {'; '.join(silent)}", _STOPS, todo)
        return
    try:
        missing = _missing(Cluster(config, "read_committed", owner, _PATIENCE_SECS), topics)
    except TridentError as error:
        todo = "Correct options= (security.protocol, sasl.*, ssl.*) and the user's rights; if the first broker answers "
        todo += "but others do not, its advertised.listeners names addresses that this machine cannot reach"
        yield Finding(about, str(error), _STOPS, todo)
        return
    for name in missing:
        create = f"kafka-topics.sh --create --topic {name} --bootstrap-server ..."
        yield Finding(about, f"there is no topic {name!r}", _STOPS, f"Create it ({create}), or correct its name")


def endpoints(servers: str) -> list[Endpoint]:
    """Return host and port of each broker.

    >>> endpoints("one:9092, two")
    [('one', 9092), ('two', 9092)]
    """
    found = []
    for server in servers.split(","):
        host, _, port = server.strip().rpartition("://")[2].rpartition(":")
        found.append((host.strip("[]"), int(port)) if host and port.isdigit() else (server.strip(), 9092))
    return found


def _missing(cluster: Cluster, topics: Sequence[str] | re.Pattern[str]) -> list[str]:
    if isinstance(topics, re.Pattern):
        cluster.matching(topics)
        return []
    there = cluster.describe_all(topics)
    return [name for name in topics if name not in there]
