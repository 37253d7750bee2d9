"""The Delta table of one state: its last version, and commits that conflict with those of other drivers.

A commit names the version that it follows. deltalake creates the file of the next version, which is never replaced. If
other writers have committed versions meanwhile, deltalake refuses the commit if one of them set the same number.
"""

import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from trident.base.durable_files import fsync_folder
from trident.base.errors import (
    SourceUnreadableError,
    StateCorruptError,
    StateError,
    StateOwnedError,
    StateUnavailableError,
    TridentError,
)
from trident.base.forked_child import free_in_child
from trident.base.short_texts import one_line
from trident.files.delta_folder import UNSAFE, TableFolder, deltalake
from trident_state.delta.data_files import DataFile, check_of, file_of
from trident_state.delta.record import (
    COMPACTIONS,
    DROPPED,
    FILES,
    KEPT,
    MARKER,
    TAGS,
    StateProperties,
    TableVersion,
    application,
    read_expiry,
    read_lease,
    read_properties,
)
from trident_state.delta.tags import NO_TAGS, TagSet, is_tag_file, path_of_tags, read_tags
from trident_state.value_rules import UNSURE

_LOG = "_delta_log"
_NEED = "DeltaMapState needs the package deltalake"
_REFUSED = (
    "403 Forbidden",
    "401 Unauthorized",
    "lacked the necessary privileges",
    "NoSuchBucket",
    "Permission denied",
    "NotADirectory",
)


class MovedError(StateUnavailableError):
    """A later version of the table sets a number that the commit sets, too."""


class _ReplacedError(StateUnavailableError):
    """A file of a version is missing: either the version was replaced, or the table is damaged."""


class StateTable:
    """The table of one state. Any thread may read it; one thread commits."""

    def __init__(self, folder: TableFolder, where: str) -> None:
        self.folder, self._where = folder, where
        self._lock = free_in_child(threading.Lock())
        self._reader: Any = None
        self._writer: Any = None
        self._held: TableVersion | None = None
        self._stamp: object = None

    # --- read ------------------------------------------------------------------------------------------------

    def look(self) -> TableVersion | None:
        """Return the last version of the state; None if there is no table.

        Raises StateOwnedError if the folder holds anything else, StateUnavailableError if the storage does not answer.
        """
        deltalake(_NEED)  # even if the last version is known: a forked child is refused at once
        with self._lock, self._calling():
            if self._held is None or not self._is_last(self._held.version, self._stamp):
                try:
                    self._held = self._load()
                except _ReplacedError:  # the tags changed between two reads
                    self._reader = None
                    self._held = self._load()
            return self._held

    def _is_last(self, version: int, stamp: object) -> bool:
        """Return whether a version still exists and is the last one."""
        if stamp is None:  # the version had been cleaned up when its commit was looked for
            return False
        return self.folder.stamp(_commit(version + 1)) is None and self.folder.stamp(_commit(version)) == stamp

    def _load(self) -> TableVersion | None:
        held, known = self._reader, self._held
        if held is not None and known is not None and self.folder.stamp(_commit(known.version)) == self._stamp:
            held = self._updated(held)
        else:
            self._reader = held = self._open(None)
            self._writer = known = None  # the folder may have been replaced by a copy
        if held is None:
            return None
        self._stamp = self.folder.stamp(_commit(held.version()))
        return self._read(held, known)

    def _updated(self, table: Any) -> Any:
        """Return the last version of a table that was loaded earlier."""
        try:
            table.update_incremental()
        except deltalake(_NEED).exceptions.DeltaError:  # versions in between were cleaned up
            self._reader = table = self._open(None)
        return table

    def _open(self, version: int | None) -> Any:
        module = deltalake(_NEED)
        entries = self.folder.entries()
        if _LOG not in entries:
            if entries:
                raise StateOwnedError(
                    f"{self._where} cannot be kept there: the folder {self.folder.uri} has other files "
                    f"({', '.join(sorted(entries)[:3])}). Nothing was changed; use another url for the state"
                )
            return None
        try:
            return module.DeltaTable(self.folder.uri, version=version, storage_options=self.folder.storage_options)
        except module.exceptions.TableNotFoundError:
            return None

    def _read(self, table: Any, known: TableVersion | None) -> TableVersion:
        """Return the state in a loaded version. `known` is an earlier version of the same state, or None."""

        def number(part: str) -> int | None:
            found = table.transaction_version(application(part))
            return None if found is None else int(found)

        held: StateProperties = read_properties(table.metadata().configuration, self._where)
        same = known is not None and known.identity.log == held.identity.log
        actions = pa.table(table.get_add_actions())
        paths, sizes = actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist()
        where = f"{self._where}: version {table.version()} of its Delta table {self.folder.uri}"
        files = [file_of(path, size, where) for path, size in zip(paths, sizes, strict=True)]
        if (number(FILES) or 0) != check_of(files):
            raise StateCorruptError(
                f"{where} has files that the state did not write, or lacks some, because another program restored or "
                f"deleted files. Restore the version before that, or drop the state"
            )
        return TableVersion(
            int(table.version()),
            held.identity,
            held.fingerprint,
            held.kind,
            held.rows,
            held.birth,
            read_lease(number, known.lease if known is not None and same else None),
            number(MARKER) or 0,
            bool(number(DROPPED)),
            number(COMPACTIONS) or 0,
            read_expiry(number),
            tuple(sorted(files)),
            number(KEPT),
            self._tags(number(TAGS) or 0, known),
        )

    def _tags(self, number: int, known: TableVersion | None) -> TagSet:
        tags = read_tags(self.folder, number, NO_TAGS if known is None else known.tags, self._where)
        if tags is None:
            raise _ReplacedError(f"{self._where}: the file {path_of_tags(number)} of its table is missing")
        return tags

    def check_safe(self) -> None:
        """Raise StateError if a setting of this process lets deltalake overwrite another driver's version."""
        unsafe = next((name for name in os.environ if UNSAFE in name.lower()), None)
        if unsafe is not None:
            raise StateError(
                f"{self._where}: the variable {unsafe} is set, which lets two drivers create the same version of its "
                "table: unset it. An object store needs conditional writes (for S3, "
                "storageOptions={'conditional_put': 'etag'})"
            )

    # --- write -----------------------------------------------------------------------------------------------

    def create(
        self, schema: pa.Schema, properties: dict[str, str], numbers: Mapping[str, int], over: TableVersion | None
    ) -> None:
        """Create the table; with `over`, turn the table of a dropped state into a new one.

        The number that marks the state as dropped is removed last, so that an interrupted creation leaves no state.
        """
        module = deltalake(_NEED)
        with self._calling():
            if over is None:
                table = module.DeltaTable.create(
                    self.folder.uri,
                    schema,
                    mode="error",
                    configuration=properties,
                    raise_if_key_not_exists=False,
                    storage_options=self.folder.storage_options,
                    commit_properties=_numbered(module, numbers),
                )
                self._sync(0, table.version())
                return
            table = self._at(over.version)
            fence = {part: number for part, number in numbers.items() if part not in (DROPPED, MARKER)}
            module.write_deltalake(
                table,
                schema.empty_table(),
                mode="overwrite",
                schema_mode="overwrite",
                commit_properties=_numbered(module, fence),
                post_commithook_properties=_no_hooks(module),
            )
            # never follow a later version: another driver may have created the state meanwhile
            table = self._at(over.version + 1)
            table.alter.set_table_properties(
                properties, raise_if_not_exists=False, commit_properties=_numbered(module, numbers)
            )
            table.update_incremental()
            self._sync(over.version + 1, table.version())

    def commit(
        self,
        base: TableVersion,
        numbers: Mapping[str, int],
        becomes: Mapping[str, Any],
        added: Sequence[DataFile] = (),
        removed: Sequence[DataFile] = (),
        everything: bool = False,
    ) -> TableVersion:
        """Commit a version after `base` that adds and removes files. Return the last version.

        `becomes` holds the fields of `base` that change with the numbers. With `everything`, all files are removed.
        Raises MovedError if a version after `base` set one of the numbers.
        """
        module = deltalake(_NEED)
        now = int(time.time() * 1000)
        rewrites = bool(removed)
        if everything or (added and not rewrites):
            numbers = {**numbers, FILES: 0 if everything else check_of((*base.files, *added))}
        actions: list[Any] = [_added(module, file, now, not rewrites) for file in added]
        actions += [module.transaction.RemoveAction(file.path, False, now, file.size, {}) for file in removed]
        with self._calling():
            table = self._at(base.version)
            table.create_write_transaction(
                actions,
                "overwrite" if everything else "append",
                table.schema(),
                commit_properties=_numbered(module, numbers),
                post_commithook_properties=_no_hooks(module),
            )
            table.update_incremental()
            self._sync(base.version + 1, table.version())
            if table.version() == base.version + 1:  # reading the record back would take longer than writing it
                gone = {file.path for file in (base.files if everything else removed)}
                files = sorted((*(file for file in base.files if file.path not in gone), *added))
                at = base.version + 1
                version = msgspec.structs.replace(base, version=at, files=tuple(files), **becomes)
            else:
                version = self._read(table, base)
            stamp = self.folder.stamp(_commit(version.version))
        with self._lock:
            if self._held is None or self._held.version < version.version:
                self._held, self._stamp = version, stamp
        return version

    def _at(self, version: int) -> Any:
        """Return the table as of a version, for a commit that follows it."""
        if self._writer is None or self._writer.version() != version:
            self._writer = self._open(version)
        if self._writer is None:
            raise MovedError(f"{self._where}: its table has gone; the call is repeated")
        return self._writer

    def _sync(self, first: int, last: int) -> None:
        """Sync the commit files of some versions to the disk, if the table is on a local one."""
        if not self.folder.local:
            return
        log = Path(self.folder.uri) / _LOG
        for version in range(first, last + 1):
            _fsync(Path(self.folder.uri) / _commit(version))
        fsync_folder(log)
        if first == 0:
            for folder in (log.parent, log.parent.parent, log.parent.parent.parent):
                fsync_folder(folder)

    # --- end -------------------------------------------------------------------------------------------------

    def delete_files(self, dropped: TableVersion) -> None:
        """Delete the data files that are older than the version that dropped the state.

        Later files belong to a state that another driver has created since.
        """
        with self._calling():
            stamp = self.folder.stamp(_commit(dropped.version))
            if dropped.dropped and stamp is not None:
                for name in self.folder.names(""):
                    made = self.folder.stamp(name)
                    if _is_ours(name) and made is not None and made[1] < stamp[1]:
                        self.folder.delete(name)

    # --- upkeep ----------------------------------------------------------------------------------------------

    def delete(self, files: Iterable[DataFile]) -> None:
        """Delete files that no version names."""
        with self._calling():
            for file in files:
                self.folder.delete(file.path)

    def checkpoint(self) -> None:
        """Write a checkpoint of the last version, where readers start, and clean up old commit files."""
        with self._calling():
            table = self._open(None)
            table.create_checkpoint()
            if self.folder.local:
                log = Path(self.folder.uri) / _LOG
                for path in (*log.glob(f"{table.version():020}.checkpoint*"), log / "_last_checkpoint"):
                    _fsync(path)
                fsync_folder(log)
            table.cleanup_metadata()

    def old_files(self, needed: Set[str], before: float) -> list[str]:
        """Return the names of data and tag files that are not `needed` and are older than a time (s)."""
        with self._calling():
            names = [name for name in self.folder.names("") if _is_ours(name) and name not in needed]
            stamps = [self.folder.stamp(name) for name in names]
        return [name for name, made in zip(names, stamps, strict=True) if made is not None and made[1] < before * 1e9]

    def delete_named(self, names: Iterable[str]) -> None:
        """Delete data files."""
        with self._calling():
            for name in names:
                self.folder.delete(name)

    @contextmanager
    def _calling(self) -> Iterator[None]:
        try:
            yield
        except SourceUnreadableError as error:
            raise StateUnavailableError(f"{self._where}: {error}") from error
        except TridentError:
            raise
        except BaseException as error:  # deltalake also raises built-in errors, and panics
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            self._writer = None
            raise self._error(error) from error

    def _error(self, error: BaseException) -> StateError:
        said = one_line(error).partition(" 0: <unknown>")[0].partition("<?xml")[0]
        where = f"{self._where}: the Delta table {self.folder.uri}"
        if any(text in said for text in _REFUSED):
            return StateError(f"{where} refuses: {said}")
        if isinstance(error, deltalake(_NEED).exceptions.CommitFailedError) or "already exists" in said:
            return MovedError(f"{where} was changed by another driver meanwhile ({said}); the call is repeated")
        return StateUnavailableError(f"{where}: {said}; {UNSURE}")


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_ours(name: str) -> bool:
    return name.endswith(".parquet") or is_tag_file(name)


def _commit(version: int) -> str:
    return f"{_LOG}/{version:020}.json"


def _added(module: Any, file: DataFile, now: int, changes: bool) -> Any:
    stats = json.dumps({"numRecords": file.rows})
    return module.transaction.AddAction(file.path, file.size, {}, now, changes, stats)


def _numbered(module: Any, numbers: Mapping[str, int]) -> Any:
    held = [module.Transaction(application(part), number) for part, number in numbers.items()]
    return module.CommitProperties(app_transactions=held)


def _no_hooks(module: Any) -> Any:
    """Return commit properties that disable checkpoints and cleanup, which the upkeep does durably."""
    return module.PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
