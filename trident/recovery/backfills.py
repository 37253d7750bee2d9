"""New states that begin with the earlier tuples of their streams: which states, and up to which positions.

Such a state is created after the last frozen batch, with initial content, like a state with an InitialState. A separate
run over these tuples computes the content (`trident.run.backfill`), up to the positions of the streams at that batch.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import pyarrow as pa

from trident.base.errors import CodeChangedError, TopologyError
from trident.compiler.program import Program
from trident.configuration.settings import Settings
from trident.log.group_records import History, Positions
from trident.log.protocol import Birth, Members, TransactionLog
from trident.plan.nodes import Node, SpoutSource, StateSpec, StateWriter, TableChanges, asked_by, sources_of, walk
from trident.recovery.program_compatibility import match_waiting_batches

Pending = Mapping[str, Positions]
"""The states that begin with earlier tuples, each with the positions of its streams up to which it receives them."""

Fill = Callable[[Pending], Mapping[str, pa.Table]]
"""Returns the content of each state: its key fields, then ``value``. Called while this driver holds the log."""


def no_fill(pending: Pending) -> Mapping[str, pa.Table]:
    """Refuse to fill states. A start gives another function if its program has a state with ``backfill=True``."""
    raise AssertionError(f"nothing fills the states {', '.join(pending)}")


def pending_backfills(program: Program, members: Members, log: TransactionLog) -> dict[str, Positions]:
    """Return the new states with ``backfill=True`` in groups that have had a batch, with their streams' positions.

    If none of its streams has had a batch, a state gets initial content too, without rows. So the log distinguishes it
    from a state that began without its streams' earlier tuples.
    """
    pending, known, new = dict[str, Positions](), {*log.groups()}, new_backfills(program, log)
    for group in program.groups:
        began = log.history(group.name).last_frozen if group.name in known else members.founded.get(group.name, 0)
        for node in group.states if began else ():
            if node.state.name in new:
                streams = [above.stream for above in all_above(node) if isinstance(above, SpoutSource)]
                pending[node.state.name] = {stream: members.streams[stream].position for stream in streams}
    return pending


def new_backfills(program: Program, log: TransactionLog) -> set[str]:
    """Return the new states with ``backfill=True``, also those of groups that have had no batch."""
    wanted, births = {node.state.name for node in writers_of(program) if node.state.backfill}, log.births()
    return {name for name in wanted if name not in births or not births[name].founded}


def unused_beginning(state: StateSpec, birth: Birth | None) -> str | None:
    """Return the option that says how a state begins, if the state has already begun otherwise; None if it has not."""
    if birth is None or not birth.founded or birth.filled:
        return None
    if state.initial is not None:
        return "initialState="
    return "backfill=True" if state.backfill and birth.txid else None


def check_backfills(program: Program, pending: Pending) -> None:
    """Raise TopologyError if a step would receive only the later tuples of a state that begins with earlier ones."""
    filled = {name for name, at in pending.items() if any(position is not None for position in at.values())}
    for node in writers_of(program):
        if node.state.name in pending:
            _check_built_on_new(node, pending)
        else:
            _check_no_changes(node, f"{node.step} ({node.site.location})", filled)
    for sink in (output.step for group in program.groups for output in group.sinks):
        _check_no_changes(sink, f"output {sink.step} ({sink.site.location})", filled)


def _check_built_on_new(node: StateWriter, pending: Pending) -> None:
    for above in all_above(node):
        if isinstance(above, StateWriter) and above.state.name not in pending:
            raise TopologyError(
                f"{node.step} ({node.site.location}): state {node.state.name!r} has backfill=True and is built on "
                f"state {above.state.name!r}, which exists already, so its earlier values are gone. Give both states "
                "new names, so that they begin together; or remove backfill=True. Nothing was written"
            )


def _check_no_changes(end: Node, shown: str, filled: Collection[str]) -> None:
    tables = [table for above in all_above(end) if isinstance(above, TableChanges) for table in above.tables]
    begun = next((table.state.name for table in tables if table.state.name in filled), None)
    if begun is not None:
        raise TopologyError(
            f"{shown} is built on the changes of state {begun!r}, which begins with the rows of earlier batches "
            f"(backfill=True), and the changes that added these rows are not emitted again. Give a state that is built "
            f"on them backfill=True, too; add an output at a later start, and begin it with the rows of the state. "
            f"Nothing was written"
        )


def check_beside(
    program: Program, histories: Mapping[str, History], log: TransactionLog, births: Mapping[str, Birth], at: Settings
) -> None:
    """Raise CodeChangedError if a driver is running whose unfinished batches this program could not commit.

    A running driver nearly always has such a batch, and a start that has taken the log would find out too late.
    """
    if log.holder() is None:
        return
    last = {
        name: replace(history, frozen=(history.last_frozen,))
        for name, history in histories.items()
        if history.last_frozen and log.batch(name, history.last_frozen) is not None
    }
    try:
        match_waiting_batches(program, {**histories, **last}, log, births, at)
    except CodeChangedError as error:
        raise CodeChangedError(
            f"a driver of this topology is running or was killed, and this program could not commit the batches that "
            f"driver has in flight. Stop that driver first, so that it commits them (if it was killed, start the "
            f"previous program once, and stop it); then start this program. The difference: "
            f"{str(error).partition('another program froze it: ')[2].partition('. Nothing was written')[0]}. Nothing "
            f"was written"
        ) from error


def all_above(node: Node) -> list[Node]:
    """Return all nodes that a node's tuples and answers come from, also through states, and the node itself."""
    found, waiting = dict[int, Node](), [node]
    while waiting:
        for above in walk(waiting.pop()):
            if id(above) not in found:
                found[id(above)] = above
                waiting += [*sources_of(above), *asked_by(above)]
                waiting += above.tables if isinstance(above, TableChanges) else ()
    return list(found.values())


def writers_of(program: Program) -> list[StateWriter]:
    """Return the steps of a program that write states."""
    return [node for group in program.groups for node in group.states]
