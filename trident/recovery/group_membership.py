"""Which of the log's groups each batch group of a program goes on with, and where each of its streams stands.

Positions belong to streams. A group of the log is a sequence of txids: the states of a batch group tell which one it
goes on with, and where it has none, its streams and outputs. Everything is decided here and, for the streams, in
`stream_records`, before anything is written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trident.base.errors import CodeChangedError
from trident.compiler.program import Group, Program
from trident.log.protocol import Birth, Members, TransactionLog
from trident.recovery.settings import Settings
from trident.recovery.stream_records import continued_streams, drops_of, listed, sinks_of, stream_records


@dataclass(frozen=True, slots=True)
class Membership:
    """A program whose groups have the names that they have in the log, and what the log is to know of it."""

    program: Program
    members: Members
    changed: bool
    """True where the log does not hold this yet."""
    warnings: tuple[str, ...] = ()
    """What whoever starts it should know."""


def join_log(program: Program, log: TransactionLog, settings: Settings) -> Membership:
    """Find each group's place in the log.

    Raises CodeChangedError where streams, states and outputs met or parted in a way that txids cannot follow, where a
    state would lack what a stream brought meanwhile, and where it is not clear whether a stream is another one under a
    new name.
    """
    known = log.members()
    births = {name: birth for name, birth in log.births().items() if birth.founded}
    reached = {name: log.history(name).last_frozen for name in log.groups()}
    continued = continued_streams(program, known, settings)
    names = _names(program, known, births, reached, continued, settings)
    groups = tuple(replace(group, name=names[group.name]) for group in program.groups)
    founded = {
        names[group.name]: _first_txid(group, known, reached, continued)
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
    continued: Mapping[str, str],
    settings: Settings,
) -> dict[str, str]:
    """Return the log's group for each group of the program, or a new name."""
    found: dict[str, str] = {}
    for group in program.groups:
        if (home := _home_of_states(group, births, settings)) is not None:
            other = next((name for name, taken in found.items() if taken == home), None)
            if other is not None:
                raise _parted(home, group, next(g for g in program.groups if g.name == other), births, settings)
            found[group.name] = home
    for group in program.groups:
        if group.name in found:
            continue
        free = [
            name for name in _former_groups(group, known, continued) if name in reached and name not in found.values()
        ]
        taken = {*reached, *found.values()}
        found[group.name] = max(free, key=lambda name: (reached[name], name)) if free else _new_name(group.name, taken)
    return found


def _home_of_states(group: Group, births: Mapping[str, Birth], settings: Settings) -> str | None:
    """Return the group of the log that wrote these states; None where the log knows none of them."""
    homes: dict[str, list[str]] = {}
    for step in group.states:
        if step.state.name in births:
            homes.setdefault(births[step.state.name].group, []).append(step.state.name)
    if len(homes) > 1:
        first, second, *_ = sorted(homes, key=lambda home: -len(homes[home]))
        raise CodeChangedError(
            f"merge, join or a query now connects streams whose states were written apart: "
            f"{listed(homes[first])} by the batch group {first!r}, {listed(homes[second])} by {second!r}, and their "
            f"txids are not the same ones. Leave these streams apart; or let the states of one side begin anew, with "
            f"{drops_of(group, homes[second], settings)}; or give these other names (name=)"
        )
    return next(iter(homes), None)


def _parted(home: str, group: Group, other: Group, births: Mapping[str, Birth], settings: Settings) -> CodeChangedError:
    sides = sorted((group, other), key=lambda side: len(_written(side, home, births)))
    few, many = (_written(side, home, births) for side in sides)
    return CodeChangedError(
        f"the states {listed(many)} and {listed(few)} were written by one batch group, {home!r}, and nothing connects "
        f"their streams any more: they cannot both go on with its txids. Leave them connected; or let one side begin "
        f"anew, with {drops_of(sides[0], few, settings)}; or give these other names (name=)"
    )


def _written(group: Group, home: str, births: Mapping[str, Birth]) -> list[str]:
    names = [step.state.name for step in group.states]
    return [name for name in names if name in births and births[name].group == home]


def _former_groups(group: Group, known: Members, continued: Mapping[str, str]) -> list[str]:
    """Return the groups of the log that had streams or outputs of this one."""
    streams = [continued.get(spout.stream, spout.stream) for spout in group.spouts]
    had = [known.streams[name].group for name in streams if name in known.streams]
    return [*had, *(known.outputs[name] for name in sinks_of(group) if name in known.outputs)]


def _first_txid(group: Group, known: Members, reached: Mapping[str, int], continued: Mapping[str, str]) -> int:
    """Return the txid that the first batch of a new group follows: no output may see one twice."""
    return max((reached.get(name, 0) for name in _former_groups(group, known, continued)), default=0)


def _check_output(name: str, group: Group, known: Members, reached: Mapping[str, int]) -> None:
    """Refuse to hand txids to an output that it had before from another group."""
    former = known.outputs.get(name, group.name)
    if reached.get(former, 0) > reached[group.name]:
        raise CodeChangedError(
            f"output {name!r} had batches up to txid {reached[former]} of the batch group {former!r}; it is now in "
            f"group {group.name!r}, which stands at txid {reached[group.name]}: it would see txids again, with other "
            f"tuples. Give it another name= (then it is another output), or leave its stream apart"
        )


def _new_name(wanted: str, taken: set[str]) -> str:
    """Return the name, or one that no group has."""
    names = [wanted, *(f"{wanted}~{number}" for number in range(2, len(taken) + 2))]
    return next(name for name in names if name not in taken)
