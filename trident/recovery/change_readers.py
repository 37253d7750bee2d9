"""States and outputs that are fed by the changes of a state: they need its rows from the first one on.

A change retracts the previous row. If a state has rows whose insertion a reader never received, the reader would
retract rows that it does not have.
"""

from collections.abc import Collection, Iterator, Mapping

from trident.base.errors import CodeChangedError
from trident.compiler.program import Group, Program
from trident.configuration.settings import Settings
from trident.log.group_records import History
from trident.log.protocol import Birth, LogReading, OutputProgress
from trident.plan.change_order import changed_states
from trident.plan.nodes import Node, Sink, StateWriter, sources_of
from trident.plan.sinks import sink_traits
from trident.recovery.changed_steps import states_behind


def check_readers(program: Program, births: Mapping[str, Birth], log: LogReading, settings: Settings) -> None:
    """Raise CodeChangedError if a state is fed by the changes of a state that began before or after it.

    If the later one has initial content (`Birth.filled`), the content replaces the changes before its birth. An older
    state lacks no changes of a new state that did not feed it before.
    """
    behind = states_behind(log)
    for group in program.groups:
        for reader in group.states:
            for name in _changed(reader, births):
                own, other = births[reader.state.name], births[name]
                if has_more(other, own):
                    raise _newer(reader, name, other, settings)
                if has_more(own, other) and name in behind.get(reader.state.name, {name}):
                    raise _older(reader, name, settings)


def has_more(one: Birth, other: Birth) -> bool:
    """Return whether a state has rows that another state, which is connected with it, began without.

    In a fork states that existed and new states have the same txid. In that case the content distinguishes them.
    """
    if other.filled:
        return False
    return one.txid < other.txid or (one.txid == other.txid and bool(one.filled) and not other.founded)


def late_outputs(
    program: Program,
    births: Mapping[str, Birth],
    histories: Mapping[str, History],
    known: Mapping[str, OutputProgress],
) -> Iterator[str]:
    """Yield a warning for each output whose rows are not those of the state whose changes it receives.

    A new output lacks the rows of an older state. If a state was dropped after an output received its rows, the output
    keeps these rows. `known` has the progress of former outputs.
    """
    for group in program.groups:
        for sink in _keepers(group):
            place = sink_traits(sink).place(sink)
            for name in _changed(sink, births):
                birth, progress = births[name], known.get(sink.name)
                if progress is None and (birth.filled or birth.txid < histories[group.name].last_frozen):
                    yield (
                        f"output {sink.name!r} is new, and takes the changes of state {name!r}, which has rows since "
                        f"txid {birth.txid}: unless the rows are there already, {place} gets each of them only when it "
                        f"changes. To have all of them there, stop the topology, write an export of the state there, "
                        f"and start this program again"
                    )
                if progress is not None and 0 < progress.last <= birth.txid and not birth.filled:
                    yield (
                        f"output {sink.name!r} has rows up to txid {progress.last}, and state {name!r}, whose changes "
                        f"it takes, begins empty after txid {birth.txid}: the older rows stay in {place} until they "
                        f"come again, because a state that was dropped gives no deletions. Delete them there, or give "
                        f"the output another place and another name="
                    )


def outdated_outputs(
    program: Program, births: Mapping[str, Birth], changing: Collection[str], known: Mapping[str, OutputProgress]
) -> Iterator[str]:
    """Yield a warning for each output that keeps rows of a state whose values this start changes (`changing`).

    The values change without a change of a row.
    """
    for sink in [sink for group in program.groups for sink in _keepers(group)]:
        for name in _changed(sink, births):
            if name in changing and sink.name in known:
                place = sink_traits(sink).place(sink)
                yield (
                    f"output {sink.name!r} has rows of state {name!r}, whose values get another shape (evolve=), which "
                    f"is no change of a row: {place} has each row in its former shape until it changes. To have all "
                    f"of them there in the new shape, stop the topology after its first batch, write an export of the "
                    f"state there, and start this program again"
                )


def _keepers(group: Group) -> list[Sink]:
    """Return the outputs of a group whose locations hold the rows of a table."""
    sinks = [output.step for output in group.sinks if isinstance(output.step, Sink)]
    return [sink for sink in sinks if sink_traits(sink).keeps_rows(sink)]


def _changed(step: Node, births: Mapping[str, Birth]) -> list[str]:
    """Return the names of this topology's states whose changes feed a step."""
    states = (state.state.name for source in sources_of(step) for state in changed_states(source))
    return [name for name in dict.fromkeys(states) if name in births]


def _newer(reader: StateWriter, name: str, other: Birth, settings: Settings) -> CodeChangedError:
    new = reader.state.name
    return CodeChangedError(
        f"{reader.step} ({reader.site.location}): state {new!r} is new, and is built on the changes of state {name!r}, "
        f"which has rows since txid {other.txid}. Their next changes would retract rows that {new!r} never received. "
        f"Give {new!r} its present values with initialState=, computed from an export of {name!r}; or "
        f"{settings.way_out}. Nothing was written"
    )


def _older(reader: StateWriter, name: str, settings: Settings) -> CodeChangedError:
    kept = reader.state.name
    return CodeChangedError(
        f"{reader.step} ({reader.site.location}): state {name!r} was dropped and begins empty, and a drop emits no "
        f"deletions, so state {kept!r}, which is built on its changes, would keep the dropped rows. Drop {kept!r}, "
        f"too: {settings.drop(kept, reader.state.factory.survives)}. Nothing was written"
    )
