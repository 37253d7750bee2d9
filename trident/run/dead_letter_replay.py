"""Dead letters of a running topology, put back into the stream that they fell out of."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.plan.nodes import Node, SpoutSource
from trident.reads.state_view import StateView
from trident.spouts.dead_letters import Letter, Look, ReplaySpout

Where = Callable[[Mapping[str, Any]], bool]


def place_of(stream: str, nodes: Iterable[Node]) -> ReplaySpout:
    """Where letters come back into this stream."""
    spouts = [node for node in nodes if isinstance(node, SpoutSource)]
    places = {node.stream.removesuffix(".again"): node.spout for node in spouts if isinstance(node.spout, ReplaySpout)}
    found = places.get(stream)
    if found is None:
        there = (
            f"they come back into {', '.join(sorted(places))}" if places else "write stream.replayable() where they do"
        )
        raise TopologyError(f"no dead letters come back into {stream!r}{did_you_mean(stream, places)}; {there}")
    assert isinstance(found, ReplaySpout)
    return found


def looking(view: StateView, committed: Callable[[], int], stream: str, where: Where | None) -> Look:
    """Looks for the letters of a stream that the user wants back. The first look, in the user's thread, chooses them;
    later ones tell which of these are still there, and call no code of the user's: it must not fail a batch.
    `committed` gives the last committed txid of the letters' state."""
    chosen: set[str] | None = None

    def look() -> tuple[int, list[Letter]]:
        nonlocal chosen
        before = committed()
        table = view.toArrow()  # the latest values of a non-transactional state hold what was committed before
        as_of = int((table.schema.metadata or {}).get(b"asOfTxid", before))
        found: list[Letter] = []
        for row in sorted(table.to_pylist(), key=lambda row: str(row["id"])):
            letter = {"id": row["id"], **row[table.column_names[-1]]}
            wanted = where is None or where(letter) if chosen is None else letter["id"] in chosen
            if letter["stream"] == stream and wanted:
                found.append((letter["id"], letter["tuple"]))
        chosen = {id for id, _ in found} if chosen is None else chosen
        return as_of, found

    return look
