"""Savepoints from outside a run, and the function forkTopology, which makes a topology from one.

A fork is a log: its groups begin at the savepoint's txids, its streams at the savepoint's positions, and each state is
created with the values of the savepoint. The first start of the fork creates the stores, wherever its program keeps
them, and heals them from the log, like stores that lost their data (docs/decisions/0073).
"""

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from trident.base.attempt import Holder, Lease
from trident.base.clock import SystemClock
from trident.base.crash_points import reach
from trident.base.errors import SavepointError, TopologyError
from trident.base.names import check_name, did_you_mean
from trident.configuration.file_locations import files_place, folder
from trident.configuration.settings import Settings
from trident.configuration.start_options import OptionValues
from trident.files.disk import DiskFiles
from trident.files.store import FileStore
from trident.log import RedisLog
from trident.log.protocol import NO_LEASE, Birth, Members, TransactionLog
from trident.log.returned_lease import give_back
from trident.recovery.first_content import frozen_content
from trident.recovery.folder_owner import check_own_folder, check_own_objects, record_own_objects, take_objects
from trident.recovery.fork_origin import Origin, origin_of, with_former
from trident.recovery.savepoint import (
    SAVEPOINTS,
    Savepoint,
    SavepointInfo,
    content_of_state,
    first_content_of,
    info_of,
    names_of,
    read_savepoint,
    remove_savepoint,
)
from trident.run import registry
from trident.run.start import open_log


def listSavepoints(
    topology: str,
    checkpointLocation: str | Path | None = None,
    *,
    filesLocation: str | None = None,
    filesStorage: Mapping[str, str] | None = None,
) -> list[SavepointInfo]:
    """List the savepoints of a topology, oldest first. Savepoints that were never completed do not count.

    Parameters
    ----------
    topology
        The topology's name.
    checkpointLocation, filesLocation, filesStorage
        The location of the topology's files, as `start` got it.

    Raises
    ------
    SavepointError
        The manifest of a savepoint is damaged.
    TopologyError
        No location is given.

    >>> import tempfile
    >>> listSavepoints("wc", tempfile.mkdtemp())
    []
    """
    place = savepoints_place(topology, checkpointLocation, filesLocation, filesStorage)
    return sorted((info_of(read_savepoint(place, name)) for name in names_of(place)), key=lambda info: info.time)


def dropSavepoint(
    topology: str,
    name: str,
    checkpointLocation: str | Path | None = None,
    *,
    filesLocation: str | None = None,
    filesStorage: Mapping[str, str] | None = None,
) -> None:
    """Delete a savepoint. Topologies that were forked from it do not need it.

    The parameters are those of `listSavepoints`, and the savepoint's name. Raises SavepointError if there is no such
    savepoint. A savepoint with a damaged manifest is deleted too.

    >>> import tempfile
    >>> from trident.errors import SavepointError
    >>> try:
    ...     dropSavepoint("wc", "before", tempfile.mkdtemp())
    ... except SavepointError as error:
    ...     print(str(error)[:21])
    no savepoint 'before'
    """
    place = savepoints_place(topology, checkpointLocation, filesLocation, filesStorage)
    if name not in names_of(place):
        read_savepoint(place, name)  # raises the error
    remove_savepoint(place, name)


def forkTopology(
    topology: str,
    savepoint: str,
    fork: str,
    checkpointLocation: str | Path | None = None,
    *,
    filesLocation: str | None = None,
    filesStorage: Mapping[str, str] | None = None,
    toCheckpointLocation: str | Path | None = None,
    toLog: RedisLog | None = None,
    toFilesLocation: str | None = None,
    anew: Collection[str] = (),
    ownOutputs: Collection[str] = (),
) -> None:
    """Create the topology `fork` from a savepoint of another topology, which is not affected.

    Then start a program under the name `fork`, the same or a changed one: it continues at the savepoint's positions and
    values. It may differ as at any restart; a state with another shape needs ``evolve=``. Its states may be in other
    kinds of stores. The original topology's states, log, files and records are only read.

    Repeat the call after a crash: it completes the fork. Until then a start of it is refused.

    Parameters
    ----------
    topology, savepoint
        The name of the first topology, and of its savepoint (``running.savepoint(name)``).
    fork
        The name of the new topology.
    checkpointLocation, filesLocation, filesStorage
        The location of the first topology's files, as `start` got it.
    toCheckpointLocation, toLog, toFilesLocation
        The location of the fork, as its `start` will get it. By default the first topology's checkpointLocation and
        filesLocation, and a log in the checkpointLocation.
    anew
        The streams that the fork reads from another source, which it must do if only one topology can read it: a queue,
        a slot of PostgreSQL, a query of Structured Streaming. Their positions are left out.
    ownOutputs
        The names of outputs that write elsewhere although their place or name looks the same, such as a topic of the
        same name on another cluster. Any other output of the first topology is refused in the fork.

    Raises
    ------
    SavepointError
        There is no such savepoint, or it is damaged; a stream can only be begun anew; `anew` names no stream; there is
        a topology of the name `fork` already; or a fork at this location was begun from another savepoint.
    TopologyError
        The fork has the name of the first topology, or no location is given.
    LogError
        The log of the fork cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from trident import Count, TridentTopology, forkTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.state import MemoryMapState
    >>> topology = TridentTopology()
    >>> words = topology.newStream("words", FixedBatchSpout("word string", [["dog", "cat"], ["dog"]]))
    >>> _ = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with topology.start(engine="embedded", name="wc", checkpointLocation=folder) as running:
    ...         running.processAllAvailable()
    ...         _ = running.savepoint("before")
    ...     forkTopology("wc", "before", "trial", folder)
    ...     with topology.start(engine="embedded", name="trial", checkpointLocation=folder) as running:
    ...         running.processAllAvailable()
    ...         running.state("counts")["dog"]
    2
    """
    check_name("fork", fork)
    if fork == topology:
        raise TopologyError(
            f"fork={fork!r} is the name of the topology itself: states on servers and outputs know a topology by its "
            f"name, so give the fork another one. To take the topology itself back to the savepoint, call "
            f"restoreTopology({topology!r}, {savepoint!r}, ...)"
        )
    if any(running.name == fork for running in registry.running_here()):
        raise TopologyError(f"topology {fork!r} is active in this process: give the fork another name")
    place = savepoints_place(topology, checkpointLocation, filesLocation, filesStorage)
    saved = read_savepoint(place, savepoint)
    _check_streams(saved, anew)
    for state in saved.states:  # checked one by one before the first write: together they may be too large for memory
        content_of_state(place, saved, state)
    at = toCheckpointLocation or (checkpointLocation if toLog is None else None)
    if at is None and toLog is None:
        raise TopologyError("give the location of the fork's log: toCheckpointLocation= or toLog=")
    values = OptionValues(
        name=fork,
        checkpointLocation=None if at is None else folder(at),
        log=toLog,
        filesLocation=toFilesLocation or filesLocation,
        filesStorage=filesStorage,
    )
    settings = Settings.of(values, {}, SystemClock())
    origin = Origin(
        saved.id,
        savepoint,
        topology,
        False,
        saved.outputs,
        tuple(sorted(ownOutputs)),
        (*saved.held, *(stream.holds for stream in saved.streams.values() if stream.holds)),
    )
    with contextlib.closing(open_log(settings)) as log:
        _Fork(saved, place, origin, replace(settings, uuid=log.uuid), log, frozenset(anew)).make()


class _Fork:
    """Writes the log of a fork. Each write may be repeated; the last one completes the fork."""

    def __init__(
        self,
        saved: Savepoint,
        place: FileStore,
        origin: Origin,
        settings: Settings,
        log: TransactionLog,
        anew: Collection[str],
    ) -> None:
        self._saved, self._place, self._origin, self._anew = saved, place, origin, anew
        self._settings, self._log = settings, log

    def make(self) -> None:
        """Write the log. Raises LogError or SavepointError, before anything is written, if the log is another one."""
        log, settings = self._log, self._settings
        before = self._check_free()
        origin = self._origin
        check_own_folder(settings, log.uuid)
        kept_at = check_own_objects(settings, log)
        lease = log.take(Holder.here(settings.clock.time(), settings.leaseSecs), before)
        reach("fork.taken")
        try:
            take_objects(settings, log, lease)
            log.keep_origin(lease, msgspec.json.encode(origin))
            reach("fork.begun")
            record_own_objects(settings, log, lease, kept_at)
            for state in self._saved.states:
                self._born(state, lease)
                reach("fork.state")
            log.keep_readings(lease, self._saved.readings)
            log.enroll(lease, self._members())
            reach("fork.enrolled")
            done = msgspec.structs.replace(origin, complete=True, unstarted=lease.epoch)
            log.keep_origin(lease, msgspec.json.encode(done))
        finally:
            give_back(log, lease)
        reach("fork.done")

    def _check_free(self) -> Lease:
        """Return the lease of the log before the fork. Raises an error if it is the log of another topology or fork."""
        log, log_at, name = self._log, self._settings.log_at, self._settings.name
        lease, begun = log.lease() or NO_LEASE, origin_of(log, log_at)
        # A lease without an origin belongs to a topology that was started, or to a fork that died before its first
        # write; the two cannot be distinguished.
        if begun is None and log.groups():
            raise SavepointError(f"there is a topology {name!r} {log_at} already: give the fork another name")
        if begun is not None and begun.complete and not log.groups():  # it was reset
            self._origin = with_former(self._origin, begun)
            return lease
        if begun is not None and begun.complete:
            raise SavepointError(f"the fork {name!r} {log_at} is complete: start it, or give another fork another name")
        if begun is not None and begun.savepoint != self._origin.savepoint:
            raise SavepointError(
                f"the fork {name!r} {log_at} was begun from another savepoint, {begun.name!r} of {begun.topology!r}, "
                f"and not completed: repeat that fork, or {self._settings.way_out}"
            )
        return lease

    def _born(self, state: str, lease: Lease) -> None:
        saved, content = self._saved.states[state], first_content_of(self._place, self._saved, state)
        birth = Birth(saved.group, self._saved.groups[saved.group], lease.epoch, True, saved.fingerprint)
        self._log.born(lease, state, birth, frozen_content(self._settings, lease, birth, content))

    def _members(self) -> Members:
        streams = {name: stream.record for name, stream in self._saved.streams.items() if name not in self._anew}
        return Members(streams, {}, self._saved.groups)


def _check_streams(saved: Savepoint, anew: Collection[str]) -> None:
    """Raise SavepointError if the source of a stream can be read by one topology only, or `anew` names no stream."""
    unknown = sorted({*anew} - saved.streams.keys())
    if unknown:
        raise SavepointError(
            f"anew={unknown[0]!r}: the savepoint has no stream of this name{did_you_mean(unknown[0], saved.streams)}"
        )
    for name, stream in saved.streams.items():
        if not stream.forkable and name not in anew:
            raise SavepointError(
                f"stream {name!r} reads from {stream.source}, which only one topology can do: its messages are "
                "acknowledged, or its server keeps the position. Give the fork another source, such as another queue "
                f"or slot, and exclude this position: anew=[{name!r}]. (If your spout only reads, set forkable = True "
                "before the savepoint is taken)"
            )


def savepoints_place(
    topology: str,
    checkpointLocation: str | Path | None,
    filesLocation: str | None,
    filesStorage: Mapping[str, str] | None,
) -> FileStore:
    """Return the store of a topology's savepoints. Raises TopologyError if no location is given."""
    check_name("topology", topology)
    objects = files_place(filesLocation, filesStorage)
    if objects is not None:
        return objects.below(topology).below(SAVEPOINTS)
    if checkpointLocation is None:
        raise TopologyError("give the location of the savepoints: checkpointLocation= or filesLocation=")
    return DiskFiles(folder(checkpointLocation) / topology / SAVEPOINTS, private=True)
