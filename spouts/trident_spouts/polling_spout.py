"""An opaque spout with lists that grow, or functions that read rows from a position, as partitions."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.sql.types import StructType

from trident.base.argument_checks import check_whole_number
from trident.base.attempt import TransactionAttempt
from trident.base.callsite import site_of
from trident.base.copied_values import own_value
from trident.base.descriptions import keep
from trident.base.errors import SpoutContractError, TopologyError
from trident.base.short_texts import brief, shorten
from trident.base.spark_types import ddl
from trident_spouts.adapters.partitioned_executors import OpaqueExecutor
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.configurable import configurable
from trident_spouts.executor import Metadata, SpoutExecutor, SpoutKind
from trident_spouts.protocols import Emitted, OpaquePartitionedSpout
from trident_spouts.rows import read_schema
from trident_spouts.user_calls import call_function, emission_of, pair_of

Fetch: TypeAlias = Callable[[Metadata, int], tuple[Emitted, Metadata]]
Partition: TypeAlias = Fetch | Sequence[Any]
Partitions: TypeAlias = Mapping[str, Partition] | Callable[[], Mapping[str, Partition]]


@configurable
@dataclass(frozen=True, init=False, repr=False, eq=False)
class PollingSpout:
    """A spout with functions ``fetch(position, limit) -> (rows, newPosition)``, or growing lists, as partitions.

    Such a function may read a page of a web API, the rows of a table beyond an id, or the lines of a log beyond an
    offset. The program may append to a list while the topology runs.

    The spout is opaque: a replay fetches again from the end of the previous batch, and may get more, fewer or other
    rows. Each row is committed in one batch. The position is any JSON value, and None at first. The log keeps it, so
    that a restart continues from it. A function without new rows returns no rows. If it returns no rows and a new
    position, it is called again at once with that position. If a function returns rows and the same position that it
    got, a SpoutContractError is raised, because the same rows would be read for ever.

    Parameters
    ----------
    fields : str or StructType
        The fields with their types, ``"id long, name string"``.
    partitions : mapping of names to functions or lists, or a function that returns such a mapping
        A function that returns the mapping is called for every attempt: partitions may appear, disappear, and continue
        at their position when they are back. All functions are called in the driver, one after the other.
    maxRows : int
        The `limit` that each partition's function gets: the most rows that it should return. The function gets a
        smaller limit if the topology was started with `targetBatchSecs` and larger batches would take too long.

    Examples
    --------
    >>> def numbers(position, limit):
    ...     start = position or 0
    ...     return list(range(start, start + limit)), start + limit
    >>> PollingSpout("n long", {"numbers": numbers, "typed in": [1, 2, 3]}, maxRows=100)
    PollingSpout('n bigint', {'numbers', 'typed in'}, maxRows=100)

    Notes
    -----
    PollingSpout takes the place of Trident's ``IOpaquePartitionedTridentSpout``, for users who prefer a function to a
    class.
    """

    schema: StructType
    partitions: Partitions
    maxRows: int
    kind = SpoutKind.OPAQUE
    forkable = True

    def __init__(self, fields: str | StructType, partitions: Partitions, maxRows: int = 10_000) -> None:
        if not callable(partitions) and not isinstance(partitions, Mapping):
            raise TopologyError(
                f"PollingSpout: expected a mapping of partition names to functions or lists, got {brief(partitions)}"
            )
        if callable(partitions) and not _needs_nothing(partitions):
            raise TopologyError(
                f"PollingSpout: {brief(partitions)} is called without arguments and has to return the mapping of "
                f"partitions; if it is one partition, write {{'name': {site_of(partitions).name}}}"
            )
        check_whole_number("PollingSpout: maxRows", maxRows)
        keep(
            self,
            schema=read_schema(fields),
            partitions=partitions,
            maxRows=maxRows,
        )

    def open(self) -> SpoutExecutor:
        """Return the executor of one run."""
        return OpaqueExecutor(_PolledPartitions(self), self.schema, "PollingSpout")

    def __repr__(self) -> str:
        names = "..." if callable(self.partitions) else ", ".join(map(repr, self.partitions))
        return f"PollingSpout({ddl(self.schema)!r}, {{{names}}}, maxRows={self.maxRows})"


class _PolledPartitions(OpaquePartitionedSpout):
    """The partitions of a PollingSpout as an OpaquePartitionedSpout."""

    def __init__(self, spout: PollingSpout) -> None:
        self.outputFields = spout.schema
        self._spout = spout
        self._present: Mapping[str, Partition] = {}

    def getPartitions(self) -> Sequence[str]:
        partitions = self._spout.partitions
        self._present = call_function("PollingSpout", partitions) if callable(partitions) else partitions
        return list(self._present)

    def emitPartitionBatch(
        self, attempt: TransactionAttempt, partition: str, lastMetadata: Metadata, budget: Budget = NO_LIMIT
    ) -> tuple[Emitted, Metadata]:
        source, where = self._present[partition], f"PollingSpout, partition {partition!r}"
        limit = budget.rows_within(self._spout.maxRows)
        if callable(source):
            result = call_function(where, source, own_value(lastMetadata), limit)
            rows, position = pair_of(result, f"{where}: {site_of(source)}")
            rows = emission_of(rows, self._spout.schema, where)
            if rows is not None and rows.rows and position is not None and position == lastMetadata:
                raise SpoutContractError(
                    f"{where}: {site_of(source)} returned rows with the position that it was given, "
                    f"{shorten(repr(position))}: the same rows would be read again for ever; return the position "
                    f"after the rows, or no rows if there are no new ones"
                )
            return rows, position
        return self._slice(where, source, lastMetadata, limit)

    def _slice(self, where: str, rows: Sequence[Any], position: Metadata, limit: int) -> tuple[Emitted, Metadata]:
        start = 0 if position is None else position
        if not isinstance(start, int) or start > len(rows):
            raise SpoutContractError(
                f"{where}: its position is {position!r}, but its list has {len(rows)} rows; only append to the "
                f"list, and pass the whole list again after a restart"
            )
        batch = list(rows[start : start + limit])
        return batch, start + len(batch)


def _needs_nothing(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    except ValueError:  # a builtin without a known signature
        pass
    return True
