"""A reducer over several DataFrames: their rows in one, each with the place of its stream, and a Python function over
the partitions of that."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain

import numpy
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from trident.base.types import arrow_type, type_ddl
from trident.compiler.aggregates.multireduces import PartitionReducer, ReduceSpec, partition_reducer
from trident.compiler.columns.columns import Columns
from trident.compiler.spark import partitions
from trident.compiler.spark.pending_function import Tail
from trident.compiler.spark.sessions import Profile
from trident.compiler.spark.sql_names import all_quoted, quoted
from trident.compiler.spark.worker_functions import Batches, OnWorker
from trident.plan.nodes import MultiReduce

_STREAM = "__trident_stream"
_NOBODY = -1
"""The stream of a row that only shows that a partition is there: Spark makes no partition of nothing."""

_ROWS = 10_000


def multi_reduced(node: MultiReduce, frames: Sequence[DataFrame], count: int | None, profile: Profile) -> Tail:
    """What the node's reducer emits. Not grouped: a partition of every stream at a time, so many as anybody said, else
    all of the batch."""
    spec, columns = ReduceSpec.of(node), _columns(node)
    rows = [_rows(node, at, frame, columns) for at, frame in enumerate(frames)]
    if node.groups:
        keys = [F.col(quoted(_key(place))) for place in range(len(node.groups[0]))]
        met = _union(rows).repartition(count or profile.partitions, *keys)
    else:
        there = frames[0].sparkSession.range(0, count or 1, 1, count or 1)
        union = _union([*rows, _rows(node, _NOBODY, there, columns)])
        if count is not None:
            met = partitions.side_by_side(union, count)
        else:
            met = union.coalesce(1) if profile.small else union.repartition(1)
    kinds = [(name, arrow_type(kind)) for name, kind in columns.items()]
    entering = pa.schema([(partitions.PLACE, pa.int32()), (_STREAM, pa.int32()), *kinds])
    numbered = met.selectExpr(f"spark_partition_id() AS {partitions.PLACE}", _STREAM, *all_quoted(columns))
    return Tail(numbered, MultiReducing(spec, entering, count), spec.outputs)


@dataclass(frozen=True, slots=True)
class MultiReducing(OnWorker):
    """A reducer over a partition of rows of several streams, in a worker."""

    spec: ReduceSpec
    entering: pa.Schema
    count: int | None

    def _run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        with partition_reducer(self.spec, first.column(0)[0].as_py(), self.count) as reducer:
            if not self.spec.groups:
                reducer.begin()
            for batch in chain((first,), filled):
                for stream, columns in self._streams(batch):
                    reducer.add(stream, columns)
                    yield from self._emitted(reducer, _ROWS)
            reducer.complete()
            yield from self._emitted(reducer, 1)

    def _emitted(self, reducer: PartitionReducer, least: int) -> Iterator[pa.RecordBatch]:
        """What was emitted since it was last asked, if it is so much, in batches of a bounded size."""
        found = reducer.emitted(least)
        if found is not None:
            batch = found.batch(self.spec.outputs)
            for start in range(0, batch.num_rows, _ROWS):
                yield batch.slice(start, _ROWS)

    def _streams(self, batch: pa.RecordBatch) -> Iterator[tuple[int, Columns]]:
        """The tuples of each stream in a batch, under the names of their fields."""
        rows = Columns.of(batch, self.entering)
        streams = rows[_STREAM].array().to_numpy(zero_copy_only=False)
        for stream in numpy.unique(streams).tolist():
            if stream == _NOBODY:
                continue
            (own,) = numpy.nonzero(streams == stream)
            names = _names(self.spec.groups, self.spec.inputs, stream)
            columns = rows.select(dict.fromkeys(names.values())).take(own.tolist())
            yield stream, Columns({name: columns[inner] for name, inner in names.items()}, len(own))


def _names(groups: Sequence[Sequence[str]], inputs: Sequence[Sequence[str]], stream: int) -> dict[str, str]:
    """The fields that are read of a stream: its name there, and among the rows of all."""
    found = {name: f"__trident_{stream}_{place}" for place, name in enumerate(inputs[stream])}
    return found | {name: _key(place) for place, name in enumerate(groups[stream] if groups else ())}


def _columns(node: MultiReduce) -> dict[str, DataType]:
    """The columns of the rows of all streams: the group's, and the inputs of each stream that are not among them."""
    found: dict[str, DataType] = {}
    for at, source in enumerate(node.sources):
        for name, inner in _names(node.groups, node.inputs, at).items():
            found.setdefault(inner, source.schema[name].dataType)
    return found


def _rows(node: MultiReduce, at: int, frame: DataFrame, columns: Mapping[str, DataType]) -> DataFrame:
    """The rows of one stream in the columns of all, null in those of the others."""
    names = {} if at == _NOBODY else _names(node.groups, node.inputs, at)
    own = {inner: name for name, inner in names.items()}
    items = [f"{at} AS {_STREAM}"]
    for inner, kind in columns.items():
        what = quoted(own[inner]) if inner in own else f"CAST(NULL AS {type_ddl(kind)})"
        items.append(f"{what} AS {quoted(inner)}")
    return frame.selectExpr(*items)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda left, right: left.unionAll(right), frames)


def _key(place: int) -> str:
    return f"__trident_key_{place}"
