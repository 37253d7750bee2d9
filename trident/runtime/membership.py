"""Which of the log's groups each batch group of a program goes on with, and where each of its streams stands.

Positions belong to streams. A group of the log is a sequence of txids: the states of a batch group tell which one it
goes on with, and where it has none, its streams and outputs. Everything is decided here, before anything is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trident.base.errors import CodeChangedError, TopologyError
from trident.compiler.program import Group, Program
from trident.operations.replays import ReplaySpout
from trident.plan.nodes import Sink, SpoutSource
from trident.runtime.log import Birth, Members, StreamRecord, TransactionLog
from trident.runtime.settings import Settings


@dataclass(frozen=True, slots=True)
class Membership:
    """A program whose groups have the names that they have in the log, and what the log is to know of it."""

    program: Program
    members: Members
    changed: bool
    """True where the log does not hold this yet."""


def join_log(program: Program, log: TransactionLog, settings: Settings) -> Membership:
    """Find each group's place in the log.

    Raises CodeChangedError where streams, states and outputs met or parted in a way that txids cannot follow, and where
    it is not clear whether a stream is another one under a new name.
    """
    known = log.members()
    births = {name: birth for name, birth in log.births().items() if birth.founded}
    reached = {name: log.history(name).last_frozen for name in log.groups()}
    _check_renames(program, known, settings)
    names = _names(program, known, births, reached, settings)
    groups = tuple(replace(group, name=names[group.name]) for group in program.groups)
    founded = {
        names[group.name]: _first_txid(group, known, reached)
        for group in program.groups
        if names[group.name] not in reached
    }
    streams = {name: replace(stream, active=False) for name, stream in known.streams.items()}
    outputs = dict(known.outputs)
    for group in groups:
        for spout in group.spouts:
            streams[spout.stream] = _record(spout, group, known)
            if spout.formerly is not None:
                streams.pop(spout.formerly, None)
        for name in _sinks(group):
            _check_output(name, group, known, reached | founded)
            outputs[name] = group.name
    members = Members(streams, outputs, founded)
    return Membership(replace(program, groups=groups), members, bool(founded) or members != replace(known, founded={}))


# --- groups -------------------------------------------------------------------------------------------------------


def _names(
    program: Program,
    known: Members,
    births: Mapping[str, Birth],
    reached: Mapping[str, int],
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
        free = [name for name in _former_groups(group, known) if name in reached and name not in found.values()]
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
            f"{_list(homes[first])} by the batch group {first!r}, {_list(homes[second])} by {second!r}, and their "
            f"txids are not the same ones. Leave these streams apart; or let the states of one side begin anew, with "
            f"{_drops(group, homes[second], settings)}; or give these other names (name=)"
        )
    return next(iter(homes), None)


def _parted(home: str, group: Group, other: Group, births: Mapping[str, Birth], settings: Settings) -> CodeChangedError:
    sides = sorted((group, other), key=lambda side: len(_written(side, home, births)))
    few, many = (_written(side, home, births) for side in sides)
    return CodeChangedError(
        f"the states {_list(many)} and {_list(few)} were written by one batch group, {home!r}, and nothing connects "
        f"their streams any more: they cannot both go on with its txids. Leave them connected; or let one side begin "
        f"anew, with {_drops(sides[0], few, settings)}; or give these other names (name=)"
    )


def _written(group: Group, home: str, births: Mapping[str, Birth]) -> list[str]:
    names = [step.state.name for step in group.states]
    return [name for name in names if name in births and births[name].group == home]


def _former_groups(group: Group, known: Members) -> list[str]:
    """Return the groups of the log that had streams or outputs of this one."""
    streams = [spout.formerly or spout.stream for spout in group.spouts]
    had = [known.streams[name].group for name in streams if name in known.streams]
    return [*had, *(known.outputs[name] for name in _sinks(group) if name in known.outputs)]


def _first_txid(group: Group, known: Members, reached: Mapping[str, int]) -> int:
    """Return the txid that the first batch of a new group follows: no output may see one twice."""
    return max((reached.get(name, 0) for name in _former_groups(group, known)), default=0)


def _new_name(wanted: str, taken: set[str]) -> str:
    """Return the name, or one that no stream has."""
    names = [wanted, *(f"{wanted}~{number}" for number in range(2, len(taken) + 2))]
    return next(name for name in names if name not in taken)


def _check_output(name: str, group: Group, known: Members, reached: Mapping[str, int]) -> None:
    """Refuse to hand txids to an output that it had before from another group."""
    former = known.outputs.get(name, group.name)
    if reached.get(former, 0) > reached[group.name]:
        raise CodeChangedError(
            f"output {name!r} had batches up to txid {reached[former]} of the batch group {former!r}; it is now in "
            f"group {group.name!r}, which stands at txid {reached[group.name]}: it would see txids again, with other "
            f"tuples. Give it another name= (then it is another output), or leave its stream apart"
        )


def _sinks(group: Group) -> list[str]:
    return [output.step.name for output in group.sinks if isinstance(output.step, Sink)]


# --- streams ------------------------------------------------------------------------------------------------------


def _check_renames(program: Program, known: Members, settings: Settings) -> None:
    """Refuse a start in which streams disappear while others appear, where nobody says which is which."""
    spouts = [spout for group in program.groups for spout in group.spouts]
    for spout in spouts:
        if spout.formerly in {other.stream for other in spouts}:
            raise TopologyError(
                f"{spout.step} ({spout.site.place}): formerly={spout.formerly!r} is a stream of this topology too"
            )
    here = {name for spout in spouts for name in (spout.stream, spout.formerly)}
    gone = sorted(name for name, stream in known.streams.items() if _may_be_renamed(stream) and name not in here)
    new = [s for s in spouts if s.stream not in known.streams and s.formerly not in known.streams and not s.anew]
    if gone and new:
        raise CodeChangedError(
            f"the log {settings.log_at} knows where the streams {_list(gone)} stand, and this topology has no such "
            f"stream, but {_list([spout.stream for spout in new])}, which the log does not know. For one that was only "
            f"renamed say newStream({new[0].stream!r}, ..., formerly={gone[0]!r}), so that it goes on there; for one "
            f"that is new say newStream({new[0].stream!r}, ..., anew=True), so that it begins at its source's start. "
            f"Nothing was written"
        )


def _may_be_renamed(stream: StreamRecord) -> bool:
    """Return whether a stream that is gone may go on under another name. Dead letters come back under a name that
    follows from their stream's."""
    return stream.active and stream.source != ReplaySpout.__qualname__


def _record(spout: SpoutSource, group: Group, known: Members) -> StreamRecord:
    """Return what the log is to know of a stream: where it stands, if the same source goes on under it."""
    source = source_of(spout)
    found = known.streams.get(spout.stream)
    if found is None and spout.formerly is not None:
        found = known.streams.get(spout.formerly)
    if found is None:
        return StreamRecord(group.name, None, source)
    if found.source in ("", source):
        return StreamRecord(group.name, found.position, source)
    if spout.anew:
        return StreamRecord(group.name, None, source)
    raise CodeChangedError(
        f"{spout.step} ({spout.site.place}): the log knows where a {found.source} stands under the name "
        f"{spout.stream!r}, and the source is now a {source}, which cannot go on there. Put the former source back; or "
        f"say newStream({spout.stream!r}, ..., anew=True), so that it begins at its start (states and outputs stay as "
        f"they are). Nothing was written"
    )


def source_of(spout: SpoutSource) -> str:
    """Return the kind of a stream's source: what its positions mean, which a spout may tell as `sourceName`."""
    given = getattr(spout.spout, "spout", spout.spout)  # a user's own object, under the engine's protocol
    return str(getattr(given, "sourceName", type(given).__qualname__))


# --- words --------------------------------------------------------------------------------------------------------


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def _drops(group: Group, states: Sequence[str], settings: Settings) -> str:
    """Return the calls that let these states of a group begin anew."""
    steps = {step.state.name: step.state.factory for step in group.states}
    return " and ".join(settings.drop(name, steps[name].survives) for name in sorted(states))
