"""The verbs that write tuples to outside systems: foreachBatch, foreachArrow, writeParquet, bestEffort."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.types import StringType, StructType

from trident.base.callsite import site_of
from trident.base.errors import DuplicateFieldError, DuplicateNameError, TopologyError, TypeDeclarationError
from trident.base.names import FieldsLike, brief
from trident.base.paths import local_path
from trident.base.spark_types import arrow_schema, type_ddl
from trident.base.verb_call import Step
from trident.files.object_options import Storage
from trident.files.objects import is_object_url
from trident.files.urls import files_by_url, is_files_url
from trident.operations.callables import bind, is_coroutine, is_generator
from trident.operations.folder_names import FolderNames
from trident.plan import nodes, step_checks
from trident.plan.parquet_types import names_folders, unstorable
from trident.plan.step_register import Register
from trident.spouts.branch_source import BranchSpout
from trident.stream.arguments import name_of
from trident.stream.base import StreamBase, StreamT
from trident.stream.value_checks import add_check

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class OutputVerbs(StreamBase[StreamT]):
    """Verbs that pass every batch to a function or an outside system."""

    __slots__ = ()

    def foreachBatch(self, function: "Callable[[DataFrame, int, int], object]", name: str | None = None) -> StreamT:
        """Call ``function(df, txid, attempt)`` with every batch as a DataFrame, and return this stream.

        The call happens on the driver, in txid order, after every state of the batch group holds the batch, and before
        the success is reported to the spout. Each txid is handed over at least once, and always with the same rows,
        because the rows are frozen first. So the output is exactly once if the function replaces the earlier rows of
        this txid. `attempt` is 0 if this txid was certainly never handed over before. Any other number means that it
        may have been. Empty batches are handed over, too. Meaning:
        ``pyspark.sql.streaming.DataStreamWriter.foreachBatch``.

        Parameters
        ----------
        function : callable
            The DataFrame belongs to a separate session of the run, as in Structured Streaming, and is valid until the
            function returns. An error in the function fails the commit. After an OSError (a connection, a timeout, a
            full disk) the call is retried for `commitRetrySecs`, after any other error `maxAttempts` times. Then the
            group stops with the cause, and the batch stays frozen for the next start.
        name : str, optional
            The output's identity over restarts; ``<stream>.foreachBatch`` if omitted.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["dog"]]))
        >>> words.foreachBatch(lambda df, txid, attempt: df.write.mode("overwrite").parquet(f"words/{txid}"))
        Stream(words/0:newStream(FixedBatchSpout): word string)
        """
        return self._foreach("foreachBatch", function, name, frame=True)

    def foreachArrow(self, function: "Callable[[pa.Table, int, int], object]", name: str | None = None) -> StreamT:
        """Call ``function(table, txid, attempt)`` with every batch as one Arrow table on the driver.

        All tuples of a batch are collected on the driver. The call needs no Spark job, and works in runs without
        Spark, too. Everything else is as in `foreachBatch`.

        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> from trident.testing.local import start_local
        >>> topology = TridentTopology()
        >>> words = topology.newStream("words", FixedBatchSpout("word string", [["dog"], ["cat", "cow"]]))
        >>> _ = words.foreachArrow(lambda table, txid, attempt: print(txid, table["word"].to_pylist()))
        >>> with start_local(topology) as running:
        ...     running.processAllAvailable()
        1 ['dog']
        2 ['cat', 'cow']
        """
        return self._foreach("foreachArrow", function, name, frame=False)

    def writeParquet(
        self,
        path: "str | Path",
        *,
        partitionBy: FieldsLike | None = None,
        name: str | None = None,
        storage: Mapping[str, str] | None = None,
    ) -> StreamT:
        """Write every batch as Parquet files, exactly once, and return this stream.

        Each batch becomes a folder ``txid=7`` below `path`. The folder appears all at once, after every state of the
        batch group holds the batch. Whatever fails, and however often a write is repeated, a reader sees a whole batch
        once, or nothing of it. Any program can read the files; `trident.readParquet` and `trident.publishedFiles` also
        check that no file was changed after it was published. The driver writes small batches. The workers write large
        batches if they can reach the folder.

        Parameters
        ----------
        path : path
            A folder on a file system that renames folders atomically: a local disk, NFS. Or a URL such as
            ``"s3://bucket/prefix"`` or ``"hdfs://namenode:8020/folder"``: there a batch is published by its manifest,
            which `readParquet` and `publishedFiles` read; other readers may see a part of the batch that is just being
            published. The folder must be empty or missing, and belongs to this output alone from then on.
            `TridentTopology.reset` does not remove the folder, so give another path after a reset.
        partitionBy : str or list of str, optional
            Fields of type string, integer, boolean or date: their values name folders below the batch's folder, as in
            Hive and Spark. `readParquet` takes the values of these fields from the files. A text that is too long for
            the name of a folder fails its batch before it is frozen.
        name : str, optional
            The output's identity over restarts; ``<stream>.writeParquet`` if omitted.
        storage : dict of str, optional
            The options of the object store that the URL names, as for `FileSpout(storage=)`.

        Raises
        ------
        TypeDeclarationError
            If Parquet cannot hold a field.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["dog"]]))
        >>> words.writeParquet("/data/words", name="words")
        Stream(words/0:newStream(FixedBatchSpout): word string)
        """
        step = self._step("writeParquet")
        check_output(self, step)
        partitions = parquet_partitions(self.schema, partitionBy, step)
        self._check_parquet(step)
        where, options = _folder(path, storage, step)
        self._check_apart(where, step)
        name = output_name(self, "writeParquet", name, step)
        texts = tuple(each for each in partitions if isinstance(self.schema[each].dataType, StringType))
        checked = () if is_object_url(where) else texts  # the keys of an object store are flat, not folders
        above = add_check(self, checked, FolderNames(checked), step, ".folders")
        node = nodes.WriteParquet(above, name, where, partitions, options, **step.gives(self.schema))
        self._register.add(self._label, node)
        return cast("StreamT", self)

    def bestEffort(self, name: str | None = None) -> StreamT:
        """Begin a branch that never delays a batch: if a step in it fails, the batch is committed nevertheless.

        A separate thread runs the branch beside the commits, batch by batch, after every state holds the batch. The
        branch may end in `peek`, `Debug`, `foreachBatch` and `foreachArrow`. A tuple on which a function fails is
        skipped, as with ``onError="skip"``, and counted by a progress event ``"skipped"``. A batch that fails
        otherwise is not retried: a progress event ``"failed"`` with the phase ``"bestEffort"`` has the reason. If the
        branch lags by more than two batches, the oldest ones are dropped, which is also an event. After a crash the
        branch may get a batch twice. States, joins with other streams and `writeParquet` are not allowed in the branch.

        Parameters
        ----------
        name : str, optional
            The branch's identity over restarts; ``<stream>.bestEffort`` if omitted.

        Examples
        --------
        >>> from trident import TridentTopology
        >>> from trident.spouts import FixedBatchSpout
        >>> words = TridentTopology().newStream("words", FixedBatchSpout("word string", [["dog"]]))
        >>> words.bestEffort().peek(print)
        Stream(words.bestEffort/1:peek(print): word string)
        """
        step = self._step("bestEffort")
        check_output(self, step)
        name = output_name(self, "bestEffort", name, step)
        branch = Register(step.called.location)
        node = nodes.BestEffort(self._node, name, branch, **step.gives(self.schema))
        self._register.add(self._label, node)
        spout = BranchSpout(self.schema)
        start = nodes.SpoutSource(name, spout, step=f"{name}/0:branch", site=step.called, schema=self.schema)
        branch.add(name, start)
        return self._new(start, name, branch)

    def _check_apart(self, where: str, step: Step) -> None:
        """Raise DuplicateNameError if `where` is the folder of another Parquet output, or inside it, or contains it."""
        mine = _real(where)
        for other in self._register.sinks.values():
            if not isinstance(other, nodes.WriteParquet):
                continue
            theirs = _real(other.path)
            if not (f"{mine}/".startswith(f"{theirs}/") or f"{theirs}/".startswith(f"{mine}/")):
                continue
            how = (
                f"{where} already"
                if mine == theirs
                else (f"{other.path}, and one of it and {where} is inside the other")
            )
            way = self._register.way_to_replace(other)
            raise step.error(
                DuplicateNameError, f"{other.step} ({other.site.location}) writes to {how}; choose another path{way}"
            )

    def _check_parquet(self, step: Step) -> None:
        """Refuse a field named txid."""
        taken = [name for name in self.schema.names if name.lower() == "txid"]
        if taken:
            raise step.error(
                DuplicateFieldError,
                f"field {taken[0]!r} has the name of the batch folders (txid=1, txid=2): rename it",
            )

    def _foreach(self, verb: str, function: Any, name: str | None, frame: bool) -> StreamT:
        step = self._step(verb)
        if not callable(function):
            raise step.wrong(f"{brief(function)} is not a callable; write {verb}(function, name=...)")
        site = site_of(function)
        step = step.with_function(site)
        what = "a DataFrame" if frame else "an Arrow table"
        bind(
            function,
            3,
            f"it is called as function(batch, txid, attempt), with {what} and two numbers",
            step,
            yields=True,
        )
        if is_coroutine(function) or is_generator(function):
            raise step.wrong(
                "it is a coroutine or a generator, so calling it runs none of its code: use a plain function"
            )
        check_output(self, step)
        node = nodes.ForeachBatch(
            self._node,
            output_name(self, verb, name, step),
            function,
            site,
            frame,
            **step.gives(self.schema),
        )
        self._register.add(self._label, node)
        return cast("StreamT", self)


def _real(where: str) -> str:
    return where if is_files_url(where) else os.path.realpath(where)


def _folder(path: object, storage: Mapping[str, str] | None, step: Step) -> tuple[str, Storage]:
    """Return the folder or URL that an output writes to, and the options of its object store."""
    if not isinstance(path, str | Path) or not str(path):
        raise step.wrong(f"path={path!r}: expected a folder; write writeParquet(path, partitionBy=, name=)")
    why = (
        "{scheme}: is not supported: writeParquet needs a local disk, an object store (such as s3://) or HDFS "
        "(hdfs://). Use one of these, or write with foreachBatch into a table format that has transactions"
    )
    try:
        options = Storage.of(storage, "storage")
        if is_files_url(str(path)):
            return files_by_url("path", str(path), options).address, options
        if storage:
            raise TopologyError(f"storage= holds options of an object store, but {path} is not in an object store")
        return str(local_path("path", path, why)), options
    except TopologyError as error:
        raise step.wrong(str(error)) from None


def parquet_partitions(fields: StructType, partitionBy: FieldsLike | None, step: Step) -> tuple[str, ...]:
    """Return the `partitionBy` fields of a Parquet output, whose values name folders.

    Refuse fields that Parquet cannot store, and partition fields that cannot name folders.
    """
    schema = arrow_schema(fields)
    wrong = unstorable(schema)
    if wrong is not None:
        kind = type_ddl(fields[wrong].dataType)
        raise step.error(
            TypeDeclarationError, f"field {wrong!r} is {kind}, which Parquet cannot store; remove it with project"
        )
    partitions = () if partitionBy is None else step_checks.known_fields(fields, partitionBy, step)
    for name in partitions:
        if not names_folders(schema.field(name).type):
            kind = type_ddl(fields[name].dataType)
            raise step.error(
                TypeDeclarationError,
                f"partitionBy field {name!r} is {kind}: expected string, integer, boolean or date, whose values can "
                "name folders",
            )
    if partitions and len(partitions) == len(schema):
        raise step.wrong("partitionBy names every field; leave at least one for the files")
    return partitions


def check_output(stream: StreamBase[Any], step: Step) -> None:
    """Raise an error for an output on a stream of DRPC requests: its tuples can only become answers."""
    if step_checks.is_request(stream._node):
        raise step.wrong(
            "a stream of DRPC requests cannot have an output: its tuples only become the function's answer"
        )


def output_name(stream: StreamBase[Any], verb: str, name: str | None, step: Step) -> str:
    """Return the output's name, ``<stream>.<verb>`` if `name` is None. Refuse a name that another output has."""
    output = name_of("an output", name, step, default=f"{stream._label}.{verb}")
    stream._register.check_free_sink(output, step)
    return output
