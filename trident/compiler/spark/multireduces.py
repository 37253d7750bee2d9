"""A reducer over several streams: one Python function over the partitions of the union of their DataFrames.

Each row of the union carries the number of its stream.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from trident.base.spark_types import arrow_type, type_ddl
from trident.compiler.aggregates.multireduces import PartitionReducer, ReduceSpec, partition_reducer
from trident.compiler.columns.columns import Columns
from trident.compiler.partition_functions import BATCH_ROWS, Batches, OnWorker
from trident.compiler.spark import partitions
from trident.compiler.spark.joins import union
from trident.compiler.spark.pending_function import PendingFunction
from trident.compiler.spark.plan_calls import selected
from trident.compiler.spark.sessions import Profile
from trident.compiler.spark.sql_names import all_quoted, quoted
from trident.compiler.spark.worker_functions import Lifecycle, sliced
from trident.plan.nodes import MultiReduce

_STREAM = "__trident_stream"
_NO_STREAM = -1
"""The stream number of a row that exists only because Spark has no partition without rows."""


def multi_reduced(
    node: MultiReduce, frames: Sequence[DataFrame], lifecycle: Lifecycle, profile: Profile
) -> PendingFunction:
    """Return the tuples that the node's reducer emits.

    `lifecycle` has the number of partitions that a hint gives, or None. Without group fields, the reducer sees the
    first partitions of all streams together, then the second ones, and so on; without a hint there is one partition.
    """
    spec, columns, count = ReduceSpec.of(node), _columns(node), lifecycle.partitions
    rows = [_rows(node, at, frame, columns) for at, frame in enumerate(frames)]
    if node.groups:
        keys = [F.col(quoted(_key(position))) for position in range(len(node.groups[0]))]
        every_row = union(rows)
        one_task = count is None and profile.tiny
        placed_rows = every_row.coalesce(1) if one_task else every_row.repartition(count or profile.partitions, *keys)
    else:
        one_row_each = frames[0].sparkSession.range(0, count or 1, 1, count or 1)
        every_row = union([*rows, _rows(node, _NO_STREAM, one_row_each, columns)])
        if count is not None:
            placed_rows = partitions.side_by_side(every_row, count)
        else:
            placed_rows = every_row.coalesce(1) if profile.small else every_row.repartition(1)
    kinds = [(name, arrow_type(kind)) for name, kind in columns.items()]
    entering = pa.schema([(partitions.PARTITION_ID, pa.int32()), (_STREAM, pa.int32()), *kinds])
    own = f"spark_partition_id() AS {partitions.PARTITION_ID}"
    numbered = selected(placed_rows, [own, _STREAM, *all_quoted(columns)])
    return PendingFunction(numbered, MultiReducing(spec, entering, lifecycle), spec.outputs)


@dataclass(frozen=True, slots=True)
class MultiReducing(OnWorker):
    """A reducer over a partition of rows of several streams, in a worker."""

    spec: ReduceSpec
    entering: pa.Schema
    lifecycle: Lifecycle

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        with partition_reducer(self.spec, self.lifecycle.context(first.column(0)[0].as_py())) as reducer:
            if not self.spec.groups:
                reducer.begin()
            for batch in chain((first,), filled):
                for stream, columns in self._streams(batch):
                    reducer.add(stream, columns)
                    yield from self._emitted(reducer, BATCH_ROWS)
            reducer.complete()
            yield from self._emitted(reducer, 1)

    def _emitted(self, reducer: PartitionReducer, least: int) -> Iterator[pa.RecordBatch]:
        """Yield the tuples emitted since the last call, in batches of bounded size; nothing if they are too few.

        `least` is the least number of tuples to yield.
        """
        emitted = reducer.emitted(least)
        if emitted is not None:
            yield from sliced(emitted, self.spec.outputs)

    def _streams(self, batch: pa.RecordBatch) -> Iterator[tuple[int, Columns]]:
        """Yield the tuples of each stream in a batch, under the names of their fields."""
        rows = Columns.of(batch, self.entering)
        streams = rows[_STREAM].array().to_numpy(zero_copy_only=False)
        for stream in numpy.unique(streams).tolist():
            if stream == _NO_STREAM:
                continue
            (stream_rows,) = numpy.nonzero(streams == stream)
            names = _names(self.spec.groups, self.spec.inputs, stream)
            columns = rows.select(dict.fromkeys(names.values())).take(stream_rows.tolist())
            yield stream, Columns({name: columns[inner] for name, inner in names.items()}, len(stream_rows))


def _names(groups: Sequence[Sequence[str]], inputs: Sequence[Sequence[str]], stream: int) -> dict[str, str]:
    """Return the fields of a stream that the reducer reads: the field's name in the stream -> its name in the union."""
    names = {name: f"__trident_{stream}_{position}" for position, name in enumerate(inputs[stream])}
    return names | {name: _key(position) for position, name in enumerate(groups[stream] if groups else ())}


def _columns(node: MultiReduce) -> dict[str, DataType]:
    """Return the columns of the union: the group fields, and the other input fields of each stream."""
    columns: dict[str, DataType] = {}
    for stream, source in enumerate(node.sources):
        for name, inner in _names(node.groups, node.inputs, stream).items():
            columns.setdefault(inner, source.schema[name].dataType)
    return columns


def _rows(node: MultiReduce, at: int, frame: DataFrame, columns: Mapping[str, DataType]) -> DataFrame:
    """Return the rows of one stream in the columns of the union. The columns of other streams are null."""
    names = {} if at == _NO_STREAM else _names(node.groups, node.inputs, at)
    own = {inner: name for name, inner in names.items()}
    items = [f"{at} AS {_STREAM}"]
    for inner, kind in columns.items():
        what = quoted(own[inner]) if inner in own else f"CAST(NULL AS {type_ddl(kind)})"
        items.append(f"{what} AS {quoted(inner)}")
    return selected(frame, items)


def _key(position: int) -> str:
    return f"__trident_key_{position}"
