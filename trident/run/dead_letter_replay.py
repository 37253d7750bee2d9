"""The replay of dead letters: their tuples enter again the stream of the running topology from which they came."""

from collections.abc import Callable, Iterable

from pyspark.errors import PySparkException
from pyspark.sql import Row

from trident.base.callsite import site_of
from trident.base.errors import TopologyError, UserFunctionError
from trident.base.names import brief, did_you_mean
from trident.plan.nodes import Node, SpoutSource
from trident.reads.state_view import StateView
from trident.spouts.dead_letters import Letter, Look, ReplaySpout

Where = Callable[[Row], bool]
"""A function that decides whether to replay a letter, which it gets as a Row of the letter's fields."""


def replay_spout(stream: str, nodes: Iterable[Node]) -> ReplaySpout:
    """Return the spout through which letters return into this stream.

    Raises TopologyError if the stream has no such spout.
    """
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
    """Return the function that finds the dead letters of a stream that `where` selects.

    Its first call, in the user's thread, chooses letters by `where`. Later calls return those of the chosen letters
    that are still in the state. They call no user code, since an error of that would fail a batch. `committed`
    returns the last committed txid of the group that writes the letters' state. Raises TopologyError if `where` is no
    function, and the returned function UserFunctionError if `where` raises.
    """
    if where is not None and not callable(where):
        problem = f"replayDeadLetters: where={brief(where)}: expected a function of a letter"
        raise TopologyError(f"{problem}, such as lambda letter: letter.error == 'ValueError'")
    chosen: set[str] | None = None

    def find() -> tuple[int, list[Letter]]:
        nonlocal chosen
        before = committed()
        table = view.toArrow()  # latest values (non-transactional) hold at least batch `before`
        as_of = int((table.schema.metadata or {}).get(b"asOfTxid", before))
        letters: list[Letter] = []
        for row in sorted(table.to_pylist(), key=lambda row: str(row["id"])):
            letter = Row(id=row["id"], **row[table.column_names[-1]])
            wanted = where is None or _wanted(letter, where) if chosen is None else letter.id in chosen
            if letter.stream == stream and wanted:
                letters.append((letter.id, letter.tuple))
        chosen = {id for id, _ in letters} if chosen is None else chosen
        return as_of, letters

    return find


def _wanted(letter: Row, where: Where) -> bool:
    try:
        return bool(where(letter))
    except Exception as error:
        # A Row raises errors of PySpark for a field that it has not.
        unknown = isinstance(error, AttributeError | LookupError | PySparkException)
        fields = f"a letter has the fields {', '.join(letter.__fields__)}; " if unknown else ""
        raise UserFunctionError(
            f"replayDeadLetters: where raised {type(error).__name__}: {error}; {fields}the letter was {brief(letter)} "
            f"[{site_of(where)}]"
        ) from error
