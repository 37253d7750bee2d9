"""Dead letters of a running topology, put back into the stream that they fell out of."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.plan.nodes import Node, SpoutSource
from trident.reads.state_view import StateView
from trident.spouts.dead_letters import Letter, Look, ReplaySpout

Where = Callable[[Mapping[str, Any]], bool]


def replay_spout(stream: str, nodes: Iterable[Node]) -> ReplaySpout:
    """Return the spout through which letters come back into this stream. Raises TopologyError where there is none."""
    spouts = [(node.stream, node.spout) for node in nodes if isinstance(node, SpoutSource)]
    replays = {name.removesuffix(".again"): spout for name, spout in spouts if isinstance(spout, ReplaySpout)}
    if stream not in replays:
        way_out = (
            f"they come back into {', '.join(sorted(replays))}"
            if replays
            else "write stream.replayable() where they do"
        )
        raise TopologyError(f"no dead letters come back into {stream!r}{did_you_mean(stream, replays)}; {way_out}")
    return replays[stream]


def letter_finder(view: StateView, committed: Callable[[], int], stream: str, where: Where | None) -> Look:
    """Return the function that finds the dead letters of a stream that the user wants back.

    Its first call, in the user's thread, chooses letters by `where`. Later calls return those of the chosen letters
    that are still in the state. They call no user code, since an error of that would fail a batch. `committed`
    returns the last committed txid of the group that writes the letters' state.
    """
    chosen: set[str] | None = None

    def find() -> tuple[int, list[Letter]]:
        nonlocal chosen
        before = committed()
        table = view.toArrow()  # latest values (non-transactional) hold at least batch `before`
        as_of = int((table.schema.metadata or {}).get(b"asOfTxid", before))
        letters: list[Letter] = []
        for row in sorted(table.to_pylist(), key=lambda row: str(row["id"])):
            letter = {"id": row["id"], **row[table.column_names[-1]]}
            wanted = where is None or where(letter) if chosen is None else letter["id"] in chosen
            if letter["stream"] == stream and wanted:
                letters.append((letter["id"], letter["tuple"]))
        chosen = {id for id, _ in letters} if chosen is None else chosen
        return as_of, letters

    return find
