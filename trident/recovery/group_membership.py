"""Match the batch groups of a program to the groups of the log, and refuse groups that cannot continue.

A group of the log is a sequence of txids. The states of a batch group decide which of these sequences it continues,
since their markers are txids of that sequence. A batch group without known states continues the group that its streams
or outputs had. Positions belong to streams (`stream_records`). All decisions come before the first write.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from trident.base.errors import CodeChangedError
from trident.compiler.program import Group, Program
from trident.configuration.settings import Settings
from trident.log.protocol import Birth, Members, TransactionLog
from trident.plan.nodes import StateQuery
from trident.recovery.stream_records import continued_streams, drops_of, listed, sinks_of, stream_records


@dataclass(frozen=True, slots=True)
class Membership:
    """A program with the names of the log's groups, and the members that the log must record."""

    program: Program
    members: Members
    changed: bool
    """True if the members differ from those that the log records."""
    warnings: tuple[str, ...] = ()
    """Warnings for the user that concern the streams."""


def join_log(program: Program, log: TransactionLog, settings: Settings) -> Membership:
    """Match each group of the program to a group of the log.

    Raises CodeChangedError if streams, states and outputs were connected or separated in a way that txids cannot
    follow; if a state would lack tuples that a stream has emitted meanwhile; and if a stream may be an earlier stream
    under a new name.
    """
    known = log.members()
    births = {name: birth for name, birth in log.births().items() if birth.founded}
    histories = {name: log.history(name) for name in log.groups()}
    reached = {name: history.last_frozen for name, history in histories.items()}
    waiting = {name for name, history in histories.items() if history.frozen}
    continued = continued_streams(program, known, settings)
    names = _names(program, known, births, reached, waiting, continued, settings)
    groups = tuple(replace(group, name=names[group.name]) for group in program.groups)
    founded = {
        names[group.name]: _txid_before_first(group, known, reached, continued)
        for group in program.groups
        if names[group.name] not in reached
    }
    streams, warnings = stream_records(groups, known, births, reached, continued, settings)
    outputs = dict(known.outputs)
    for group in groups:
        for name in sinks_of(group):
            _check_output(name, group, known, reached | founded)
            outputs[name] = group.name
    members = Members(streams, outputs, founded)
    changed = bool(founded) or members != replace(known, founded={})
    return Membership(replace(program, groups=groups), members, changed, warnings)


# --- groups -------------------------------------------------------------------------------------------------------


def _names(
    program: Program,
    known: Members,
    births: Mapping[str, Birth],
    reached: Mapping[str, int],
    waiting: Set[str],
    continued: Mapping[str, str],
    settings: Settings,
) -> dict[str, str]:
    """Return for each group of the program the name of the log's group that it continues, or a new name."""
    names: dict[str, str] = {}
    for group in program.groups:  # groups with states first: they have no choice of names
        if (log_group := _group_of_states(group, births, settings)) is not None:
            other = next((name for name, taken in names.items() if taken == log_group), None)
            if other is not None:
                twin = next(g for g in program.groups if g.name == other)
                raise _separated_states(log_group, group, twin, births, settings)
            names[group.name] = log_group
    for group in program.groups:
        if group.name in names:
            continue
        free = [
            name for name in _former_groups(group, known, continued) if name in reached and name not in names.values()
        ]
        taken = {*reached, *names.values()}
        # Among groups at one txid, the one with batches that wait for their commit: only its program can commit them.
        last = max(free, key=lambda name: (reached[name], name in waiting, name), default=None)
        names[group.name] = _new_name(group.name, taken) if last is None else last
    return names


def _group_of_states(group: Group, births: Mapping[str, Birth], settings: Settings) -> str | None:
    """Return the log's group of the drivers that wrote these states; None if the states are not in the log.

    Raises CodeChangedError if several groups wrote them.
    """
    states: dict[str, list[str]] = {}
    for node in group.states:
        if node.state.name in births:
            states.setdefault(births[node.state.name].group, []).append(node.state.name)
    if len(states) > 1:
        first, second, *_ = sorted(states, key=lambda log_group: -len(states[log_group]))
        raise CodeChangedError(
            f"merge, join or a query now connects streams of two batch groups: {first!r} wrote "
            f"{listed(states[first])}, {second!r} wrote {listed(states[second])}, and equal txids of the two groups "
            f"are different batches. Keep these streams separate{_apart(group)}; or drop the states of one side, which "
            f"then start empty, with {drops_of(group, states[second], settings)}; or give these states other names "
            f"(name=)"
        )
    return next(iter(states), None)


def _apart(group: Group) -> str:
    """Return advice for a message: how the group's query can read its state without connecting streams.

    Return "" if the group has no query.
    """
    query = next((node for node in group.links if isinstance(node, StateQuery)), None)
    if query is None:
        return ""
    return (
        f": with asOf='committed', {query.step} ({query.site.location}) reads state {query.updated.state.name!r} "
        f"without connecting its stream"
    )


def _separated_states(
    log_group: str, group: Group, other: Group, births: Mapping[str, Birth], settings: Settings
) -> CodeChangedError:
    sides = sorted((group, other), key=lambda side: len(_written(side, log_group, births)))
    few, many = (_written(side, log_group, births) for side in sides)
    return CodeChangedError(
        f"the states {listed(many)} and {listed(few)} were written by one batch group, {log_group!r}, but their "
        f"streams are no longer connected, and only one side can continue with its txids. Keep the streams connected; "
        f"or drop the states of one side, which then start empty, with {drops_of(sides[0], few, settings)}; or give "
        f"these states other names (name=)"
    )


def _written(group: Group, log_group: str, births: Mapping[str, Birth]) -> list[str]:
    names = [node.state.name for node in group.states]
    return [name for name in names if name in births and births[name].group == log_group]


def _former_groups(group: Group, known: Members, continued: Mapping[str, str]) -> list[str]:
    """Return the groups of the log that had streams or outputs of this batch group."""
    streams = [continued.get(spout.stream, spout.stream) for spout in group.spouts]
    of_streams = [known.streams[name].group for name in streams if name in known.streams]
    return [*of_streams, *(known.outputs[name] for name in sinks_of(group) if name in known.outputs)]


def _txid_before_first(group: Group, known: Members, reached: Mapping[str, int], continued: Mapping[str, str]) -> int:
    """Return the last txid of the earlier groups of these streams and outputs; 0 if there are no such groups.

    The new group begins after that txid, because no output may get the same txid twice.
    """
    return max((reached.get(name, 0) for name in _former_groups(group, known, continued)), default=0)


def _check_output(name: str, group: Group, known: Members, reached: Mapping[str, int]) -> None:
    """Raise CodeChangedError if an output would receive txids again that another group has already passed to it."""
    former = known.outputs.get(name, group.name)
    if reached.get(former, 0) > reached[group.name]:
        raise CodeChangedError(
            f"output {name!r} had batches up to txid {reached[former]} of the batch group {former!r}; it is now in "
            f"group {group.name!r}, which is at txid {reached[group.name]}: it would get the same txids again, with "
            f"other tuples. Give it another name= (it is then a new output), or keep its stream separate{_apart(group)}"
        )


def _new_name(wanted: str, taken: set[str]) -> str:
    """Return the wanted name if no group has it, otherwise a variant that no group has."""
    names = [wanted, *(f"{wanted}~{number}" for number in range(2, len(taken) + 2))]
    return next(name for name in names if name not in taken)
