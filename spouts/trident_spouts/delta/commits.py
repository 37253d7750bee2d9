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

    applications: frozenset[str]
    """The application ids whose version this commit sets (``txn``)."""

    @property
    def changes(self) -> bool:
        """Return whether the version changes or deletes rows, or brings back rows that the table had before.

        RESTORE adds the files that earlier versions removed, and perhaps removes none. Their rows are not new.
        """
        return bool(self.removed) or self.restores

    @property
    def restores(self) -> bool:
        """Return whether the version brings back a former version of the table."""
        return self.operation.upper() == "RESTORE"


def read_commit(version: int, content: bytes, shown: str) -> Commit:
    """Return a commit from the content of its file. Raises SourceUnreadableError if it is not a Delta commit."""
    try:
        actions = [json.loads(line) for line in content.splitlines() if line.strip()]
        return _commit_of(version, actions, zlib.crc32(content))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SourceUnreadableError(f"{shown}: {commit_path(version)} is not a Delta commit ({error})") from None


def _commit_of(version: int, actions: list[dict[str, Any]], check: int) -> Commit:
    adds, removes = ([each for each in _of_kind(actions, kind) if each.get("dataChange", True)]
                     for kind in ("add", "remove"))  # fmt: skip
    infos, metadata, protocols = (_of_kind(actions, kind) for kind in ("commitInfo", "metaData", "protocol"))
    return Commit(
        version,
        tuple(map(_data_file, adds)),
        tuple(map(_removed_file, removes)),
        tuple(map(_data_file, _of_kind(actions, "cdc"))),
        next((info["operation"] for info in reversed(infos) if info.get("operation")), ""),
        any(each.get("deletionVector") is not None for each in (*adds, *removes)),
        metadata[-1] if metadata else None,
        protocols[-1] if protocols else None,
        check,
        frozenset(each["appId"] for each in _of_kind(actions, "txn")),
    )


def _of_kind(actions: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [action[kind] for action in actions if action.get(kind)]


def _removed_file(remove: dict[str, Any]) -> DataFile:
    described = "size" in remove and remove.get("partitionValues") is not None
    return _data_file(remove if described else {"path": remove["path"], "size": 0})


def _data_file(action: dict[str, Any]) -> DataFile:
    stats = json.loads(action["stats"]) if action.get("stats") else {}
    values = tuple(sorted((action.get("partitionValues") or {}).items()))
    return DataFile(unquote(action["path"]), int(action["size"]), stats.get("numRecords"), values)
