"""DeltaSpout: a spout of the rows that are added to a Delta table, or of all changes of its rows."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from pyspark.sql.types import StructType

from trident.base.argument_checks import check_choice, check_flag, check_whole_number
from trident.base.attempt import TransactionAttempt
from trident.base.descriptions import Written, described, keep
from trident.base.errors import TopologyError
from trident.base.short_texts import typed_brief
from trident.base.spark_types import arrow_schema
from trident.files.delta_folder import check_storage_options, deltalake, folder_of
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.configurable import configurable
from trident_spouts.delta.change_feed import check_enabled, with_kind, without_own
from trident_spouts.delta.planner import Limits, OnChange, Planner, Range, StartingVersion
from trident_spouts.delta.table import look_at
from trident_spouts.executor import Emission, Metadata, ReadSoFar, SpoutExecutor, SpoutKind
from trident_spouts.rows import read_schema
from trident_spouts.tables.emission import DataFilesEmission

_MOST_FILES = 1000
_MOST_BYTES = 128 << 20
_STARTS = ("snapshot", "earliest", "latest")


@configurable
@dataclass(frozen=True, init=False, repr=False, eq=False)
class DeltaSpout:
    """A spout of the rows that are added to a Delta table, version by version, each read once.

    A batch is a range of the data files that versions of the table have added; its metadata names the versions and the
    table's id. The driver reads the table's log, with the package deltalake. The Parquet files are read by Spark's
    workers, or by the driver on the embedded engine. No connector and no jar is needed.

    Rows that only move to other files (OPTIMIZE) are not read again. A version that deletes or changes rows stops the
    stream, unless `onChange` says otherwise. With `changes` the stream has all changes of the table's rows.

    Parameters
    ----------
    path : str or path
        The table's folder, or its address on an object store, ``"s3://bucket/orders"``. Every worker must reach it.
    schema : str or StructType, optional
        The fields to read, with the types that they have in the table; by default all fields that the table has when
        the topology is built. A field that was added to the table later is null in older rows.
    startingVersion : "snapshot", "earliest", "latest" or int
        The beginning of a new stream: with all present rows of the table, followed by the rows added later
        ("snapshot"); with the rows added by version 0 ("earliest") or by a later version (its number); or with the rows
        that are added from now on ("latest"). A stream that has a batch in the log continues after that batch.
    onChange : "fail" or "skip"
        The reaction to a version that deletes or changes rows (DELETE, UPDATE, MERGE, an overwrite). "fail" stops the
        stream with SourceChangedError. "skip" leaves out the version, including the rows that it adds, and logs a
        warning, as Delta's option ``skipChangeCommits`` does.
    changes : bool
        True: read the table's change data feed, with the kind of each change in the field ``_change_type``, for
        `asChanges`. All rows that the table has at the start are insertions. The table must have
        ``delta.enableChangeDataFeed``. A field ``_commit_version bigint`` in `schema` has the version of each change.
    maxFilesPerBatch : int
        The most data files in one batch.
    maxBytesPerBatch : int
        The most bytes of data files in one batch; a larger file is a separate batch.
    storageOptions : mapping, optional
        Options of deltalake for the object store, such as ``AWS_REGION``. A value ``"env:NAME"`` or ``"file:path"`` is
        read from that variable or file, on the driver and on the workers, so that no program has to contain a secret.

    Raises
    ------
    DataLossError
        The table was dropped and created again, or restored; or its log was cleaned up, or VACUUM removed data files,
        before they were read.
    SourceChangedError
        A version deletes or changes rows, and `onChange` is "fail".
    SourceUnreadableError
        There is no table, or it uses a feature that this reader does not know: deletion vectors, mapped columns.
    SpoutContractError
        The table lacks fields of the topology, or has them with other types.
    MissingPackageError
        The package deltalake is not installed.

    Examples
    --------
    >>> DeltaSpout("/lake/orders", "id long, price double", startingVersion="latest")
    DeltaSpout('/lake/orders', 'id bigint, price double', startingVersion='latest')
    """

    path: str
    startingVersion: StartingVersion
    onChange: OnChange
    changes: bool
    maxFilesPerBatch: int
    maxBytesPerBatch: int
    storageOptions: Mapping[str, str]
    _schema: list[StructType] = field(compare=False)
    """A list that holds the fields once they were read. (The dataclass is frozen, but a list can change.)"""
    kind = SpoutKind.TRANSACTIONAL
    forkable = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: str | StructType | None = None,
        *,
        startingVersion: StartingVersion = "snapshot",
        onChange: OnChange = "fail",
        changes: bool = False,
        maxFilesPerBatch: int = _MOST_FILES,
        maxBytesPerBatch: int = _MOST_BYTES,
        storageOptions: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise TopologyError(f"DeltaSpout: path={typed_brief(path)}: expected the folder or address of a table")
        if startingVersion not in _STARTS:
            _check_version(startingVersion)
        check_choice("DeltaSpout: onChange", onChange, get_args(OnChange))
        check_flag("DeltaSpout: changes", changes)
        if changes and onChange != "fail":
            raise TopologyError("DeltaSpout: onChange='skip' is for changes=False; changes=True reads all changes")
        check_whole_number("DeltaSpout: maxFilesPerBatch", maxFilesPerBatch)
        check_whole_number("DeltaSpout: maxBytesPerBatch", maxBytesPerBatch)
        try:
            options = check_storage_options(storageOptions)
        except TopologyError as error:
            raise TopologyError(f"DeltaSpout: {error}") from None
        keep(
            self,
            path=os.fspath(path),
            startingVersion=startingVersion,
            onChange=onChange,
            changes=changes,
            maxFilesPerBatch=maxFilesPerBatch,
            maxBytesPerBatch=maxBytesPerBatch,
            storageOptions=options,
            _schema=[] if schema is None else [_fields(read_schema(schema), changes)],
        )

    @property
    def schema(self) -> StructType:
        """The declared fields; if none are declared, the fields that the table had at the first call."""
        if not self._schema:
            folder = folder_of(self.path, self.storageOptions)
            look = look_at(folder)
            if self.changes:
                check_enabled(look.configuration, folder.shown)
            self._schema.append(_fields(look.schema, self.changes))
        return self._schema[0]

    def open(self) -> SpoutExecutor:
        """Return the executor of one run."""
        deltalake()
        return _DeltaExecutor(self)

    @staticmethod
    def position_by_part(position: Metadata) -> dict[str, Metadata]:
        """Return the last version that was read, and how many files of it, unless all were."""
        return Range.from_metadata(position).by_part

    def __repr__(self) -> str:
        options = Written(f"{{{', '.join(f'{name!r}: ...' for name in self.storageOptions)}}}")
        schema = self._schema[0] if self._schema else None
        return described(self, schema=schema, storageOptions=options if self.storageOptions else None)


def _fields(fields: StructType, changes: bool) -> StructType:
    return with_kind(fields) if changes else fields


def _check_version(version: object) -> None:
    check_whole_number("DeltaSpout: startingVersion", version, 0, error=_version_error)


def _version_error(message: str) -> TopologyError:
    return TopologyError(f"{message}, or {', '.join(map(repr, _STARTS))}")


class _DeltaExecutor(SpoutExecutor):
    """The executor of a DeltaSpout. It plans ranges of data files from the table's log, and emits them by reference."""

    plans_ahead = True

    def __init__(self, spout: DeltaSpout) -> None:
        self._folder = folder_of(spout.path, spout.storageOptions)
        self._schema = spout.schema
        arrow_schema(self._schema)  # raises an error if neither Arrow nor Spark can read a type
        limits = Limits(spout.maxFilesPerBatch, spout.maxBytesPerBatch)
        own = without_own(self._schema) if spout.changes else self._schema
        self._planner = Planner(self._folder, own, spout.startingVersion, limits, spout.onChange, spout.changes)

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        range_ = self._planner.next(previous, budget)
        return None if range_ is None else range_.to_metadata()

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        return DataFilesEmission(self._planner.files_of(Range.from_metadata(metadata)), self._folder, self._schema)

    def read_so_far(self, position: Metadata) -> ReadSoFar | None:
        return self._planner.read_so_far(position)
