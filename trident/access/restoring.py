"""The function restoreTopology, which takes a topology back to one of its savepoints.

Txids do not go back. A restore is one more batch of each group, without tuples: it moves the streams to the savepoint's
positions, and each state is recreated with the savepoint's values. All of it is one write of the log, and the next
start heals the stores from the log, like stores that lost their data (docs/decisions/0107).
"""

import contextlib
import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from trident.access.forking import savepoints_place
from trident.access.locations import read_location
from trident.access.restored_streams import RestoredStreams
from trident.base.attempt import Holder, Lease
from trident.base.clock import SystemClock
from trident.base.crash_points import reach
from trident.base.errors import SavepointError, TopologyActiveError
from trident.base.verb_call import user_level
from trident.configuration.file_locations import folder
from trident.configuration.settings import Settings
from trident.configuration.start_options import OptionValues
from trident.files.store import FileStore
from trident.log import RedisLog
from trident.log.frozen_results import FrozenOutput
from trident.log.protocol import NO_LEASE, Birth, Restoration, StreamRecord, TransactionLog
from trident.log.returned_lease import give_back
from trident.recovery.changed_steps import OF_STATE, outputs_of_changes
from trident.recovery.first_content import frozen_content
from trident.recovery.folder_owner import check_own_folder, check_own_objects, take_objects
from trident.recovery.savepoint import Savepoint, content_of_state, first_content_of, read_savepoint
from trident.run import registry


def restoreTopology(
    topology: str,
    savepoint: str,
    checkpointLocation: str | Path | None = None,
    *,
    log: RedisLog | None = None,
    filesLocation: str | None = None,
    filesStorage: Mapping[str, str] | None = None,
    anew: Collection[str] = (),
    keepPositions: Collection[str] = (),
    force: bool = False,
) -> None:
    """Take a stopped topology back to a savepoint: the positions of its streams, and the values of its states.

    The next start reads the tuples since the savepoint again, with the same program or a changed one, and counts each
    of them once in every state. Outputs keep the results that they have, and get those of the repeated batches too.
    Txids continue: the restore is an empty batch of each group, so outputs and readers never see a txid twice.

    The savepoint stays, so the topology can return to it again. States that were added after the savepoint begin empty,
    and states that were dropped after it are restored. An interrupted restore has changed nothing, or everything.

    Parameters
    ----------
    topology, savepoint
        The name of the topology, and of its savepoint (``running.savepoint(name)``).
    checkpointLocation, log, filesLocation, filesStorage
        The location of the topology's log and files, as `start` got it.
    anew
        Streams that are to begin at the beginning of their sources, instead of at the savepoint's positions.
    keepPositions
        Streams that continue at their present positions. The restored states lack the tuples that these streams have
        read since the savepoint. This is the way for a source that does not give its tuples again, such as a queue.
    force
        Restore the topology even if a driver may hold it: a running driver is fenced out, and stops without writing.

    Warns of each output that keeps rows of a state and gets its changes alone: it is to be filled again.

    Raises
    ------
    SavepointError
        There is no such savepoint, or it is damaged, or it was taken from another log; a batch is not committed; a
        driver may hold the topology; or a stream has to be named in `anew` or `keepPositions`. Nothing was changed.
    TopologyError
        `anew` or `keepPositions` names no stream of the topology, or both name the same one; or no location is given.
    TopologyActiveError
        The topology is active in this process.
    LogError
        The topology has no log at the location, or the log cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from trident import Count, TridentTopology, restoreTopology
    >>> from trident.spouts import FixedBatchSpout
    >>> from trident.state import MemoryMapState
    >>> def topology(batches):
    ...     made = TridentTopology()
    ...     words = made.newStream("words", FixedBatchSpout("word string", batches)).groupBy("word")
    ...     _ = words.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    ...     return made
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with topology([["dog"]]).start(engine="embedded", name="wc", checkpointLocation=folder) as running:
    ...         running.processAllAvailable()
    ...         _ = running.savepoint("good")
    ...     with topology([["dog"], ["dgo"]]).start(engine="embedded", name="wc", checkpointLocation=folder) as running:
    ...         running.processAllAvailable()
    ...     restoreTopology("wc", "good", folder)
    ...     with topology([["dog"], ["cat"]]).start(engine="embedded", name="wc", checkpointLocation=folder) as running:
    ...         running.processAllAvailable()
    ...         dict(running.state("counts").items())
    {'dog': 1, 'cat': 1}
    """
    place = savepoints_place(topology, checkpointLocation, filesLocation, filesStorage)
    location = read_location(checkpointLocation, log, None, "trident", None, filesLocation, filesStorage)
    if any(running.name == topology for running in registry.running_here()):
        raise TopologyActiveError(f"topology {topology!r} is active in this process; stop it before you restore it")
    saved = read_savepoint(place, savepoint)
    for state in saved.states:  # before the first write, and one after the other: together they may be too large
        content_of_state(place, saved, state)
    values = OptionValues(
        name=topology,
        checkpointLocation=None if checkpointLocation is None else folder(checkpointLocation),
        log=log,
        filesLocation=filesLocation,
        filesStorage=filesStorage,
    )
    settings = Settings.of(values, {}, SystemClock())
    with contextlib.closing(location.open_log_to_write(topology)) as opened:
        streams = RestoredStreams(saved, frozenset(anew), frozenset(keepPositions))
        _Restore(saved, place, streams, replace(settings, uuid=opened.uuid), opened).make(force)
        outputs = outputs_of_changes(opened)
    for output, states in sorted(outputs.items()):
        warnings.warn(
            f"output {output!r} of topology {topology!r} has rows of {', '.join(map(repr, sorted(states)))} from "
            f"before the restore, and gets only the rows that change from now on: rows that were changed or removed "
            f"since the savepoint, and do not change again, stay wrong there. Start the topology with active=False, "
            f"empty the output, write an export of the state there, and activate the topology",
            RuntimeWarning,
            stacklevel=user_level(),
        )


class _Restore:
    """Writes the restoration to the log, after all checks."""

    def __init__(
        self, saved: Savepoint, place: FileStore, streams: RestoredStreams, settings: Settings, log: TransactionLog
    ) -> None:
        self._saved, self._place, self._streams = saved, place, streams
        self._settings, self._log = settings, log

    def make(self, force: bool) -> None:
        log, settings = self._log, self._settings
        before = log.lease() or NO_LEASE
        self._check(before, force)
        check_own_folder(settings, log.uuid)
        check_own_objects(settings, log)
        lease = log.take(Holder.here(settings.clock.time(), settings.leaseSecs), before)
        try:
            take_objects(settings, log, lease)
            reach("restore.taken")
            known = log.members().streams
            streams = self._streams.records(known)
            batches = self._of_changed(self._batches(), known, streams)
            births, contents = self._births(lease, batches)
            reach("restore.files")
            others = {name: body for name, body in log.readings().items() if not name.startswith(OF_STATE)}
            readings = {**others, **self._saved.readings}
            log.restore(lease, Restoration(batches, settings.clock.time(), streams, births, contents, readings))
        finally:
            give_back(log, lease)
        reach("restore.done")

    def _check(self, before: Lease, force: bool) -> None:
        """Refuse the restore before the log is taken, so that a refusal fences no driver out."""
        saved, log = self._saved, self._log
        if saved.log != log.uuid:
            raise SavepointError(
                f"savepoint {saved.name!r} was taken from another log (uuid {saved.log}), not from the one "
                f"{self._settings.log_at} (uuid {log.uuid}): make a topology of another name from it, with "
                f"forkTopology. Nothing was changed"
            )
        if before.token and not force:
            raise SavepointError(
                f"a driver holds topology {saved.topology!r} (epoch {before.epoch}): it is running, or was killed. "
                f"Stop it first; if no driver is running, or to fence it out, use force. Nothing was changed"
            )
        self._batches()
        self._streams.records(log.members().streams)
        self._added()

    def _batches(self) -> dict[str, int]:
        """Return the txid of the empty batch of each group. Raises SavepointError if a group cannot have it now."""
        saved, batches = self._saved, dict[str, int]()
        for group in self._log.groups():
            history = self._log.history(group)
            if history.frozen:
                raise SavepointError(
                    f"batch {history.frozen[0]} of group {group!r} is frozen but not committed, and an output may have "
                    f"it: start the last program once with active=False, which commits it, stop it, and restore then. "
                    f"Nothing was changed"
                )
            batches[group] = history.committed + 1
        behind = [group for group, txid in saved.groups.items() if batches.get(group, 0) <= txid]
        if behind:
            raise SavepointError(
                f"savepoint {saved.name!r} is as of batch {saved.groups[behind[0]]} of group {behind[0]!r}, which the "
                f"log {self._settings.log_at} does not have: the log is an older copy. Restore the newest log first. "
                f"Nothing was changed"
            )
        return batches

    def _of_changed(
        self, batches: Mapping[str, int], before: Mapping[str, StreamRecord], after: Mapping[str, StreamRecord]
    ) -> dict[str, int]:
        """Return the batches of the groups in which a state or a position changes.

        In another group, a state that the last program lacked could not continue behind such a batch.
        """
        moved = {each[name].group for each in (before, after) for name in each if before.get(name) != after.get(name)}
        changed = {state.group for state in self._saved.states.values()} | {*self._added().values()} | moved
        return {group: txid for group, txid in batches.items() if group in changed}

    def _births(self, lease: Lease, batches: Mapping[str, int]) -> tuple[dict[str, Birth], dict[str, FrozenOutput]]:
        """Return the births of all states, and the contents with which those of the savepoint begin.

        A state that was added after the savepoint is recreated without a founded store, like one whose creation was
        interrupted: the next start drops its store and makes it again.
        """
        births, contents = dict[str, Birth](), dict[str, FrozenOutput]()
        for name, state in self._saved.states.items():
            births[name] = birth = Birth(state.group, batches[state.group], lease.epoch, True, state.fingerprint)
            content = first_content_of(self._place, self._saved, name)
            contents[name] = frozen_content(self._settings, lease, birth, content)
        for name, group in self._added().items():
            births[name] = Birth(group, batches[group], lease.epoch)
        return births, contents

    def _added(self) -> dict[str, str]:
        """Return the states that were added after the savepoint, each with its group.

        A state that the program lacked then is as it was if no stream has fed it since, and stays. Raises
        SavepointError if one has: the savepoint does not have its values of then.
        """
        saved, now = self._saved, self._log.members().streams
        then = {name: stream.record.parted for name, stream in saved.streams.items()}
        added = dict[str, str]()
        for state, birth in self._log.births().items():
            left = {name: parted[state] for name, parted in then.items() if state in parted}
            if state in saved.states:
                continue
            if not left:
                added[state] = birth.group
            elif any(name not in now or now[name].parted.get(state) != position for name, position in left.items()):
                raise SavepointError(
                    f"state {state!r} is not in savepoint {saved.name!r}, because the program lacked it at that time, "
                    f"and it was written after the savepoint. Drop it with dropState({saved.topology!r}, {state!r}, "
                    f"...), so that it begins empty; then restore. Nothing was changed"
                )
        return added
