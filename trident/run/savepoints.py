"""Savepoints of a run: all groups pause between two batches, each at a committed txid, and their states are copied.

Most of a large state is copied before the pause, while batches are committed (`state_copies`). So the pause takes as
long as the batches in flight and the keys that changed last (docs/decisions/0073).
"""

import contextlib
import logging
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from trident.base.crash_points import reach
from trident.base.errors import SavepointError, TopologyConditionError
from trident.base.names import check_name
from trident.batches.group_run import GroupRun
from trident.batches.run_context import RunContext
from trident.files.disk import DiskFiles
from trident.files.store import FileStore
from trident.recovery.changed_steps import OF_STATE
from trident.recovery.fork_origin import not_to_be_touched
from trident.recovery.savepoint import (
    SAVEPOINTS,
    SavedStream,
    Savepoint,
    names_of,
    publish,
    remove_remains,
    taken,
)
from trident.run.run_control import RunControl
from trident.run.savepoint_states import Pages, SavepointStates
from trident_spouts.forkable_sources import held_by, is_forkable

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Saving:
    """Takes savepoints of a run, one at a time."""

    context: RunContext
    runs: Mapping[str, GroupRun]
    switches: RunControl
    _one: threading.Lock = field(default_factory=threading.Lock)

    def take(self, name: str, limit: float | None) -> Savepoint:
        """Take a savepoint, and return its manifest; see `RunningTopology.savepoint`."""
        check_name("savepoint", name)
        place = self._place()
        # One at a time: a completed savepoint deletes the files of others of its name as remains.
        if not self._one.acquire(blocking=False):
            raise TopologyConditionError(f"topology {self.context.settings.name!r} is already taking a savepoint")
        try:
            return self._take(name, place, limit)
        finally:
            self._one.release()

    def _take(self, name: str, place: FileStore, limit: float | None) -> Savepoint:
        if name in names_of(place):
            raise taken(place, name)
        copying = SavepointStates(self.context, place, f"{name}-{secrets.token_hex(8)}")
        try:
            before = {state: pages for state in copying.steps if (pages := copying.pages(state, self._last(state)))}
            reach("savepoint.pages")
            for state, pages in before.items():
                before[state] = copying.caught_up(state, pages, partial(self._last, state))
            with self.switches.paused("savepoint", limit, "no savepoint was taken, and it continues"):
                savepoint = self._at_rest(name, copying, before)
        except BaseException:
            with contextlib.suppress(Exception):  # the next savepoint of this name deletes the rest
                place.remove(copying.folder)
            raise
        publish(place, savepoint)  # if this fails, the manifest may nevertheless exist and name the files
        # Only now can no other driver complete a savepoint of this name: a replaced driver could still publish its own
        # after its last look at the log (guard "savepoint, files of another").
        try:
            remove_remains(place, name, copying.folder)
        except Exception as error:  # the savepoint is complete nevertheless
            logger.warning("remains of savepoints %r take space, and could not be deleted: %s", name, error)
        return savepoint

    def _place(self) -> FileStore:
        settings = self.context.settings
        if settings.objects is not None:
            return settings.objects.below(SAVEPOINTS)
        if not settings.lasting:
            raise SavepointError(
                f"topology {settings.name!r} has no location for a savepoint: start it with a checkpointLocation or a "
                "filesLocation"
            )
        return DiskFiles(settings.folder / SAVEPOINTS, private=True)

    def _last(self, state: str) -> int:
        return self.runs[self.context.begun.births[state].group].committed

    def _at_rest(self, name: str, copying: SavepointStates, before: Mapping[str, Pages]) -> Savepoint:
        """Return the manifest of a savepoint, whose files are written. No batch may be in flight."""
        context, log, program = self.context, self.context.log, self.context.begun.program
        groups = {group: self._rested(group) for group in log.groups()}
        states = {state: copying.state(state, groups, before.get(state)) for state in copying.steps}
        spouts = {spout.stream: spout.spout for group in program.groups for spout in group.spouts}
        streams = {
            stream: SavedStream(
                record,
                repr(spouts[stream]) if stream in spouts else record.source,
                # A stream that this program lacks is only remembered.
                is_forkable(spouts[stream]) if stream in spouts else True,
                held_by(spouts[stream]) if stream in spouts else "",
            )
            for stream, record in log.members().streams.items()
        }
        held, outputs = not_to_be_touched(log, context.settings.log_at, program)
        # The lease comes last: if another driver has taken the log since the run began, its batches may be in parts of
        # the copy (guard "savepoint, fence").
        log.sync(context.begun.lease)
        return Savepoint(
            name,
            context.settings.name,
            log.uuid,
            context.settings.clock.time(),
            copying.folder,
            groups,
            streams,
            outputs,
            states,
            held,
            {name: body for name, body in log.readings().items() if name.startswith(OF_STATE)},
        )

    def _rested(self, group: str) -> int:
        """Return the last txid of a group. Raises SavepointError if the group has ended before it committed a batch."""
        history = self.context.log.history(group)
        if history.frozen:
            raise SavepointError(
                f"batch {history.frozen[0]} of group {group!r} is frozen but not committed, because the group has "
                f"ended or is not in this program: start the program that commits it, and take the savepoint then"
            )
        return history.committed
