"""Plans of batches: the data files of a Delta table to read next, and a check that no unread data is lost."""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from time import monotonic
from typing import Literal, NamedTuple, TypeAlias

from pyspark.sql.types import StructType

from trident.base.errors import (
    DataLossError,
    SourceChangedError,
    SourceUnreadableError,
    SpoutContractError,
    TopologyError,
)
from trident.files.delta_folder import TableFolder
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.delta.change_feed import changes_of, check_enabled, inserted
from trident_spouts.delta.commits import LOG, Commit, commit_path, read_commit, versions_in
from trident_spouts.delta.table import (
    Look,
    check_fields,
    check_readable,
    look_at,
    schema_from,
    snapshot_files,
    vectors_error,
)
from trident_spouts.executor import Metadata, ReadSoFar
from trident_spouts.tables.data_files import DataFile
from trident_spouts.user_calls import foreign_metadata_error

OnChange: TypeAlias = Literal["fail", "skip"]
StartingVersion: TypeAlias = int | Literal["snapshot", "earliest", "latest"]

_KEPT_COMMITS = 256
_MOST_COMMITS = 1000
"""The most commits that one plan reads."""
_LISTING_SECS = 5.0
_ANEW = "to start over, give the stream another name, with newStream(..., anew=True)"

log = logging.getLogger("trident.spouts")


class TablePosition(NamedTuple):
    """A position between two data files of a table: after the first `file` new files of the version `version`.

    If `snapshot` is true, `file` counts all files of the table as of that version, not only the new files.
    """

    version: int
    file: int
    snapshot: bool = False


class Range(NamedTuple):
    """The files between two positions. As metadata, the range names a batch."""

    table: str
    """The table's id."""

    start: TablePosition
    end: TablePosition
    check: int | None
    """The checksum of the commit that was read last; None if the commit was no longer in the log."""

    changes: bool = False
    """True if the files are those of the change data feed, which positions count differently."""

    def to_metadata(self) -> Metadata:
        """Return the range as JSON."""
        feed = {"changes": True} if self.changes else {}
        return {"table": self.table, "from": [*self.start], "to": [*self.end], "check": self.check, **feed}

    @staticmethod
    def from_metadata(metadata: Metadata) -> "Range":
        """Return the range that a batch names. Raises SpoutContractError if another spout wrote it."""
        if not isinstance(metadata, dict) or metadata.keys() - {"changes"} != {"table", "from", "to", "check"}:
            raise foreign_metadata_error("DeltaSpout", metadata)
        start, end = TablePosition(*metadata["from"]), TablePosition(*metadata["to"])
        return Range(metadata["table"], start, end, metadata["check"], metadata.get("changes", False))

    @property
    def by_part(self) -> dict[str, Metadata]:
        """The last version that was read, and how many files of it, unless all were.

        >>> Range("t", TablePosition(3, 0), TablePosition(5, 0), None).by_part
        {'version': 4}
        >>> Range("t", TablePosition(3, 0), TablePosition(5, 2, snapshot=True), None).by_part
        {'version': 5, 'files': 2, 'snapshot': True}
        """
        version, file, snapshot = self.end
        if not file and not snapshot:
            return {"version": version - 1}
        return {"version": version, "files": file, **({"snapshot": True} if snapshot else {})}


class Limits(NamedTuple):
    """The maximum size of a batch."""

    files: int
    bytes: int


class _Room:
    """The remaining room in a batch. An empty batch accepts one file of any size."""

    def __init__(self, limits: Limits, budget: Budget) -> None:
        self._files, self._bytes = limits.files, budget.bytes_within(limits.bytes)
        self._rows = budget.rows
        self._empty = True

    def takes(self, files: Sequence[DataFile]) -> int:
        """Take files, in order, as long as they fit into the batch, and return how many were taken."""
        for number, file in enumerate(files):
            rows = file.rows or 0
            full = self._files < 1 or self._bytes < file.size or (self._rows is not None and self._rows < rows)
            if full and not self._empty:
                return number
            self._files, self._bytes, self._empty = self._files - 1, self._bytes - file.size, False
            self._rows = None if self._rows is None else self._rows - rows
        return len(files)


class Planner:
    """Plans the batches of one run, and finds their files again. One thread at a time calls it."""

    def __init__(
        self,
        folder: TableFolder,
        schema: StructType,
        starting: StartingVersion,
        limits: Limits,
        policy: OnChange,
        changes: bool = False,
    ) -> None:
        self._folder = folder
        self._schema = schema
        self._starting = starting
        self._limits = limits
        self._policy = policy
        self._changes = changes
        self._look: Look | None = None
        self._begun: TablePosition | None = None
        """The first position of a stream without a batch. It is kept, so that "latest" always means the same
        position."""
        self._commits: OrderedDict[int, Commit] = OrderedDict()
        self._stamps: dict[int, tuple[int, int] | None] = {}
        """The stamp of the commit before the position of the last plan, by the commit's version."""
        self._snapshot: tuple[int, tuple[DataFile, ...]] | None = None
        self._skipped: set[int] = set()
        self._listed = 0.0
        self._measured: tuple[int, int] | None = None
        """The table's version at the start of this run, and the last known version."""

    def next(self, previous: Metadata, budget: Budget = NO_LIMIT) -> Range | None:
        """Return the range that follows the batch `previous`; None if there is nothing new.

        A range may be empty: it then records the first position of the stream, or skips versions without new rows.
        Raises DataLossError if unread data is lost, and SourceChangedError if rows were changed or deleted.
        """
        before = None if previous is None else Range.from_metadata(previous)
        if before is None:
            position = self._first_position()
        else:
            position = before.end
            self._check_same_mode(before)
            self._check_same_table(before)
        look, room = self._look, _Room(self._limits, budget)
        assert look is not None, "the plan and the check have both read the table's state"
        end = self._end_in_snapshot(position, room) if position.snapshot else self._end_in_log(position, room)
        if end != position and not self._unchanged(position):  # so that all commits of a plan belong to the same table
            raise SourceUnreadableError(
                f"{self._folder.shown}: the table was recreated while the spout planned a batch; the batch is planned "
                f"again"
            )
        self._measure(position, end, look)
        if end == position and (before is not None or self._starting != "latest"):
            return None
        return Range(look.id, position, end, self._check_of(_last_of(end)), self._changes)

    def files_of(self, range_: Range) -> tuple[DataFile, ...]:
        """Return the files of a range. Raises DataLossError if the table's log no longer names them."""
        start, end = range_.start, range_.end
        if start.snapshot:
            files = self._files_as_of(start.version)
            return files[start.file : end.file if end.snapshot else None]
        files_ = list[DataFile]()
        for version in range(start.version, end.version + (end.file > 0)):
            commit = self._commit(version)
            if commit is None:
                raise self._gone_error(version)
            files = self._new_files(commit)
            files_ += files[start.file * (version == start.version) : end.file if version == end.version else None]
        return tuple(files_)

    def read_so_far(self, position: Metadata) -> ReadSoFar | None:
        """Return how many of the table's known versions were read, and how many there are; None before the first look.

        Any thread may call this.
        """
        measured = self._measured
        if measured is None:
            return None
        first, last = measured
        at = Range.from_metadata(position).end if position is not None else None
        done = 0 if at is None or at.snapshot else max(0, at.version - first)
        return ReadSoFar(min(done, last + 1 - first), last + 1 - first, "versions")

    # --- the beginning of a plan --------------------------------------------------------------------------------------

    def _first_position(self) -> TablePosition:
        """Return the position at which a stream that has had no batch yet starts reading.

        It is chosen once, and again only if the table at the path is replaced by a table with another id.
        """
        if self._begun is None or not self._unchanged(self._begun):
            former = self._look
            look = self._look_again()
            if self._begun is None or former is None or former.id != look.id:
                self._commits.clear()
                self._snapshot = None
                self._begun = self._beginning(look)
            self._remember(self._begun)
        return self._begun

    def _beginning(self, look: Look) -> TablePosition:
        if self._starting == "snapshot":
            return TablePosition(look.version, 0, snapshot=True)
        if self._starting == "latest":
            return TablePosition(look.version + 1, 0)
        version = 0 if self._starting == "earliest" else self._starting
        if version > look.version + 1:
            raise TopologyError(
                f"{self._folder.shown}: startingVersion={version}, but the table is at version {look.version}; "
                f"expected a version from 0 to {look.version + 1}"
            )
        if version < look.earliest and version <= look.version:
            raise DataLossError(
                f"{self._folder.shown}: startingVersion={self._starting!r}, but the table's log begins with version "
                f"{look.earliest}: older versions were cleaned up. Start with startingVersion='snapshot' (all rows "
                f"that the table has now, then those added later) or startingVersion={look.earliest}"
            )
        return TablePosition(version, 0)

    def _check_same_mode(self, before: Range) -> None:
        """Raise SpoutContractError if the batch `before` was read in the other mode, whose positions differ."""
        if before.changes != self._changes:
            raise SpoutContractError(
                f"{self._folder.shown}: the stream was read with changes={before.changes}, but the program now has "
                f"changes={self._changes}, which counts positions differently; {_ANEW}"
            )

    def _check_same_table(self, before: Range) -> None:
        """Raise DataLossError if the table is not that of the batch `before`, or is at an earlier version."""
        position, last = before.end, _last_of(before.end)
        if self._unchanged(position):
            return
        look = self._look_again()
        if look.id != before.table:
            raise DataLossError(
                f"{self._folder.shown}: the table was dropped and recreated (id {before.table} before, {look.id} "
                f"now), and its unread rows are gone; {_ANEW}"
            )
        commit = self._read(last)
        other = commit is not None and before.check not in (None, commit.check)
        if look.version < last or other:
            raise DataLossError(
                f"{self._folder.shown}: version {last} is not the one that the topology read: the table was restored "
                f"from a copy, and is now at version {look.version}; {_ANEW}"
            )
        self._remember(position)

    def _unchanged(self, position: TablePosition) -> bool:
        """Return whether the commit before a position is the same as when this run read it.

        A commit never changes. So if it has changed or is gone, the table may be another table.
        """
        last = _last_of(position)
        return last < 0 or (last in self._stamps and self._stamps[last] == self._folder.stamp(commit_path(last)))

    def _remember(self, position: TablePosition) -> None:
        last = _last_of(position)
        self._stamps = {last: self._folder.stamp(commit_path(last)) if last >= 0 else None}

    def _look_again(self) -> Look:
        self._look = look_at(self._folder)
        check_fields(self._schema, self._look.schema, self._folder.shown)
        if self._changes:
            check_enabled(self._look.configuration, self._folder.shown)
        return self._look

    # --- the end of a plan --------------------------------------------------------------------------------------------

    def _end_in_snapshot(self, position: TablePosition, room: _Room) -> TablePosition:
        files = self._files_as_of(position.version)
        index = position.file + room.takes(files[position.file :])
        return (
            TablePosition(position.version, index, snapshot=True)
            if index < len(files)
            else TablePosition(position.version + 1, 0)
        )

    def _end_in_log(self, position: TablePosition, room: _Room) -> TablePosition:
        version, index = position.version, position.file
        while version < position.version + _MOST_COMMITS and (commit := self._commit(version)) is not None:
            files = self._new_files(commit)[index:]
            taken = room.takes(files)
            if taken < len(files):
                return TablePosition(version, index + taken)
            version, index = version + 1, 0
        if version == position.version and self._look is not None and version <= self._look.version:
            raise self._gone_error(version)
        return TablePosition(version, index)

    def _gone_error(self, version: int) -> DataLossError:
        return DataLossError(
            f"{self._folder.shown}: version {version} was cleaned up from the table's log before it was read. Keep the "
            f"log for longer than the topology may be stopped (delta.logRetentionDuration); {_ANEW}"
        )

    # --- the table's commits -----------------------------------------------------------------------------------------

    def _commit(self, version: int) -> Commit | None:
        """Return a commit; None if there is none in the log."""
        if version in self._commits:
            self._commits.move_to_end(version)
            return self._commits[version]
        stamp = self._folder.stamp(commit_path(version))  # before the read, so that a later change is noticed
        commit = None if stamp is None else self._read(version)
        if commit is None:
            return None
        self._stamps[version] = stamp
        self._check_commit(commit)
        self._commits[version] = commit
        if len(self._commits) > _KEPT_COMMITS:
            self._stamps.pop(self._commits.popitem(last=False)[0], None)
        return commit

    def _read(self, version: int) -> Commit | None:
        content = self._folder.read(commit_path(version))
        return None if content is None else read_commit(version, content, self._folder.shown)

    def _check_commit(self, commit: Commit) -> None:
        """Check that files can still be read as before, if a version changes the table's schema or features."""
        shown = f"{self._folder.shown}, version {commit.version}"
        if commit.protocol is not None:
            protocol = commit.protocol
            check_readable(int(protocol.get("minReaderVersion", 1)), protocol.get("readerFeatures") or (), {}, shown)
        if commit.metadata is not None:
            configuration = commit.metadata.get("configuration") or {}
            check_readable(1, (), configuration, shown)
            if self._look is not None and commit.version > self._look.version:
                check_fields(self._schema, schema_from(commit.metadata["schemaString"]), shown)
                if self._changes:
                    check_enabled(configuration, shown)

    def _new_files(self, commit: Commit) -> tuple[DataFile, ...]:
        """Return the new files of a version, or those with its changes.

        Return no files if the version changes or deletes rows and `onChange` is "skip".
        """
        if self._changes:
            return self._own(changes_of(commit, self._folder.shown))
        what = "changes or deletes rows" if commit.removed else "brings back rows"
        if commit.changes and self._policy == "fail":
            raise SourceChangedError(
                f"{self._folder.shown}: version {commit.version} ({commit.operation or 'no operation named'}) {what} "
                f"that the table had (files {'replaced or removed' if commit.removed else 'added again'}: "
                f"{len(commit.removed or commit.files)}). To follow such changes, read them with changes=True; to "
                f"skip such versions, including the rows that they add, start with onChange='skip'"
            )
        if commit.changes:
            if commit.version not in self._skipped:
                self._skipped.add(commit.version)
                log.warning(
                    "%s: version %s (%s) %s: skipped because of onChange='skip'",
                    self._folder.shown, commit.version, commit.operation, what,
                )  # fmt: skip
            return ()
        if commit.vectors:
            raise vectors_error(self._folder.shown, f"version {commit.version}")
        return self._own(commit.files)

    def _files_as_of(self, version: int) -> tuple[DataFile, ...]:
        if self._snapshot is None or self._snapshot[0] != version:
            files = self._own(snapshot_files(self._folder, version))
            self._snapshot = version, inserted(files, version) if self._changes else files
        return self._snapshot[1]

    def _own(self, files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
        """Return the files. Raises SourceUnreadableError if a file is outside the table, as in a shallow clone."""
        for file in files:
            if "://" in file.path or file.path.startswith(("/", "file:")):
                raise SourceUnreadableError(
                    f"{self._folder.shown}: its data file {file.path} is outside the table: shallow clones are not "
                    f"supported; read the original table instead"
                )
        return files

    def _check_of(self, version: int) -> int | None:
        """Return the checksum of a commit; None if the commit is not in the log."""
        commit = self._commits.get(version) or (self._read(version) if version >= 0 else None)
        return None if commit is None else commit.check

    def _measure(self, start: TablePosition, end: TablePosition, look: Look) -> None:
        """Record the latest version of the table.

        While the run lags behind the table, it lists the log only now and then.
        """
        first, last = self._measured or (start.version, look.version)
        behind = end.file > 0 or end.snapshot
        if behind and monotonic() - self._listed > _LISTING_SECS:
            self._listed = monotonic()
            last = max([last, *versions_in(self._folder.names(LOG))])
        self._measured = first, max(last, look.version, end.version if behind else end.version - 1)


def _last_of(position: TablePosition) -> int:
    """Return the version of the commit that was read last before a position; -1 if there was no such commit."""
    return position.version if position.snapshot or position.file else position.version - 1
