"""The checkpoint: its folder and disk, and the topology's log that already exists there."""

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from trident.base.discard_advice import RESET
from trident.base.errors import TopologyError, TridentError
from trident.base.finding import Finding
from trident.configuration.file_locations import folder
from trident.doctor import disk
from trident.doctor.examined_setup import ExaminedSetup
from trident.files.disk import DiskFiles
from trident.log.protocol import LogReading
from trident.log.sqlite_log import SqliteLog
from trident.recovery.folder_owner import OWN_NAMES, OWNER, owner_of
from trident.recovery.streaming_checkpoint import GUIDE, is_query_checkpoint
from trident.run.start import LOG_FILE

_REFUSED = "a start is refused"
_OURS = (LOG_FILE, OWNER, f".{OWNER}.", "scratch-", ".trident-doctor-", *OWN_NAMES)


def checkpoint(setup: ExaminedSetup) -> Iterable[Finding]:
    """Check for a checkpointLocation that cannot be written, is not on a local disk, or has other files."""
    if (own := _folder_of(setup)) is None:
        return
    place = own.parent
    there = next(each for each in (place, *place.parents) if each.is_dir())
    for found in (_of_user(there, place), disk.tried(there), disk.network(there), disk.space(there)):
        for finding in found:
            yield finding
            if finding.grave:  # the size of a disk that cannot be written does not matter
                return
    if not (own / LOG_FILE).exists() and owner_of(own) is None:
        yield from _of_queries(place, own)
    yield from _foreign(own)


def log(setup: ExaminedSetup) -> Iterable[Finding]:
    """Check for a log that cannot be continued, or that another driver holds."""
    redis = setup.log
    with contextlib.ExitStack() as opened:
        if redis is not None:
            found = list(redis.examine(setup.now))
            yield from found
            if any(finding.grave for finding in found):
                return
        try:
            where = _folder_of(setup)
            there = _open(setup, where)
            if there is None:
                return
            opened.callback(there.close)
            yield from _held(there, setup.name)
            owner = None if where is None else owner_of(where)
            if owner is not None and owner != there.uuid:
                todo = "Start with the log that belongs to the folder: without log= if it is in it, or its RedisLog"
                other = f"the files belong to another log (uuid {owner}), not to {setup.log or LOG_FILE}"
                yield Finding(str(where), other, _REFUSED, todo)
        except (TridentError, OSError) as error:
            todo = "Take the log's own version, folder and name, or a copy of it; to begin anew, "
            todo += f"{RESET} deletes log and states"
            yield Finding(f"the log of {setup.name!r}", str(error), f"{_REFUSED}: the position is in the log", todo)


def _folder_of(setup: ExaminedSetup) -> Path | None:
    """Return the topology's folder; None if no checkpoint is named, or one that a start would refuse."""
    named = setup.options.get("checkpointLocation")
    try:
        return None if named is None else folder(named) / setup.name
    except TopologyError:  # which the check `configuration` reports
        return None


def _open(setup: ExaminedSetup, where: Path | None) -> LogReading | None:
    """Open the topology's log read-only; None if it does not exist yet."""
    from trident.log.protocol import LogAbsentError

    if setup.log is not None:
        try:
            return setup.log.look(setup.name)
        except LogAbsentError:
            return None
    if where is None or not where.exists():
        return None
    file = where / LOG_FILE
    if file.exists():
        return SqliteLog(file, setup.name, reading=True)
    if (owner := owner_of(where)) is not None:
        raise TopologyError(f"{where} belongs to a log (uuid {owner}) that is not in this folder")
    return None


def _held(there: LogReading, name: str) -> Iterator[Finding]:
    holder = there.holder()
    if holder is not None:
        yield Finding(
            f"the log of {name!r}",
            f"a driver holds it: {holder}",
            "a start takes the log over: a driver that still runs is then fenced out, and ends with FencedError",
            "End that driver first (`trident kill`, SIGTERM), or start with --standby to wait for its end. If it was "
            "killed, just start: the next driver continues",
            grave=False,
        )


def _of_user(there: Path, place: Path) -> Iterator[Finding]:
    about, status = str(there), there.stat()
    if not os.access(there, os.W_OK | os.X_OK):
        todo = f"chown the folder to the user who runs the driver (uid {os.geteuid()}), or give another folder"
        yield Finding(about, "this user may not write there", "the log cannot be written", todo)
    elif there == place and status.st_uid != os.geteuid():
        found = f"its owner has the uid {status.st_uid}, and this process {os.geteuid()}"
        matters = "files of two users come together there: the next driver of the other user cannot open its log"
        todo = f"Run as that user, or chown -R {os.geteuid()} {place}"
        yield Finding(about, found, matters, todo)
    if there == place and status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        found = f"every user of this machine may write there (mode {stat.S_IMODE(status.st_mode):o})"
        yield Finding(about, found, "others could delete or replace the log", f"chmod o-w {place}", grave=False)


def _of_queries(*places: Path) -> Iterator[Finding]:
    """Yield a finding for the checkpoint of a Structured Streaming query: a start would create a new log beside it."""
    for place in places:
        if is_query_checkpoint(DiskFiles(place)):
            todo = f"Give a folder of its own; {GUIDE} says how a topology begins where the query stopped"
            yield Finding(str(place), "it is the checkpoint of a Structured Streaming query", _REFUSED, todo)


def _foreign(place: Path) -> Iterator[Finding]:
    """Yield a finding for files in a topology's folder that the library did not write."""
    if not place.is_dir():
        return
    entries = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in sorted(place.iterdir())]
    foreign = [name for name in entries if not name.startswith(_OURS)]
    if foreign:
        shown = ", ".join(foreign[:5]) + (f" and {len(foreign) - 5} more" if len(foreign) > 5 else "")
        todo = "Move them elsewhere; one checkpointLocation may hold many topologies, each in a folder of its own name"
        matters = "the folder is the library's own: a reset deletes it, and foreign files may be taken for its own"
        yield Finding(str(place), f"it has files that the library did not write: {shown}", matters, todo, grave=False)
