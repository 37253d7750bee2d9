"""The function listPositions: how far the streams of a topology have read their sources, according to its log."""

import contextlib
from pathlib import Path

from trident.access.locations import read_location
from trident.base.errors import TopologyError
from trident.log import RedisLog
from trident.plan.nodes import SpoutSource, walk
from trident.plan.topology_protocol import TopologyPlan
from trident.reads.stream_positions import StreamPosition, positions_in


def listPositions(
    checkpointLocation: str | Path | None = None,
    *,
    topology: str | None = None,
    log: RedisLog | None = None,
    program: TopologyPlan | None = None,
) -> list[StreamPosition]:
    """List how far each stream has read its source, of all topologies in a checkpoint or of one.

    The topologies may run, or be stopped. Nothing is written, and no source is asked.

    Parameters
    ----------
    checkpointLocation
        The folder that `start` got as its ``checkpointLocation``.
    topology
        List only this topology's streams. Required with `log`, and with `program`.
    log
        The `RedisLog` that `start` got.
    program
        The TridentTopology that is started elsewhere. Spouts that you wrote describe their positions with it; without
        it, such a position is listed as the spout made it.

    Raises
    ------
    LogError
        If there is no such log, or it cannot be read.
    TopologyError
        If the arguments name no log, or `log` or `program` comes without `topology`.

    Examples
    --------
    >>> import tempfile
    >>> from trident import TridentTopology, listPositions
    >>> from trident.spouts import FixedBatchSpout
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"], ["dog"]]))
    >>> _ = words.foreachArrow(lambda table, txid, attempt: None, name="out")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with topology.start(engine="embedded", name="wc", checkpointLocation=folder) as running:
    ...         running.processAllAvailable()
    ...     (at,) = listPositions(folder)
    >>> at.stream, at.committed, at.position
    ('words', 2, {'batches': 2})
    """
    if checkpointLocation is None and log is None:
        raise TopologyError("give the location of the log: checkpointLocation=, or log= for a log in Redis")
    location = read_location(checkpointLocation, log, None, "trident")
    if topology is None and (log is not None or program is not None):
        given = "a log in Redis" if log is not None else "a program"
        raise TopologyError(f"{given} belongs to one topology: give topology= too")
    nodes = walk(*program.sinks) if program is not None else ()
    spouts = {node.stream: node.spout for node in nodes if isinstance(node, SpoutSource)}
    listed: list[StreamPosition] = []
    for name in [topology] if topology is not None else location.topologies():
        with contextlib.closing(location.open_log_to_read(name)) as reading, reading.at_once():
            listed += positions_in(reading, name, spouts)
    return listed
