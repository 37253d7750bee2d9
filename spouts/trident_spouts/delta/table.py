"""The inspection of a Delta table with the package deltalake: its facts, its files, and whether it is readable."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from trident.base.errors import DataLossError, SourceUnreadableError, SpoutContractError
from trident.base.names import did_you_mean
from trident.base.short_texts import one_line
from trident.base.spark_types import ddl, schema_of, type_ddl
from trident.files.delta_folder import TableFolder, deltalake
from trident_spouts.delta.commits import LOG, versions_in
from trident_spouts.tables.data_files import DataFile

_READER_FEATURES = frozenset(
    {"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
)
"""The features of a table that this reader knows.

Mapped columns and deletion vectors are refused only if a table uses them, because many tables allow them and do not use
them.
"""


class Look(NamedTuple):
    """The facts about a table at one moment."""

    id: str
    """The id that the table got when it was created."""

    version: int
    """The last version."""

    earliest: int
    """The first version whose commit is still in the log."""

    schema: StructType
    configuration: Mapping[str, Any]


def look_at(folder: TableFolder) -> Look:
    """Return the facts about a table now. Raises SourceUnreadableError if the table is missing or cannot be read."""
    table = _load(folder, None)
    metadata, protocol = table.metadata(), table.protocol()
    check_readable(protocol.min_reader_version, protocol.reader_features or (), metadata.configuration, folder.shown)
    version = int(table.version())
    earliest = versions_in(folder.names(LOG))
    schema = schema_from(str(table.schema().to_json()))
    for name in metadata.partition_columns:
        if isinstance(schema[name].dataType, BinaryType):
            raise SourceUnreadableError(
                f"{folder.shown}: the table is partitioned by the binary column {name!r}, which DeltaSpout does "
                f"not support"
            )
    first = earliest[0] if earliest else version + 1
    return Look(str(metadata.id), version, first, schema, dict(metadata.configuration))


def check_readable(reader: int, features: Sequence[str], configuration: Mapping[str, Any], shown: str) -> None:
    """Raise SourceUnreadableError, which names the feature, if a table uses a feature that this reader lacks."""
    unknown = sorted({str(feature) for feature in features} - _READER_FEATURES)
    mapping = configuration.get("delta.columnMapping.mode") or "none"
    if reader > 3:
        unknown.append(f"reader version {reader}")
    if mapping != "none":
        unknown.append(f"columnMapping (mode {mapping})")
    if unknown:
        raise SourceUnreadableError(
            f"{shown}: the table has features that DeltaSpout does not read: {', '.join(unknown)}. Drop them from the "
            f"table (ALTER TABLE ... DROP FEATURE), or read it with SparkSpout and Delta's own connector"
        )


def vectors_error(shown: str, where: str) -> SourceUnreadableError:
    """Return the error for files with deletion vectors."""
    return SourceUnreadableError(
        f"{shown}: {where} has data files with deletion vectors, which DeltaSpout does not read. Rewrite the files "
        f"(REORG TABLE ... APPLY (PURGE)), or start a stream after this version, with startingVersion="
    )


def schema_from(text: str) -> StructType:
    """Return the fields of a table from its schema, which is JSON in the form that Spark uses."""
    fields = StructType.fromJson(json.loads(text)).fields
    return schema_of([StructField(field.name, field.dataType, field.nullable) for field in fields])


def check_fields(declared: StructType, table: StructType, shown: str) -> None:
    """Raise SpoutContractError unless the table has each declared field, with the declared type."""
    for field in declared.fields:
        if field.name not in table.names:
            near = did_you_mean(field.name, table.names)
            raise SpoutContractError(f"{shown}: the table has no field {field.name!r}; it has ({ddl(table)}){near}")
        kind = table[field.name].dataType
        if kind.simpleString() != field.dataType.simpleString():
            raise SpoutContractError(
                f"{shown}: the table has {field.name!r} as {type_ddl(kind)}, the topology reads it as "
                f"{type_ddl(field.dataType)}; restart the program if the table was changed, or correct schema="
            )


def snapshot_files(folder: TableFolder, version: int) -> tuple[DataFile, ...]:
    """Return all files of a table as of a version, in the order of their paths. Every call returns the same result.

    Raises DataLossError if the log does not reach back to that version any more.
    """
    try:
        table = _load(folder, version)
    except SourceUnreadableError as error:
        if look_at(folder).earliest <= version:
            raise
        raise DataLossError(
            f"{folder.shown}: version {version}, which is being read, is no longer in the table's log ({error}). Keep "
            f"the log for longer (delta.logRetentionDuration); to start over, give the stream another name, with "
            f"newStream(..., anew=True)"
        ) from error
    if "deletionVectors" in (table.protocol().reader_features or ()) and _has_vectors(table):
        raise vectors_error(folder.shown, f"version {version}")
    actions = pa.table(table.get_add_actions())
    partitions = actions.column("partition").to_pylist() if "partition" in actions.column_names else None
    files = [
        DataFile(unquote(path), size, rows, tuple(sorted(partitions[at].items())) if partitions else ())
        for at, (path, size, rows) in enumerate(
            zip(*(actions.column(name).to_pylist() for name in ("path", "size_bytes", "num_records")), strict=True)
        )
    ]
    return tuple(sorted(files, key=lambda file: file.path))


def _has_vectors(table: Any) -> bool:
    return any(len(batch) for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()))


def _load(folder: TableFolder, version: int | None) -> Any:
    delta = deltalake()
    try:
        return delta.DeltaTable(folder.uri, version=version, storage_options=folder.storage_options)
    except delta.exceptions.TableNotFoundError:
        raise SourceUnreadableError(f"{folder.shown}: there is no Delta table") from None
    except (delta.exceptions.DeltaError, OSError) as error:
        why = one_line(error).partition(" 0: <unknown>")[0]  # without deltalake's traceback
        raise SourceUnreadableError(f"{folder.shown}: cannot read the table: {why}") from error
