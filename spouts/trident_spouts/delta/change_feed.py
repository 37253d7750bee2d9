"""The change data feed of a Delta table: the rows that each version adds and removes, with the kind of each change.

If the writer of a version wrote change files, only these are read. Otherwise all rows of its new files are insertions,
and all rows of its removed files are deletions. That is Delta's rule, and also correct for versions from before the
feed was enabled, in which a rewritten file gives each row as both.

A version is the difference of two tables, and its change files are unordered: a row may come before the one that it
replaces. So removed rows are read before added ones.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql.types import LongType, StringType, StructType

from trident.base.change_kinds import ADDS, CHANGE, KIND, KINDS
from trident.base.errors import SourceUnreadableError, SpoutContractError
from trident.base.spark_types import type_ddl
from trident_spouts.delta.commits import Commit
from trident_spouts.delta.table import vectors_error
from trident_spouts.tables.data_files import DataFile, OnlyRows

VERSION = "_commit_version"
"""The field for the version of each change, if the program declares it."""

ENABLED = "delta.enableChangeDataFeed"
_OWN = {CHANGE: StringType(), VERSION: LongType()}
_LEAVING = tuple(kind for kind in KINDS if kind not in ADDS)
_COMING = tuple(kind for kind in KINDS if kind in ADDS)


def with_kind(fields: StructType) -> StructType:
    """Return the fields with the kind of change, which is the last one unless the program declares it elsewhere."""
    for name in set(_OWN) & set(fields.names):
        if fields[name].dataType != _OWN[name]:
            written = type_ddl(fields[name].dataType)
            raise SpoutContractError(
                f"DeltaSpout: field {name!r} is declared as {written}: expected {type_ddl(_OWN[name])}"
            )
    return fields if CHANGE in fields.names else StructType([*fields.fields, *KIND.fields])


def without_own(fields: StructType) -> StructType:
    """Return the fields that the table itself has, without those of the feed."""
    return StructType([field for field in fields.fields if field.name not in _OWN])


def check_enabled(configuration: Mapping[str, Any], shown: str) -> None:
    """Raise SpoutContractError if the table has no change data feed."""
    if str(configuration.get(ENABLED)).lower() != "true":
        raise SpoutContractError(
            f"{shown}: the table keeps no change data feed, which changes=True reads. Enable it, in SQL: ALTER TABLE "
            f"... SET TBLPROPERTIES ({ENABLED} = true), or in Python: DeltaTable(path).alter.set_table_properties"
            f"({{{ENABLED!r}: 'true'}}). Versions from before that are read from whole files: the rows of a "
            f"rewritten file are deleted and inserted"
        )


def inserted(files: tuple[DataFile, ...], version: int) -> tuple[DataFile, ...]:
    """Return the files with only inserted rows of a version."""
    return tuple(_all_rows(file, "insert", version) for file in files)


def changes_of(commit: Commit, shown: str) -> tuple[DataFile, ...]:
    """Return the change files of a version, those with removed rows before those with added rows."""
    if commit.change_files:
        files = [_constants(file, (VERSION, commit.version)) for file in commit.change_files]
        return tuple(replace(file, only=OnlyRows(CHANGE, kinds)) for kinds in (_LEAVING, _COMING) for file in files)
    if commit.vectors:
        raise vectors_error(shown, f"version {commit.version}")
    for file in commit.removed:
        if not file.size:
            raise SourceUnreadableError(
                f"{shown}: version {commit.version} removed {file.path}, and the log has neither its size nor its "
                f"partition (extendedFileMetadata), so its rows cannot be read as deletions. Start a stream after "
                f"this version, with startingVersion="
            )
    deleted = tuple(_all_rows(file, "delete", commit.version) for file in commit.removed)
    return deleted + inserted(commit.files, commit.version)


def _all_rows(file: DataFile, kind: str, version: int) -> DataFile:
    return _constants(file, (CHANGE, kind), (VERSION, version))


def _constants(file: DataFile, *values: tuple[str, Any]) -> DataFile:
    return replace(file, constants=(*file.constants, *values))
