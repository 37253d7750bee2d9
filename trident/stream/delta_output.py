"""The verb that writes a stream into a Delta table."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import pyspark.sql.types as spark

from trident.base.change_kinds import CHANGE
from trident.base.errors import DuplicateFieldError, TopologyError, TypeDeclarationError
from trident.base.names import FieldsLike
from trident.base.short_texts import typed_brief
from trident.base.spark_types import type_ddl
from trident.base.verb_call import Step
from trident.files.delta_folder import UNSAFE
from trident.operations.upserts import Partitioned
from trident.plan import nodes
from trident.plan.change_order import consolidated
from trident.plan.delta_target import DeltaTarget
from trident.stream.base import StreamBase, StreamT
from trident.stream.keyed_outputs import row_key
from trident.stream.outputs import check_output, output_name, parquet_partitions
from trident.stream.value_checks import add_check

_NOT_IN_NAMES = re.compile(r"[ ,;{}()\n\t=`]")
_ATOMIC = (
    spark.StringType,
    spark.BinaryType,
    spark.BooleanType,
    spark.DateType,
    spark.TimestampType,
    spark.TimestampNTZType,
    spark.NumericType,
)


class DeltaOutputVerbs(StreamBase[StreamT]):
    """The verb that writes every batch into a Delta table."""

    __slots__ = ()

    def writeDelta(
        self,
        path: "str | Path",
        *,
        key: FieldsLike | None = None,
        partitionBy: FieldsLike | None = None,
        name: str | None = None,
        storageOptions: Mapping[str, str] | None = None,
    ) -> StreamT:
        """Write every tuple into a Delta table, exactly once, and return this stream.

        Each batch is one version of the table, written after every state of the batch group holds the batch. The
        version also records the batch's txid, in Delta's log (``txn``). If a batch is handed over again after a crash,
        its txid is already recorded there, and it is skipped. A driver that was replaced cannot write, because the
        record names the later driver. The driver writes, with the package deltalake: all tuples of a batch pass
        through it. Meaning: ``DataStreamWriter.format("delta")``, or with `key` a ``foreachBatch`` with MERGE.

        Without `key`, each tuple is a new row. With `key`, the last tuple of each key in a batch replaces the row of
        this key or inserts it. A stream of changes needs a `key`; its deletions delete rows, and which change of a key
        is the last one is decided as in `toTable`.

        Parameters
        ----------
        path : path
            The folder of the table on a local disk, or its address on an object store, ``"s3://bucket/orders"``. A
            missing table is created at the start. An existing table must have a column for each field; its other
            columns are null in new rows, and keep their values in replaced rows.
        key : str or list of str, optional
            The fields that identify a row, without arrays and structs. A null in one of them fails the batch before it
            is frozen.
        partitionBy : str or list of str, optional
            The fields by which the table is partitioned, of type string, integer, boolean or date. A text that
            is empty, or too long for the name of a folder, fails the batch before it is frozen.
        name : str, optional
            The output's identity over restarts; ``<stream>.writeDelta`` if omitted.
        storageOptions : mapping, optional
            Options of deltalake for the object store, as for `DeltaSpout`; a value may be ``"env:NAME"`` or
            ``"file:path"``.

        Raises
        ------
        TypeDeclarationError
            If Delta cannot hold a field, or a field cannot be a key or a partition.
        OutputRefusedError
            When the topology starts: a column is missing or has another type, or the table has other partitions. When
            it runs: a constraint of the table refuses a row. The batch stays frozen.
        OutputUnavailableError
            When the topology runs: the place does not answer or is full, or another writer changed the table
            meanwhile. The commit is repeated for `commitRetrySecs`.
        OutputConflictError
            When the topology starts: the record of the output belongs to another log, is ahead of this log, or lacks
            batches that the output wrote (a table that was restored); or the folder has files and no table.
        MissingPackageError
            The package deltalake is not installed.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> orders = TridentTopology().newStream("orders", FixedBatchSpout("id long, price double", [[(1, 2.5)]]))
        >>> orders.writeDelta("/lake/orders", key="id")
        Stream(orders/0:newStream(FixedBatchSpout): id bigint, price double)
        """
        step = self._step("writeDelta")
        check_output(self, step)
        keys = row_key(self, key, "writeDelta", step)
        own = [field for field in self.schema.fields if not (self._changes and field.name == CHANGE)]
        fields = spark.StructType(own)
        partitions = parquet_partitions(fields, partitionBy, step)
        _check_names(fields, step)
        _check_keys(fields, keys, step)
        uri, options = _place(path, storageOptions, step)
        target = DeltaTarget(uri, options, keys, partitions, self._changes, consolidated(self._node))
        name = output_name(self, "writeDelta", name, step)
        texts = tuple(each for each in partitions if isinstance(fields[each].dataType, spark.StringType))
        checked = (*keys, *(each for each in texts if each not in keys))
        node = add_check(self, checked, Partitioned(checked, len(keys), texts), step)
        self._register.add(self._label, nodes.WriteDelta(node, name, target, **step.gives(self.schema)))
        return cast("StreamT", self)


def _place(path: object, given: object, step: Step) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the address of a table and the sorted options of its store."""
    # Imported only here, because the module loads Arrow's file systems.
    from trident.files.delta_folder import check_storage_options, folder_of

    if not isinstance(path, str | Path) or not str(path):
        raise step.wrong(
            f"path={typed_brief(path)}: expected the folder or address of a table; write writeDelta(path, key=, "
            f"partitionBy=, name=)"
        )
    try:
        options = check_storage_options(given)
    except TopologyError as error:
        raise step.wrong(str(error)) from None
    unsafe = next((name for name in options if UNSAFE in name.lower()), None)
    if unsafe is not None:
        raise step.wrong(
            f"storageOptions: {unsafe} lets two writers create the same version of a table, which can lose a batch; "
            "remove it. The object store needs conditional writes, as S3 has them"
        )
    folder = folder_of(path, options)
    return folder.uri, folder.options


def _check_names(fields: spark.StructType, step: Step) -> None:
    """Refuse field names that Delta does not allow for columns."""
    for name in _names(fields):
        if _NOT_IN_NAMES.search(name):
            raise step.wrong(
                f"field {name!r}: the name of a Delta column cannot contain any of ' ,;{{}}()=`', tab or line break; "
                "rename the field"
            )
    held = dict[str, str]()
    for name in fields.names:
        other = held.setdefault(name.lower(), name)
        if other != name:
            raise step.error(
                DuplicateFieldError,
                (
                    f"fields {other!r} and {name!r} are the same column for Delta, which ignores case: rename one of "
                    "them"
                ),
            )


def _names(kind: spark.DataType) -> Iterator[str]:
    """Yield the names of all fields in a type, nested ones included."""
    if isinstance(kind, spark.StructType):
        for field in kind.fields:
            yield field.name
            yield from _names(field.dataType)
    elif isinstance(kind, spark.ArrayType):
        yield from _names(kind.elementType)
    elif isinstance(kind, spark.MapType):
        yield from _names(kind.keyType)
        yield from _names(kind.valueType)


def _check_keys(fields: spark.StructType, keys: tuple[str, ...], step: Step) -> None:
    for name in keys:
        kind = fields[name].dataType
        if not isinstance(kind, _ATOMIC):
            raise step.error(
                TypeDeclarationError,
                f"key field {name!r} is {type_ddl(kind)}: Delta compares only scalar values; convert it to a string "
                "with each, or use its parts",
            )
