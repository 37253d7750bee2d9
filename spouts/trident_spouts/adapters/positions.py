"""What the partitioned executors share: the positions in the metadata, and the list of partitions."""

from typing import Any

from trident.base.errors import SpoutContractError
from trident_spouts.executor import Emission, Metadata
from trident_spouts.usercode import call

Positions = dict[str, Metadata]
"""Where each partition stands that was ever seen: those that are away or emit nothing keep their place."""


def positions_in(metadata: Metadata, name: str) -> Positions:
    """The positions that a batch's metadata carries."""
    if metadata is None:
        return {}
    if not isinstance(metadata, dict) or not isinstance(metadata.get("positions"), dict):
        raise SpoutContractError(
            f"{name}: the log's metadata is none of its own ({metadata!r}); was it another spout before?"
        )
    return dict(metadata["positions"])


def partitions_of(spout: Any, name: str) -> list[str]:
    """The partitions there are now; refuses names that are no text or come twice."""
    partitions = list(call(spout, "getPartitions"))
    for at, partition in enumerate(partitions):
        if not isinstance(partition, str):
            raise SpoutContractError(f"{name}.getPartitions() gave {partition!r}; a partition's name is a str")
        if partition in partitions[:at]:
            raise SpoutContractError(f"{name}.getPartitions() gave {partition!r} twice")
    return partitions


def has_rows(emission: Emission | None) -> bool:
    """Whether there may be rows: by reference, that is not known."""
    return emission is not None and emission.rows != 0
