"""The positions of streams, by the parts of their sources, and the last batch that they include."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trident import spouts as public_spouts
from trident.log.protocol import LogReading
from trident.spouts.dead_letters import ReplaySpout
from trident_spouts.executor import Metadata
from trident_spouts.positions import position_by_part

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamPosition:
    """The position of a stream after batch `frozen` of its batch group, from which the next batch continues.

    `committed` is the last committed txid of the group. Batches between `committed` and `frozen` are in the log and are
    committed next: the position includes their tuples, the states do not yet. `position` names how far each part of the
    source was read, in the terms of the source; it is empty before the first batch.
    """

    topology: str
    stream: str
    batchGroup: str
    committed: int
    frozen: int
    position: Mapping[str, Metadata]

    def asDict(self) -> dict[str, Any]:
        """Return the fields of this object as a dict."""
        return asdict(self)


def stream_position(
    topology: str, stream: str, group: str, committed: int, frozen: int, spout: object, position: Metadata
) -> StreamPosition:
    """Return the position of a stream. If the spout fails to describe it, log that, and return it as the log has it."""
    try:
        parts = position_by_part(spout, position)
    except Exception:
        logger.warning("the spout of stream %r failed in position_by_part()", stream, exc_info=True)
        parts = position_by_part(None, position)
    # A batch that was committed since the caller read `frozen` is part of a later position.
    return StreamPosition(topology, stream, group, min(committed, frozen), frozen, parts)


def positions_in(log: LogReading, topology: str, spouts: Mapping[str, object]) -> list[StreamPosition]:
    """Return the positions of the streams of the last program that was started on a log, in order of their names.

    `spouts` are the program's spouts by stream. Without them, the kind of the spout in the log chooses the spout of the
    library that describes the position.
    """
    streams = {name: record for name, record in log.members().streams.items() if record.active}
    histories = {}
    for group in {record.group for record in streams.values()}:
        history = log.history(group)
        while (again := log.history(group)).last_frozen != history.last_frozen:  # its positions may be of either batch
            history = again
        histories[group] = history
    return [
        stream_position(
            topology,
            name,
            record.group,
            histories[record.group].committed,
            histories[record.group].last_frozen,
            spouts.get(name, getattr(public_spouts, record.source, None)),
            histories[record.group].positions.get(name),
        )
        for name, record in sorted(streams.items())
        if record.source != ReplaySpout.__qualname__
    ]
