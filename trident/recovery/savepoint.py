"""A savepoint: a named copy of a topology as of one committed txid of each group, in files beside its checkpoint.

The files are written first and have random names. The manifest comes last, is created whole, and names them, so an
incomplete savepoint does not count. Nothing in a savepoint refers to the log or the stores from which it was taken
(docs/decisions/0073).
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from trident.base.crash_points import reach
from trident.base.errors import LogCorruptError, SavepointError
from trident.base.names import did_you_mean
from trident.files.store import FileStore
from trident.frozen.files import read_whole
from trident.frozen.results import FrozenFile, FrozenFiles
from trident.log.frozen_results import with_life, with_time
from trident.log.protocol import StreamRecord
from trident_state.keys import encode_keys

SAVEPOINTS = "savepoints"
"""The folder of all savepoints, relative to the root of a topology's files."""

_FORMAT = 1
_SUFFIX = ".json"


class SavedState(msgspec.Struct, frozen=True):
    """A state in a savepoint.

    `ttl`: the seconds after which values expire; None: never. `schema`: the key fields and the stored value, as Arrow's
    bytes. `files`: all entries, in any order. `later`: the keys that changed while `files` were written, with their
    values; null for a key without a value.
    """

    group: str
    fingerprint: str
    schema: bytes
    files: tuple[FrozenFile, ...]
    later: tuple[FrozenFile, ...] = ()
    ttl: float | None = None


class SavedStream(msgspec.Struct, frozen=True):
    """A stream in a savepoint: its record in the log, and its source as text.

    `forkable`: whether a second reader may continue at the position. `holds`: the resource of the source that only one
    topology may use; "" if it is not known.
    """

    record: StreamRecord
    source: str
    forkable: bool
    holds: str = ""


class SavedOutput(msgspec.Struct, frozen=True):
    """An output of the topology: its name, and the location of its rows; "" if there is none that the library knows.

    `elsewhere`: whether rows may go to other places, which only the program knows. `topology`: the topology whose
    output it is, if that is one from which the saved topology was forked itself; "" if it is the saved one.
    """

    name: str
    place: str
    elsewhere: bool = False
    topology: str = ""


class Savepoint(msgspec.Struct, frozen=True):
    """The content of a savepoint's manifest.

    `groups`: the txid of each group. `folder`: the folder of the files, relative to the folder of all savepoints.
    `log`: the uuid of the log from which it was taken. `held`: if the topology is a fork itself, the sources that only
    those before it may read. `readings`: the rows that states are made of (`recovery.changed_steps`).
    """

    name: str
    topology: str
    log: str
    time: float
    folder: str
    groups: dict[str, int]
    streams: dict[str, SavedStream]
    outputs: tuple[SavedOutput, ...]
    states: dict[str, SavedState]
    held: tuple[str, ...] = ()
    readings: dict[str, bytes] = {}

    @property
    def id(self) -> str:
        """The identity of the savepoint. A later savepoint of the same name has a different identity."""
        return f"{self.log}/{self.folder}"


@dataclass(frozen=True)
class SavepointInfo:
    """A savepoint as `listSavepoints` describes it.

    `time` is when it was taken, in seconds since 1970. `txids` has the last batch of each batch group, `entries` the
    number of entries of each state (a key that changed while it was taken counts twice). `heldStreams` names the
    streams that a fork has to begin anew, because only one topology can read their source. `bytes` is the size of the
    files.
    """

    name: str
    topology: str
    time: float
    txids: Mapping[str, int]
    entries: Mapping[str, int]
    heldStreams: tuple[str, ...]
    bytes: int

    def asDict(self) -> dict[str, Any]:
        """Return the fields of this object as a dict."""
        return asdict(self)


class _Envelope(msgspec.Struct):
    format: int
    checksum: int
    savepoint: msgspec.Raw


def publish(place: FileStore, savepoint: Savepoint) -> None:
    """Publish a savepoint, in one step. Raises SavepointError if one of this name exists."""
    reach("savepoint.files")
    body = msgspec.json.encode(savepoint)
    if not place.create(savepoint.name + _SUFFIX, _sealed(body)):
        raise taken(place, savepoint.name)
    files = [file for state in savepoint.states.values() for file in (*state.files, *state.later)]
    if any(place.size(f"{savepoint.folder}/{file.name}") is None for file in files):
        place.delete([savepoint.name + _SUFFIX])
        raise SavepointError(
            f"the files of savepoint {savepoint.name!r} at {place.address} were deleted before it was complete: "
            f"another driver has taken a savepoint of this name meanwhile, and it was dropped. Take it again"
        )
    reach("savepoint.published")


def _sealed(body: bytes) -> bytes:
    return msgspec.json.encode(_Envelope(_FORMAT, zlib.crc32(body), msgspec.Raw(body)))


def taken(place: FileStore, name: str) -> SavepointError:
    return SavepointError(
        f"there is a savepoint {name!r} at {place.address}: give another name, or drop it first with "
        f"dropSavepoint(topology, {name!r}, ...)"
    )


def read_savepoint(place: FileStore, name: str) -> Savepoint:
    """Return a savepoint. Raises SavepointError if it does not exist or its manifest is damaged."""
    at = name + _SUFFIX
    try:
        content = bytes(place.read(at))
    except FileNotFoundError:
        known = names_of(place)
        raise SavepointError(
            f"no savepoint {name!r} at {place.address}{did_you_mean(name, known)} (there is "
            f"{', '.join(map(repr, known)) or 'none'}). An incomplete savepoint does not count: take it again"
        ) from None
    try:
        envelope = msgspec.json.decode(content, type=_Envelope)
        if envelope.format != _FORMAT:
            raise SavepointError(
                f"the savepoint {place.path(at)} has the format {envelope.format}, and this version of the library "
                f"reads {_FORMAT}: use the version that took it, or take a new savepoint"
            )
        if zlib.crc32(envelope.savepoint) != envelope.checksum:
            raise SavepointError(
                f"the savepoint {place.path(at)} is damaged: its checksum does not match. Restore its files from a "
                f"copy, or take a new savepoint"
            )
        return msgspec.json.decode(envelope.savepoint, type=Savepoint)
    except msgspec.DecodeError as error:
        raise SavepointError(
            f"the savepoint {place.path(at)} is damaged: {error}. Restore its files from a copy, or take a new "
            f"savepoint"
        ) from error


def names_of(place: FileStore) -> list[str]:
    """Return the names of all savepoints, sorted."""
    found = [file.name for file in place.files()]
    return sorted(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX) and "/" not in name)


def remove_savepoint(place: FileStore, name: str) -> None:
    """Delete a savepoint: the manifest first, then its files.

    As soon as the manifest is gone, a driver may take another one of this name, so other files of this name stay.
    """
    try:
        folders = [read_savepoint(place, name).folder]
    except SavepointError:  # its manifest is damaged: while it exists, no driver begins another one of this name
        folders = _folders_of(place, name)
    place.delete([name + _SUFFIX])
    reach("savepoint.dropped")
    for folder in folders:
        place.remove(folder)


def remove_remains(place: FileStore, name: str, kept: str = "") -> None:
    """Delete the files of incomplete savepoints of this name (those without a manifest): all folders but `kept`."""
    for folder in _folders_of(place, name):
        if folder != kept:
            place.remove(folder)


def _folders_of(place: FileStore, name: str) -> list[str]:
    return [folder for folder in place.folders("") if folder.rpartition("-")[0] == name]


def content_of_state(place: FileStore, savepoint: Savepoint, name: str) -> pa.Table:
    """Return the entries of a state: key fields and stored value, each key once.

    Raises SavepointError if a file is missing or damaged.
    """
    saved = savepoint.states[name]
    schema = pa.ipc.read_schema(pa.py_buffer(saved.schema))
    parts = list[pa.Table]()
    for files in (saved.files, saved.later):
        try:
            parts.append(read_whole(place, FrozenFiles(savepoint.folder, files, schema)))
        except LogCorruptError as error:
            raise SavepointError(
                f"the savepoint {savepoint.name!r} is damaged: {error}. Restore its files from a copy, or take a new "
                f"savepoint"
            ) from error
    keys = schema.names[:-1]
    table = parts[0] if not keys else _last_of_each(pa.concat_tables(parts), keys)
    value = table.column(table.num_columns - 1)
    return table.filter(value.is_valid()) if value.null_count else table


def first_content_of(place: FileStore, savepoint: Savepoint, name: str) -> pa.Table:
    """Return a state's entries as its initial content in a fork or after a restore, with the savepoint's time."""
    content = with_time(content_of_state(place, savepoint, name), savepoint.time)
    return with_life(content, savepoint.states[name].ttl)


def _last_of_each(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the last row of each key."""
    rows = pa.table({"key": encode_keys(table.select(keys)), "row": np.arange(table.num_rows)})
    last = rows.group_by("key").aggregate([("row", "max")]).column("row_max")
    return table if len(last) == table.num_rows else table.take(last)


def info_of(savepoint: Savepoint) -> SavepointInfo:
    """Return a savepoint as callers see it."""
    states, files = savepoint.states, [f for s in savepoint.states.values() for f in (*s.files, *s.later)]
    entries = {name: sum(file.rows for file in (*state.files, *state.later)) for name, state in states.items()}
    held = tuple(sorted(name for name, stream in savepoint.streams.items() if not stream.forkable))
    size = sum(file.bytes for file in files)
    return SavepointInfo(savepoint.name, savepoint.topology, savepoint.time, savepoint.groups, entries, held, size)
