"""Commits of a Delta table's log. A commit is one file of JSON lines for a version, which never changes."""

import json
import re
import zlib
from typing import Any, NamedTuple
from urllib.parse import unquote

from trident.base.errors import SourceUnreadableError
from trident_spouts.tables.data_files import DataFile

LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")


def commit_path(version: int) -> str:
    """Return the path of a version's commit within the table.

    >>> commit_path(7)
    '_delta_log/00000000000000000007.json'
    """
    return f"{LOG}/{version:020}.json"


def versions_in(names: list[str]) -> list[int]:
    """Return the versions with commits among the files of a log, sorted.

    >>> versions_in(["00000000000000000002.json", "00000000000000000001.checkpoint.parquet", "_last_checkpoint"])
    [2]
    """
    return sorted(int(match[1]) for name in names if (match := _COMMIT.fullmatch(name)))


class Commit(NamedTuple):
    """The changes that one version made to the table."""

    version: int
    files: tuple[DataFile, ...]
    """The files with new rows, in the commit's order. Files whose rows only moved (OPTIMIZE) are left out."""

    removed: tuple[DataFile, ...]
    """The files whose rows were deleted or changed. The size is 0 if the log does not describe the file."""

    change_files: tuple[DataFile, ...]
    """The files with the changed rows and the kind of each change, if the writer made any."""

    operation: str
    """The writer's name for the operation: WRITE, DELETE, MERGE; "" if the commit has no name."""

    vectors: bool
    """True if a file has or had a deletion vector, which means that some of its rows do not count."""

    metadata: dict[str, Any] | None
    """The table's metadata, if the version sets them: its id, schema and configuration."""

    protocol: dict[str, Any] | None
    """The table's protocol, if the version sets it."""

    check: int
    """A checksum of the commit's file, which distinguishes the commits of two tables under one path."""

    @property
    def changes(self) -> bool:
        """Return whether the version changes or deletes rows, or brings back rows that the table had before.

        RESTORE adds the files that earlier versions removed, and perhaps removes none. Their rows are not new.
        """
        return bool(self.removed) or self.operation.upper() == "RESTORE"


def read_commit(version: int, content: bytes, shown: str) -> Commit:
    """Return a commit from the content of its file. Raises SourceUnreadableError if it is not a Delta commit."""
    files, removed, changed, vectors, operation = list[DataFile](), list[DataFile](), list[DataFile](), False, ""
    metadata = protocol = None
    try:
        for line in content.splitlines():
            action = json.loads(line) if line.strip() else {}
            add, remove = action.get("add"), action.get("remove")
            if add is not None and add.get("dataChange", True):
                files.append(_data_file(add))
                vectors = vectors or add.get("deletionVector") is not None
            if remove is not None and remove.get("dataChange", True):
                known = "size" in remove and remove.get("partitionValues") is not None
                removed.append(_data_file(remove if known else {"path": remove["path"], "size": 0}))
                vectors = vectors or remove.get("deletionVector") is not None
            if action.get("cdc") is not None:
                changed.append(_data_file(action["cdc"]))
            metadata = action.get("metaData") or metadata
            protocol = action.get("protocol") or protocol
            operation = (action.get("commitInfo") or {}).get("operation") or operation
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SourceUnreadableError(f"{shown}: {commit_path(version)} is not a Delta commit ({error})") from None
    parts = tuple(files), tuple(removed), tuple(changed)
    return Commit(version, *parts, operation, vectors, metadata, protocol, zlib.crc32(content))


def _data_file(action: dict[str, Any]) -> DataFile:
    stats = json.loads(action["stats"]) if action.get("stats") else {}
    values = tuple(sorted((action.get("partitionValues") or {}).items()))
    return DataFile(unquote(action["path"]), int(action["size"]), stats.get("numRecords"), values)
