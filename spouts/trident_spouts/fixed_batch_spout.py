"""A spout of batches that are given in the program, for tests, notebooks and examples."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident.base.descriptions import keep
from trident.base.errors import SpoutContractError
from trident.base.option_names import known_options
from trident.base.spark_types import ddl
from trident.base.user_rows import checked_rows
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.digests import digest_of
from trident_spouts.emission import ArrowEmission
from trident_spouts.executor import Emission, Metadata, ReadSoFar, SpoutExecutor, SpoutKind
from trident_spouts.rereadable_sources import End, beginning_lost
from trident_spouts.rows import RowsLike, is_table, read_schema, table_of
from trident_spouts.user_calls import foreign_metadata_error


@dataclass(frozen=True, init=False, repr=False, eq=False)
class FixedBatchSpout:
    """A spout that emits given batches in order; with ``cycle=True`` it starts over after the last batch, forever.

    The spout is transactional: the metadata of a batch is its index, so a replay emits the same tuples, even after a
    restart.

    Parameters
    ----------
    fields : str or StructType
        The fields with their types, ``"line string"``.
    batches : iterable of batches
        Each batch is a list of tuples, of scalars (with one field), of dicts or Rows, an Arrow table or pandas. An
        empty batch is also a batch: it gets a txid like any other.
    cycle : bool
        Whether the first batch follows the last batch again.

    Raises
    ------
    SpoutContractError
        A value is not of its field's type. The message names batch, row, field and value.

    Examples
    --------
    >>> spout = FixedBatchSpout("word string, n long", [[("cow", 1), ("moon", 2)], []])
    >>> spout
    FixedBatchSpout('word string, n bigint', 2 batches, 2 rows)
    >>> FixedBatchSpout("line string", [["the cow"], [None, 5]])
    Traceback (most recent call last):
    trident_client.errors.SpoutContractError: FixedBatchSpout, batch 1, row 1, field 'line': \
expected string, got 5 (int)

    Notes
    -----
    Meaning: ``org.apache.storm.trident.testing.FixedBatchSpout``, which cuts one list into batches of a maximal size,
    and begins again after a restart.
    """

    schema: StructType
    tables: tuple[pa.Table, ...]
    cycle: bool
    kind = SpoutKind.TRANSACTIONAL
    forkable = True

    @known_options({})
    def __init__(self, fields: str | StructType, batches: Iterable[RowsLike], cycle: bool = False) -> None:
        schema = read_schema(fields)
        if isinstance(batches, str | bytes | dict) or is_table(batches) or not isinstance(batches, Iterable):
            raise SpoutContractError(
                f"FixedBatchSpout: expected a list of batches, got one {type(batches).__name__}; write [batch, batch], "
                f"where each batch is a list of rows, an Arrow table or a pandas DataFrame"
            )
        tables = (
            table_of(rows, schema, f"FixedBatchSpout, batch {at}") for at, rows in enumerate(checked_rows(batches))
        )
        keep(
            self,
            schema=schema,
            tables=tuple(tables),
            cycle=cycle,
        )

    def open(self) -> SpoutExecutor:
        """Return the executor of one run."""
        return _FixedExecutor(self)

    def why_not_again(self) -> str | None:
        """Return why the batches cannot be read again, for an error message; None if they can be."""
        return "with cycle=True its batches have no beginning" if self.cycle else None

    def open_again(self, end: End) -> SpoutExecutor:
        """Return the executor of a run that emits the batches up to a position again."""
        return _FixedExecutor(self, end)

    def amount_before(self, end: Metadata) -> str | None:
        """Return the number of batches before a position, in words."""
        return _count(_FixedExecutor.index(end) + 1, "batch", "es")

    @staticmethod
    def position_by_part(position: Metadata) -> dict[str, Metadata]:
        """Return the number of batches that were read, with ``cycle=True`` since the beginning of the list."""
        return {"batches": _FixedExecutor.index(position) + 1}

    @property
    def rows_digest(self) -> str:
        """The digest of all rows, because a position does not identify the rows before it."""
        return " ".join(map(digest_of, self.tables))

    def __repr__(self) -> str:
        rows = sum(table.num_rows for table in self.tables)
        counts = f"{_count(len(self.tables), 'batch', 'es')}, {_count(rows, 'row')}"
        return f"FixedBatchSpout({ddl(self.schema)!r}, {counts}{', cycle=True' if self.cycle else ''})"


class _FixedExecutor(SpoutExecutor):
    plans_ahead = True

    def __init__(self, spout: FixedBatchSpout, end: End | None = None) -> None:
        self._spout = spout
        self._end = end

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        count = len(self._spout.tables)
        index = 0 if previous is None else self.index(previous) + 1
        if self._end is not None:
            end = self._end()
            last = -1 if end is None else self.index(end)
            if last >= count:
                raise beginning_lost(repr(self._spout), f"the stream was read up to batch {last}")
            count = last + 1
        if self._spout.cycle and count:
            return index % count
        return index if index < count else None

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        return ArrowEmission(self._spout.tables[self.index(metadata)])

    def read_so_far(self, position: Metadata) -> ReadSoFar | None:
        if self._spout.cycle:  # with cycle=True there is no end
            return None
        return ReadSoFar(0 if position is None else self.index(position) + 1, len(self._spout.tables), "batches")

    @staticmethod
    def index(metadata: Metadata) -> int:
        """Return the index of the batch that `metadata` names. Raises SpoutContractError if another spout wrote it."""
        if isinstance(metadata, bool) or not isinstance(metadata, int):
            raise foreign_metadata_error("FixedBatchSpout", metadata)
        return metadata


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number} {noun}{'' if number == 1 else plural}"
