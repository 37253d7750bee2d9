"""What the log is to know of each stream of a program: under which name it went on before, where it stands, and which
states it feeds.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count

from trident.base.errors import CodeChangedError, TopologyError
from trident.compiler.program import Group, Program
from trident.log.protocol import Birth, Members, StreamRecord
from trident.plan.nodes import LettersOf, Sink, SpoutSource, walk
from trident.recovery.settings import Settings
from trident.spouts.dead_letters import ReplaySpout
from trident_spouts.executor import Metadata


def continued_streams(program: Program, known: Members, settings: Settings) -> dict[str, str]:
    """Return the stream of the log that a stream goes on with under another name, for those that do.

    Raises CodeChangedError or TopologyError where it is not clear which stream goes on with which.
    """
    continued = _former_names(program, known, settings)
    _check_renames(program, known, continued, settings)
    return continued


def stream_records(
    groups: Sequence[Group],
    known: Members,
    births: Mapping[str, Birth],
    reached: Mapping[str, int],
    continued: Mapping[str, str],
    settings: Settings,
) -> tuple[dict[str, StreamRecord], tuple[str, ...]]:
    """Return what the log is to know of every stream, and what is allowed and may surprise. `reached`: the last frozen
    txid of each of the log's groups.

    Raises CodeChangedError where a stream cannot go on.
    """
    here = {step.state.name for group in groups for step in group.states}
    ours = {spout.stream for group in groups for spout in group.spouts}
    away = {name: stream for name, stream in known.streams.items() if name not in ours}
    streams = {
        name: replace(stream, active=False, feeds=(), parted=_left_states(stream, (), here, births))
        for name, stream in known.streams.items()
    }
    warnings = list[str]()
    for group in groups:
        fed = _fed_states(group)
        for spout in group.spouts:
            feeds, former = fed[spout.stream], continued.get(spout.stream)
            found = known.streams.get(former or spout.stream)
            streams[spout.stream] = _record(spout, found, group, feeds, here, births, settings)
            if former is not None:
                del streams[former]
            old = [state for state in feeds if state in births and reached[group.name] > births[state].txid]
            others = {name: stream for name, stream in away.items() if name != former}
            warnings += _warnings(spout, found, streams[spout.stream], former, old, others)
    return streams, tuple(warnings)


# --- which stream it is -------------------------------------------------------------------------------------------


def _former_names(program: Program, known: Members, settings: Settings) -> dict[str, str]:
    """Return the stream of the log that a stream goes on with under another name, for those that do.

    Once the log has a position under the stream's own name, `formerly` means nothing: it may stay in the code, and the
    former name may be another stream's by then.
    """
    former = dict[str, str]()
    spouts = [spout for group in program.groups for spout in group.spouts]
    for spout in spouts:
        if spout.formerly in {other.stream for other in spouts}:
            raise TopologyError(
                f"{spout.step} ({spout.site.place}): formerly={spout.formerly!r} is a stream of this topology too. If "
                f"that one is another stream, which took the name over, take formerly= out: it has done its work"
            )
        old = known.streams.get(spout.formerly or "")
        if spout.formerly is None or old is None:
            continue
        own = known.streams.get(spout.stream)
        if own is None or (own.position is None and not old.active):
            former[spout.stream] = spout.formerly
        elif not own.active and own.position != old.position:
            free = next(name for n in count(2) if (name := f"{spout.stream}{n}") not in known.streams)
            raise CodeChangedError(
                f"{spout.step} ({spout.site.place}): formerly={spout.formerly!r}, and the log {settings.log_at} knows "
                f"where {spout.formerly!r} stands and where an earlier stream {spout.stream!r} stood. To go on where "
                f"{spout.formerly!r} stands, take a name that the log does not know, such as "
                f"newStream({free!r}, ..., formerly={spout.formerly!r}); "
                f"to go on where {spout.stream!r} stood, take formerly= out. Nothing was written"
            )
    for name, old_name in former.items():
        twin = next((other for other in former if other != name and former[other] == old_name), None)
        if twin is not None:
            raise TopologyError(
                f"the streams {name!r} and {twin!r} both say formerly={old_name!r}, and only one of them can go on "
                f"where that one stood: take it out of the other"
            )
    return former


def _check_renames(program: Program, known: Members, former: Mapping[str, str], settings: Settings) -> None:
    """Refuse a start in which streams disappear while others appear, where nobody says which is which."""
    groups = {spout.stream: group for group in program.groups for spout in group.spouts}
    spouts = [spout for group in program.groups for spout in group.spouts]
    here = {*groups, *former.values()}
    gone = sorted(name for name, stream in known.streams.items() if _may_be_renamed(stream) and name not in here)
    new = [s for s in spouts if s.stream not in known.streams and s.stream not in former and not s.anew]
    if not gone or not new:
        return
    ways = []
    for spout in new:
        group = groups[spout.stream]
        likely = sorted(gone, key=lambda name: (*_shared(known, name, spout, group), name))
        others = f" (or {' or '.join(map(repr, likely[1:]))}, whichever it was)" if likely[1:] else ""
        ways.append(f"newStream({spout.stream!r}, ..., formerly={likely[0]!r}){others}")
    raise CodeChangedError(
        f"the log {settings.log_at} knows where the streams {listed(gone)} stand, and this topology has no such "
        f"stream, but {listed([spout.stream for spout in new])}, which the log does not know. For one that was only "
        f"renamed say what it was, so that it goes on there: {'; '.join(ways)}. Under a wrong name it goes on at the "
        f"wrong place. For one that is new say newStream({new[0].stream!r}, ..., anew=True), so that it begins at its "
        f"source's start. Nothing was written"
    )


def _shared(known: Members, name: str, spout: SpoutSource, group: Group) -> tuple[int, int, int]:
    """Return how little a stream of the log has in common with one that may be the same under a new name: states that
    it feeds, outputs of its group, the kind of source. The least comes first."""
    old = known.streams[name]
    feeds = {*(old.feeds or ()), *old.parted}.intersection(_fed_states(group)[spout.stream])
    outputs = [output for output in sinks_of(group) if known.outputs.get(output) == old.group]
    return -len(feeds), -len(outputs), int(old.source != source_of(spout))


def _may_be_renamed(stream: StreamRecord) -> bool:
    """Return whether a stream that is gone may go on under another name. Dead letters come back under a name that
    follows from their stream's."""
    return stream.active and stream.source != ReplaySpout.__qualname__


def _record(
    spout: SpoutSource,
    found: StreamRecord | None,
    group: Group,
    feeds: tuple[str, ...],
    here: Collection[str],
    births: Mapping[str, Birth],
    settings: Settings,
) -> StreamRecord:
    """Return what the log is to know of a stream: where it stands, if the same source goes on under it.

    The kind of a source counts from the first batch that was frozen of it: a mistaken start, which found that it cannot
    go on there, takes the position from nobody.
    """
    source = source_of(spout)
    if found is None:
        return StreamRecord(group.name, None, source, feeds=feeds)
    used = found.source != "" and found.position != found.began
    if spout.anew and not (used and found.source == source):
        return StreamRecord(group.name, None, source, feeds=feeds)
    if used and found.source != source:
        raise CodeChangedError(
            f"{spout.step} ({spout.site.place}): the log knows where a {found.source} stands under the name "
            f"{spout.stream!r}, and the source is now a {source}, which cannot go on there. Put the former source "
            f"back; or say newStream({spout.stream!r}, ..., anew=True), so that it begins at its start (states and "
            f"outputs stay as they are). Nothing was written"
        )
    began = found.began if found.source == source else found.position
    parted = _left_states(found, feeds, here, births)
    _check_missed(spout.stream, found, feeds, group, births, settings)
    return StreamRecord(group.name, found.position, source, began=began, feeds=feeds, parted=parted)


def source_of(spout: SpoutSource) -> str:
    """Return the kind of a stream's source: what its positions mean, which a spout may tell as `sourceName`."""
    given = getattr(spout.spout, "spout", spout.spout)  # a user's own object, under the engine's protocol
    return str(getattr(given, "sourceName", type(given).__qualname__))


# --- what a state has of a stream -----------------------------------------------------------------------------------


def _fed_states(group: Group) -> dict[str, tuple[str, ...]]:
    """Return the states that the tuples of each stream enter. Dead letters count for nothing: while nothing keeps them,
    there are none."""
    letters = {id(node) for node in walk(*group.states) if isinstance(node, LettersOf)}
    below = {step.state.name: walk(step, starts=letters) for step in group.states}
    return {
        spout.stream: tuple(sorted(state for state, nodes in below.items() if any(node is spout for node in nodes)))
        for spout in group.spouts
    }


def _left_states(
    stream: StreamRecord, feeds: Collection[str], here: Collection[str], births: Mapping[str, Birth]
) -> dict[str, Metadata]:
    """Return the states that a stream fed and feeds no longer, with where it stood at the end of that. Of a log that
    does not know what it fed (of version 0.1.0): those of its group that the program lacks.

    The state's txid does not tell what it lacks: the stream may be in another group meanwhile, and come back.
    """
    fed = stream.feeds
    if fed is None:
        fed = tuple(state for state, birth in births.items() if birth.group == stream.group and state not in here)
    parted = {**dict.fromkeys(fed, stream.position), **stream.parted}
    return {state: position for state, position in parted.items() if state in births and state not in feeds}


def _check_missed(
    name: str,
    stream: StreamRecord,
    feeds: Collection[str],
    group: Group,
    births: Mapping[str, Birth],
    settings: Settings,
) -> None:
    """Refuse that a stream comes back to a state after it went on without it."""
    parted = {state: at for state, at in stream.parted.items() if state in births and state in feeds}
    missed = [state for state, position in parted.items() if position != stream.position]
    if missed:
        raise CodeChangedError(
            f"stream {name!r} fed {listed(missed)} in an earlier program, and went on since in programs in which it "
            f"did not: what it brought meanwhile would be missing there. Leave {name!r} out of these states, as in the "
            f"program that ran last; or let them begin anew from the next batch, with "
            f"{drops_of(group, missed, settings)}; or give them other names (name=). Nothing was written"
        )


def _warnings(
    spout: SpoutSource,
    found: StreamRecord | None,
    record: StreamRecord,
    former: str | None,
    old: Sequence[str],
    away: Mapping[str, StreamRecord],
) -> list[str]:
    """Return what is allowed and may surprise. `former`: the name under which it stood in the log, where that was
    another one. `old`: the states that the stream feeds and that have batches. `away`: the other streams of the log
    that the program lacks."""
    if record.source == ReplaySpout.__qualname__:
        return []
    if found is not None and spout.anew and record.position is not None:
        return [
            f"newStream({spout.stream!r}, ..., anew=True) has no effect: the log knows this stream, and it goes on "
            f"where it stood. Take anew=True out: after the next renaming, it would let the source be read again from "
            f"its start"
        ]
    if found is not None and (former is None or _may_have_fed(found, old, record.group)):
        return []
    likely = [name for name, stream in away.items() if _may_have_fed(stream, old, record.group)]
    if not likely:
        return []
    begins = "is new to the log and begins at its source's start" if former is None else f"goes on as {former!r}"
    return [
        f"stream {spout.stream!r} {begins}. It feeds {listed(old)}, as {listed(likely)} did, which this topology "
        f"lacks. If it is that stream under another name, tuples are counted twice or left out: stop it before its "
        f"first batch, and say newStream({spout.stream!r}, ..., formerly={min(likely)!r})"
    ]


def _may_have_fed(stream: StreamRecord, states: Collection[str], group: str) -> bool:
    """Return whether the stream's tuples went into one of these states of a group."""
    if stream.feeds is None:
        return bool(states) and stream.group == group
    return not {*stream.feeds, *stream.parted}.isdisjoint(states)


# --- words --------------------------------------------------------------------------------------------------------


def listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def drops_of(group: Group, states: Sequence[str], settings: Settings) -> str:
    """Return the calls that let these states of a group begin anew."""
    steps = {step.state.name: step.state.factory for step in group.states}
    return " and ".join(settings.drop(name, steps[name].survives) for name in sorted(states))


def sinks_of(group: Group) -> list[str]:
    return [output.step.name for output in group.sinks if isinstance(output.step, Sink)]
