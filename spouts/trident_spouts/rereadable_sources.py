"""Spouts whose source can be read again, from its beginning up to a position of the stream.

A new state with ``backfill=True`` processes the source's tuples up to the stream's position, and then those of the
stream.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pyspark.sql.types import StructType

from trident.base.errors import DataLossError
from trident_spouts.executor import Metadata, SparkOnlySpout, Spout, SpoutExecutor, SpoutKind

End = Callable[[], Metadata]
"""A function that returns the position at which a second reading ends. A later call may return a later position."""


@runtime_checkable
class RereadableSpout(Protocol):
    """A spout whose positions identify the rows of its source before them."""

    def why_not_again(self) -> str | None:
        """Return why this spout cannot be read again, for an error message; None if it can be."""
        ...

    def open_again(self, end: End) -> SpoutExecutor:
        """Return an executor that begins like a new stream, and plans no row beyond the position `end()`.

        Before the first batch the position is None, and nothing is read. The executor raises DataLossError if the
        source no longer has all rows up to the position, or if the position records that the stream skipped rows.
        Otherwise it works like that of `open`.
        """
        ...

    def amount_before(self, end: Metadata) -> str | None:
        """Return the amount before a position, in words ("5,000 offsets"); None if it is not known."""
        ...


@dataclass(frozen=True, eq=False)
class RereadSpout:
    """A spout that reads the source of `spout` again, up to the position that `end` returns."""

    spout: Spout
    end: End

    @property
    def kind(self) -> SpoutKind:
        """The promise of the spout for a replay."""
        return self.spout.kind

    @property
    def schema(self) -> StructType:
        """The fields of the tuples."""
        return self.spout.schema

    @property
    def needs_spark(self) -> bool:
        """True if only Spark can read the tuples."""
        return isinstance(self.spout, SparkOnlySpout) and self.spout.needs_spark

    @property
    def rows_digest(self) -> str:
        """The digest of the spout's rows, if the program contains them and positions do not identify them."""
        return str(getattr(self.spout, "rows_digest", ""))

    def open(self) -> SpoutExecutor:
        """Return the executor of one run."""
        assert isinstance(self.spout, RereadableSpout), "the verb has already checked it"
        return self.spout.open_again(self.end)

    def __repr__(self) -> str:
        return f"RereadSpout({self.spout!r})"  # equal in each process, unlike the address of the function `end`


def why_not_again(spout: Spout) -> str | None:
    """Return why a source cannot be read again from its beginning, for an error message; None if it can be."""
    if isinstance(spout, RereadableSpout):
        return spout.why_not_again()
    return "its positions do not identify the rows before them, or its source does not keep rows that were read"


def beginning_lost(spout: str, what: str) -> DataLossError:
    """Return the error for a source that no longer has rows that the stream has read."""
    return DataLossError(
        f"{spout}: {what}, so a state with backfill=True would lack these rows. Restore them; or {_WITHOUT}"
    )


def left_out(spout: str, what: str) -> DataLossError:
    """Return the error for a source from which the stream has skipped rows, or may have."""
    return DataLossError(
        f"{spout}: {what}, so it is not known which rows the stream has read, and a state with backfill=True could "
        f"count rows that the existing states did not. To continue, {_WITHOUT}"
    )


_WITHOUT = "remove backfill=True, so that the state begins with the next batch; or pass the older rows as initialState="
