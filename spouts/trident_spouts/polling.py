"""Sources that are asked from a position on: an opaque spout from plain functions or growing lists."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.callsite import site_of
from trident.base.errors import SpoutContractError, TopologyError
from trident.base.types import ddl
from trident_spouts.adapters.partitioned import OpaqueExecutor
from trident_spouts.executor import Metadata, SpoutExecutor, SpoutKind
from trident_spouts.protocols import Emitted, OpaquePartitionedSpout
from trident_spouts.rows import read_schema
from trident_spouts.user_calls import pair_of, run

Fetch: TypeAlias = Callable[[Metadata, int], tuple[Emitted, Metadata]]
Partition: TypeAlias = Fetch | Sequence[Any]
Partitions: TypeAlias = Mapping[str, Partition] | Callable[[], Mapping[str, Partition]]


@dataclass(frozen=True, init=False, repr=False, eq=False)
class PollingSpout:
    """Each partition is a function ``fetch(position, limit) -> (rows, newPosition)``: a page of a web API, the rows of
    a table beyond an id, the lines of a log beyond an offset. Or a list that the program appends to.

    Opaque: a replay fetches again from where the previous batch ended and may find more, fewer or other rows; each row
    is committed in one batch. The position is any JSON; it is None at first, and is kept in the log, so that a restart
    goes on there. A fetch that finds nothing returns no rows; where its position moves all the same, it is asked on
    from there at once.

    Parameters
    ----------
    fields : str or StructType
        The fields with their types, ``"id long, name string"``.
    partitions : mapping of names to functions or lists, or a function that gives one
        A function is asked for every attempt: partitions may come, go and return to where they were. Functions are
        called in the driver, one after the other.
    maxRows : int
        How many rows a partition is asked for.

    Examples
    --------
    >>> def numbers(position, limit):
    ...     start = position or 0
    ...     return list(range(start, start + limit)), start + limit
    >>> PollingSpout("n long", {"numbers": numbers, "typed in": [1, 2, 3]}, maxRows=100)
    PollingSpout('n bigint', {'numbers', 'typed in'}, maxRows=100)

    Notes
    -----
    An ``IOpaquePartitionedTridentSpout`` for those who have a function and no wish to write a class.
    """

    schema: StructType
    partitions: Partitions
    maxRows: int
    kind = SpoutKind.OPAQUE

    def __init__(self, fields: str | StructType, partitions: Partitions, maxRows: int = 10_000) -> None:
        if not callable(partitions) and not isinstance(partitions, Mapping):
            raise TopologyError(
                f"PollingSpout takes a mapping of partition names to functions or lists, not {partitions!r}"
            )
        if not isinstance(maxRows, int) or maxRows < 1:
            raise TopologyError(f"PollingSpout: maxRows={maxRows!r} is no positive number")
        object.__setattr__(self, "schema", read_schema(fields))
        object.__setattr__(self, "partitions", partitions)
        object.__setattr__(self, "maxRows", maxRows)

    def open(self) -> SpoutExecutor:
        """Begin to work for one run."""
        return OpaqueExecutor(_Polled(self), self.schema, "PollingSpout")

    def __repr__(self) -> str:
        names = "..." if callable(self.partitions) else ", ".join(map(repr, self.partitions))
        return f"PollingSpout({ddl(self.schema)!r}, {{{names}}}, maxRows={self.maxRows})"


class _Polled(OpaquePartitionedSpout):
    """The partitions as an OpaquePartitionedSpout."""

    def __init__(self, spout: PollingSpout) -> None:
        self.outputFields = spout.schema
        self._spout = spout
        self._now: Mapping[str, Partition] = {}

    def getPartitions(self) -> Sequence[str]:
        partitions = self._spout.partitions
        self._now = run("PollingSpout", partitions) if callable(partitions) else partitions
        return list(self._now)

    def emitPartitionBatch(
        self, attempt: TransactionAttempt, partition: str, lastMetadata: Metadata
    ) -> tuple[Emitted, Metadata]:
        source = self._now[partition]
        if callable(source):
            return pair_of(
                run(f"PollingSpout, partition {partition!r}", source, lastMetadata, self._spout.maxRows),
                f"PollingSpout, partition {partition!r}: {site_of(source)}",
            )
        return self._slice(partition, source, lastMetadata)

    def _slice(self, partition: str, rows: Sequence[Any], position: Metadata) -> tuple[Emitted, Metadata]:
        start = 0 if position is None else position
        if not isinstance(start, int) or start > len(rows):
            raise SpoutContractError(
                f"PollingSpout: partition {partition!r} is at {position!r} and its list has {len(rows)} rows; "
                f"only append to it, and give it again whole after a restart"
            )
        taken = list(rows[start : start + self._spout.maxRows])
        return taken, start + len(taken)
