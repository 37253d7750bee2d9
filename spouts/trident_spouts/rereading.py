"""Spouts whose source can be read again from its beginning, up to a position that the stream has reached.

A new state with ``backfill=True`` gets the tuples of such a source up to its stream's position, and from then on those
of the stream.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pyspark.sql.types import StructType

from trident.base.errors import DataLossError
from trident_spouts.executor import Metadata, SparkOnlySpout, Spout, SpoutExecutor, SpoutKind

End = Callable[[], Metadata]
"""Returns the position up to which a source is read again. A later call may return a later position."""


@runtime_checkable
class RereadableSpout(Protocol):
    """A spout whose positions say which rows of its source were read before them."""

    def why_not_again(self) -> str | None:
        """Return why this spout cannot be read again, as a part of a message; None if it can."""
        ...

    def open_again(self, end: End) -> SpoutExecutor:
        """Return an executor that begins where a new stream would, and plans no row beyond the position `end()`.

        Before the first batch the position is None, and nothing is read. The executor raises DataLossError if the
        source no longer has all rows up to the position, or if the stream has left out rows that may be there: a
        position says so. Its other promises are those of `open`.
        """
        ...

    def amount_before(self, end: Metadata) -> str | None:
        """Return how much lies before a position, in words ("5,000 offsets"); None if that is not known."""
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
        """The digest of the spout's rows, if the program has them and positions do not say which ones were read."""
        return str(getattr(self.spout, "rows_digest", ""))

    def open(self) -> SpoutExecutor:
        """Return the executor of one run."""
        assert isinstance(self.spout, RereadableSpout), "the verb has checked it"
        return self.spout.open_again(self.end)

    def __repr__(self) -> str:
        return f"RereadSpout({self.spout!r})"  # the same in each process: the function `end` has an address


def why_not_again(spout: Spout) -> str | None:
    """Return why a source cannot be read again from its beginning, as a part of a message; None if it can."""
    if isinstance(spout, RereadableSpout):
        return spout.why_not_again()
    return "its positions do not say which rows came before them, or its source keeps no rows that were read"


def beginning_lost(spout: str, what: str) -> DataLossError:
    """Return the error for a source that no longer has rows that the stream has read."""
    return DataLossError(
        f"{spout}: {what}, so a state with backfill=True would lack these rows. Restore them; or {_WITHOUT}"
    )


def left_out(spout: str, what: str) -> DataLossError:
    """Return the error for a source with rows that the stream has left out, or may have left out."""
    return DataLossError(
        f"{spout}: {what}, so it is not known which rows the stream has read, and a state with backfill=True might "
        f"count others than the states beside it. To continue, {_WITHOUT}"
    )


_WITHOUT = "remove backfill=True, and the state begins with the next batch; or give it the older rows by initialState="
