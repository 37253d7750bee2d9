"""The data source ``trident`` of Spark: a state as a DataFrame, as of one committed txid."""

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from trident.access.key_filters import keys_fixed_by
from trident.access.opened_state import OpenedState
from trident.access.spark_options import StateOptions
from trident.access.spark_table import SparkTable
from trident.base.errors import SnapshotMovedError, StateEndedError, StateShapeError
from trident.reads.previous_reads import txid_before
from trident_state.binary_arrays import one_chunk
from trident_state.state_parts import Part


class TridentDataSource(DataSource):
    """A state as a DataFrame: ``spark.read.format("trident").option("checkpoint", "/data/wc.ckpt").load("counts")``.

    The topology may be stopped, or run elsewhere. The columns are the key fields, then ``value``, or a column for each
    field of a value that has fields; they are known without a read of the state. All rows of a read are as of one
    committed txid. ``spark.dataSource.register(TridentDataSource)`` makes the format known to a session.

    A read of one partition takes its txid when it runs, and begins again with a newer txid if the topology commits
    meanwhile. All reads of several partitions from one ``load`` are as of the txid that was committed when Spark
    planned the first of them. If the topology has committed two further batches, they end with a SnapshotMovedError,
    unless the state is in memory: load the state again.

    Parameters
    ----------
    options
        Texts, whose names may be written in small and capital letters. ``topology`` (not needed if the checkpoint has
        only one) and the location: ``checkpoint`` for a state in memory, in a Delta table or in SQLite, which each
        worker must reach, with ``logUrl``, ``logPrefix``, ``filesLocation`` and ``filesStorage`` if the log is in Redis
        or the files are on an object store; ``url`` and ``prefix`` for a state in Redis; ``sqlite`` for a file of
        SQLite; ``postgresUrl``; ``delta`` for the folder of a state in a Delta table. Paths are absolute, or within the
        folder ``base``.
        An address with a password is refused: write ``env:NAME`` or ``file:path``.

        ``keys``: read only these keys, a JSON list such as ``["dog", "cat"]``. ``pushdown``: ``true`` to read only the
        keys that filters fix by ``=``, ``in`` or ``is null``, for a ``load`` that serves a single query.
        ``partitions``: their number; by default, the state's size and groups decide. ``txidColumn``: the name of one
        more column, which holds the txid of the read. ``asOf``: ``previous`` for the batch before the last committed
        one, or a txid that is kept, or a time. ``isolation``: ``latest`` for the last written values, committed or not.

    Raises
    ------
    TopologyError
        An option is unknown or missing, or contains a password.
    StateError
        Raised by reads: the errors of `openState`, SnapshotMovedError, StateEndedError.

    Examples
    --------
    >>> from trident import TridentDataSource
    >>> TridentDataSource.name()
    'trident'
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = StateOptions.read(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "trident"

    def schema(self) -> StructType:
        """Return the columns: the key fields, then the fields of the value."""
        with self._options.open() as state:
            return SparkTable(state.description, self._options.txidColumn).schema

    def reader(self, schema: StructType) -> "StateReader":
        """Return the reader of the state. Raises StateShapeError if `schema` is not the state's."""
        own = self.schema()
        if schema.simpleString() != own.simpleString():
            raise StateShapeError(
                f"state {self._options.path!r} has the columns {own.simpleString()}, not {schema.simpleString()}: "
                "omit the schema, which is known; if the state was recreated, load it again"
            )
        return PushingReader(self._options) if self._options.pushdown else StateReader(self._options)


@dataclass
class _StatePart(InputPartition):
    """A part of the state as of `txid`, which all parts share.

    None: the only partition, which reads the newest batch.
    """

    part: Part
    txid: int | None
    incarnation: object


class StateReader(DataSourceReader):
    """The reader of one DataFrame. It is sent to the workers, each of which opens the state itself."""

    def __init__(self, options: StateOptions) -> None:
        self._options = options
        self._pushed: pa.Table | None = None

    def partitions(self) -> Sequence[InputPartition]:
        """Divide the read. All partitions get the txid that is committed now, unless there is only one."""
        with self._options.open() as state:
            undivided = self._keys_of(state) is not None or not len(state.keyFields)
            count = 1 if undivided else self._options.partitions or state.followed.parts()
            txid = None
            if count > 1 and state.isolation == "committed":
                txid = self._planned(state)
            incarnation = state.followed.incarnation
        return [_StatePart(Part(number, count), txid, incarnation) for number in range(count)]

    def _planned(self, state: OpenedState) -> int | None:
        """Return the txid as of which all partitions read."""
        if self._options.asOf not in (None, "previous"):
            return state.asOfTxid
        newest = state.followed.newest()
        return newest if self._options.asOf is None else txid_before(newest)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, as columns."""
        assert isinstance(partition, _StatePart)
        with self._options.open() as state:
            table = SparkTable(state.description, self._options.txidColumn)
            keys = self._keys_of(state)
            if keys is not None:
                yield from table.batches(*state.entriesOf(keys))
            elif partition.part.of == 1:
                yield from table.batches(*state.allAtOnce())
            else:
                for page in _pages(state, partition):
                    yield from table.batches(page, partition.txid)

    def _keys_of(self, state: OpenedState) -> pa.Table | None:
        """Return the only keys to read; None for all."""
        return self._options.keys_of(state.keyFields) if self._pushed is None else self._pushed


class PushingReader(StateReader):
    """A reader that reads only the keys that Spark's filters fix.

    Spark keeps the last pushed filters for all DataFrames of one ``load``, and reads only matching rows, even for a
    DataFrame without filters. So this reader is used only on request.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Determine which keys the filters fix. Return all filters, because Spark evaluates them anyway."""
        with self._options.open() as state:
            self._pushed = keys_fixed_by(filters, state.name, state.keyFields)
        return filters


def _pages(state: OpenedState, partition: _StatePart) -> Iterator[pa.Table]:
    """Yield the entries of a part, as readers see them."""
    if state.followed.incarnation != partition.incarnation:
        raise StateEndedError(
            f"state {state.name!r} of topology {state.topology!r} was dropped or reset after this read was planned, "
            f"and was recreated: load it again"
        )
    try:
        as_of = None if partition.txid is None else state.followed.reach(partition.txid)
        for page in state.followed.scan_part(as_of, partition.part):
            entries = page.filter(pc.is_valid(page.column(page.num_columns - 1)))
            keys = entries.select(list(range(entries.num_columns - 1)))
            yield state.shown(keys, one_chunk(entries.column(entries.num_columns - 1)))
    except SnapshotMovedError as error:
        raise SnapshotMovedError(
            f"state {state.name!r} of topology {state.topology!r}: this read of {partition.part.of} partitions was "
            f"planned as of txid {partition.txid}, and the topology has committed two further batches since, so that "
            f"the store has later values only. Read again; if the topology commits too fast for it, read by "
            f'option("partitions", 1), which begins again with a newer txid, or read while the topology is stopped'
        ) from error
