"""The origin of a fork, as its log stores it: the savepoint, and the locations that belong to the first topology.

A start of a fork is refused before it takes the log if the fork was not completed, or if its program would write to an
output of the first topology or take from a source that only one topology may read (docs/decisions/0073).
"""

import os
import re
from collections.abc import Iterator

import msgspec

from trident.base.errors import LogCorruptError, OutputConflictError, SavepointError
from trident.compiler.program import Program
from trident.configuration.settings import Settings
from trident.log.protocol import LogReading, TransactionLog
from trident.plan.nodes import BestEffort, Sink, SpoutSource
from trident.plan.sinks import sink_traits
from trident.recovery.savepoint import SavedOutput
from trident_spouts.forkable_sources import held_by

_TABLE = "table "
"""The places of tables begin with it (`trident.plan.sinks`)."""

_NAME = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
"""A part of the name of a table, in quotation marks or not."""

_URL_OF_S3 = re.compile("^s3[an]?://", re.IGNORECASE)


class Origin(msgspec.Struct, frozen=True):
    """The origin of a fork.

    `savepoint` is the identity of the savepoint, `name` its name, `topology` that of the first topology. `complete`:
    whether the fork was completed. `outputs`: those of the first topology. `own`: the names of outputs that the caller
    of the fork declared to write elsewhere. `held`: the sources that only the first topology may read. Both also have
    those of the topologies from which the first one was forked. `unstarted`: the epoch of the last lease, as long as no
    start has taken the fork.
    """

    savepoint: str
    name: str
    topology: str
    complete: bool
    outputs: tuple[SavedOutput, ...] = ()
    own: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    unstarted: int = 0


def origin_of(log: LogReading, log_at: str) -> Origin | None:
    """Return the origin of a log; None if the log is not that of a fork."""
    text = log.origin()
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Origin)
    except msgspec.DecodeError as error:
        raise LogCorruptError(f"the log {log_at} is damaged: its origin cannot be read: {error}") from error


def kept_by_reset(log: LogReading, log_at: str) -> bytes | None:
    """Return the part of a fork's origin that a reset keeps: the locations that belong to others.

    None: it is no fork.
    """
    origin = origin_of(log, log_at)
    return None if origin is None else msgspec.json.encode(msgspec.structs.replace(origin, complete=True, unstarted=0))


def with_former(origin: Origin, former: Origin | None) -> Origin:
    """Return the origin of a fork, with the locations that a former fork of this name must not touch either."""
    if former is None:
        return origin
    known = {(each.name, each.place) for each in origin.outputs}
    theirs = (msgspec.structs.replace(each, topology=each.topology or former.topology) for each in former.outputs)
    outputs = (*origin.outputs, *(each for each in theirs if (each.name, each.place) not in known))
    return msgspec.structs.replace(origin, outputs=outputs, held=tuple(dict.fromkeys((*origin.held, *former.held))))


def check_fork(program: Program, log: LogReading, settings: Settings) -> None:
    """Refuse a start of a fork that was not completed, or that would touch what belongs to the first topology."""
    origin = origin_of(log, settings.log_at)
    if origin is None:
        return
    if not origin.complete:
        raise SavepointError(
            f"the log {settings.log_at} is a fork of {origin.topology!r} that was not completed: repeat "
            f"forkTopology({origin.topology!r}, {origin.name!r}, {settings.name!r}, ...), or {settings.way_out}. "
            f"Nothing was written"
        )
    for sink in sinks_of_program(program):
        theirs = next((each for each in origin.outputs if _is_same(each, saved_output(sink))), None)
        if theirs is not None and sink.name not in origin.own:
            raise _writes_there(sink, theirs, origin, settings)
    for spout in (spout for group in program.groups for spout in group.spouts):
        _check_source(spout, origin)


def _check_source(spout: SpoutSource, origin: Origin) -> None:
    held = held_by(spout.spout)
    if held and held in origin.held:
        raise SavepointError(
            f"{spout.step} ({spout.site.location}): {held} belongs to topology {origin.topology!r}, from which this "
            f"topology was forked, or to a topology from which {origin.topology!r} was forked. Each of the two would "
            f"lose the changes that the other reads: give this topology a separate resource. Nothing was written"
        )


def _is_same(theirs: SavedOutput, ours: SavedOutput) -> bool:
    """Return whether two outputs may write to one location. Outputs whose location is unknown are compared by name."""
    if theirs.place and _is_same_place(theirs.place, ours.place):
        return True
    return theirs.name == ours.name and (theirs.elsewhere or ours.elsewhere)


def _is_same_place(one: str, other: str) -> bool:
    """Return whether two locations may be the same: a folder through a link, a table without the name of its schema.

    >>> _is_same_place("table orders", 'table shop."orders"'), _is_same_place("s3://lake/orders", "s3a://lake/orders")
    (True, True)
    """
    if one.startswith(_TABLE) and other.startswith(_TABLE):
        names, others = _names(one), _names(other)
        return names == others if len(names) == len(others) else names[-1] == others[-1]
    if os.path.isabs(one) and os.path.isabs(other):
        return os.path.realpath(one) == os.path.realpath(other)
    return _URL_OF_S3.sub("s3://", one) == _URL_OF_S3.sub("s3://", other)


def _names(table: str) -> list[str]:
    """Return the names in the location of a table without quotation marks: its schema's, if given, and its own."""
    found = _NAME.findall(table.removeprefix(_TABLE))
    return [quoted.replace('""', '"') or plain for quoted, plain in found]


def _writes_there(sink: Sink, theirs: SavedOutput, origin: Origin, settings: Settings) -> OutputConflictError:
    there = bool(theirs.place) and _is_same_place(theirs.place, saved_output(sink).place)
    place = f"writes to {theirs.place}" if there else "has the name and perhaps the target"
    other = "another place" if there else "another target and another name="
    whose = theirs.topology or origin.topology
    return OutputConflictError(
        f"{sink.step} ({sink.site.location}): output {sink.name!r} {place}, as output {theirs.name!r} of topology "
        f"{whose!r}, from which {settings.name!r} was forked: the tuples of both would be mixed there. Give it "
        f"{other}, or leave it out; or, if it writes elsewhere (another server), fork with ownOutputs=[{sink.name!r}]. "
        f"Nothing was written"
    )


def not_to_be_touched(
    log: TransactionLog, log_at: str, program: Program
) -> tuple[tuple[str, ...], tuple[SavedOutput, ...]]:
    """Return the sources and outputs that a fork of this topology must leave alone, besides the program's own sources.

    Outputs that the program lacks now may be added again. The log knows only their names. If the topology is a fork
    itself, the outputs and sources of those before it count, too: they still run.
    """
    ours = tuple(map(saved_output, sinks_of_program(program)))
    names = {each.name for each in ours}
    former = tuple(SavedOutput(name, "", elsewhere=True) for name in sorted(log.outputs()) if name not in names)
    origin = origin_of(log, log_at)
    if origin is None:
        return (), (*ours, *former)
    inherited = (msgspec.structs.replace(each, topology=each.topology or origin.topology) for each in origin.outputs)
    return origin.held, (*ours, *former, *inherited)


def saved_output(sink: Sink) -> SavedOutput:
    """Return the data of an output by which a fork recognises it."""
    traits = sink_traits(sink)
    return SavedOutput(sink.name, traits.place(sink), traits.elsewhere(sink))


def sinks_of_program(program: Program) -> Iterator[Sink]:
    """Yield all outputs of a program, also those of best-effort branches; not metrics, which end with the process."""
    for output in (output for group in program.groups for output in group.sinks):
        if isinstance(output.step, Sink):
            yield from _outlets_of(output.step)


def _outlets_of(sink: Sink) -> Iterator[Sink]:
    if isinstance(sink, BestEffort):
        yield from sink.branch.sinks.values()
    elif sink_traits(sink).keeps_progress:
        yield sink
