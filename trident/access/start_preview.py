"""The effect of a start on stored states, determined without a start: no lease is taken, nothing is written."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from trident.access.locations import read_location
from trident.base.errors import StateShapeError, TopologyError
from trident.compiler.program import Program
from trident.compiler.states.former_shapes import former_shape
from trident.log import RedisLog
from trident.log.protocol import Birth, LogReading, Members
from trident.log.snapshot_home import NoHome
from trident.plan.nodes import SpoutSource, StateWriter
from trident.recovery.backfills import all_above, unused_beginning
from trident.recovery.state_compatibility import changed_parts
from trident.recovery.state_evolution import declared_former
from trident_spouts.rereadable_sources import RereadableSpout
from trident_state.fingerprint import shown_shapes
from trident_state.memory.segments import read_manifest
from trident_state.state_shape import StateIdentity, StateShape

_EMPTY = "begins empty"


def start_lines(
    program: Program, name: str | None, checkpointLocation: str | Path | None, log: RedisLog | None
) -> list[str]:
    """Return, line by line, what a start of the program would do with each state. Without a location return no line.

    Raises TopologyError if a location is given without a name, and LogError if there is no such log.
    """
    if checkpointLocation is None and log is None:
        return []
    if name is None:
        raise TopologyError("explain: with a location, also pass name=, the name under which the topology starts there")
    location = read_location(checkpointLocation, log, None, "trident")
    if log is None and name not in location.topologies():
        return [f"a start of {name!r} there: begins a new log, because {checkpointLocation} has none of this name"]
    with contextlib.closing(location.open_log_to_read(name)) as reading:
        births, members = reading.births(), reading.members()
        lines = [f"a start of {name!r} there"]
        for group in program.groups:
            for node in group.states:
                effect = _effect(node, program.shapes[node.state.name], births.get(node.state.name), reading, name)
                if node.state.backfill and effect == [_EMPTY]:
                    effect = _backfill(node, members)
                lines += [f"  {node.state.name}: {effect[0]}", *(f"    {line}" for line in effect[1:])]
    return lines


def _effect(node: StateWriter, shape: StateShape, birth: Birth | None, log: LogReading, topology: str) -> list[str]:
    """Return the lines about one state: its own, and those below it."""
    if birth is None or not birth.founded:
        if node.state.initial is not None:
            return ["begins with its initialState"]
        return [_EMPTY]
    if (option := unused_beginning(node.state, birth)) is not None:
        return [f"is refused: it exists since txid {birth.txid}, so {option} would never be used"]
    stored = birth.filled or _stored(node, shape, log, topology)
    history = log.history(birth.group)
    if stored is None:
        return ["is in this log, but not in its store"]
    if stored == shape.fingerprint:
        return [f"continues at txid {history.last_frozen}"]
    held, declared = shown_shapes(stored, shape.fingerprint)
    former = declared_former(node, stored)
    if former is None:
        return [f"is refused: another shape ({changed_parts(stored, shape.fingerprint)})", *_shapes(held, declared)]
    lines = [f"changes its values with the first batch, after txid {history.last_frozen}", *_shapes(held, declared)]
    if history.frozen:
        lines.append(f"first the previous program must commit batch {history.frozen[0]}, unless this program froze it")
    if former_shape(node, former) is None:
        lines.append("the previous program must have been stopped cleanly (not killed) if the state is in memory")
    return lines


def _backfill(node: StateWriter, members: Members) -> list[str]:
    """Return the lines about a new state with ``backfill=True``: the amount of each stream that it processes first."""
    lines = []
    for source in (above for above in all_above(node) if isinstance(above, SpoutSource)):
        record = members.streams.get(source.stream) or members.streams.get(source.formerly or "")
        if record is None or record.position is None:
            continue
        spout = source.spout
        amount = spout.amount_before(record.position) if isinstance(spout, RereadableSpout) else None
        lines.append(f"stream {source.stream!r}: {amount or 'how much is not known'}")
    if not lines:
        return [_EMPTY]
    return ["is filled with the tuples that its streams had so far, before the start takes the log over", *lines]


def _shapes(held: str, declared: str) -> Iterator[str]:
    yield f"stored:   {held}"
    yield f"declared: {declared}"


def _stored(node: StateWriter, shape: StateShape, log: LogReading, topology: str) -> str | None:
    """Return the fingerprint that is stored with a state; None if there is none."""
    name = node.state.name
    if (manifest := log.manifest(name)) or node.state.factory.survives != "server":
        return read_manifest(manifest, f"state {name!r}").fingerprint if manifest else None
    store = node.state.factory.open(StateIdentity(topology, name, log.uuid), shape, NoHome())
    try:
        return store.report().fingerprint
    except StateShapeError:  # it was created with other options, and a start reports that
        return None
    finally:
        store.close()
