"""Where a best-effort branch begins: a source that nobody opens, because batches are handed to it."""

from dataclasses import dataclass
from typing import NoReturn

from pyspark.sql.types import StructType

from trident_spouts.executor import SpoutKind


@dataclass(frozen=True)
class BranchSpout:
    """The tuples that enter a branch, as its plan sees them."""

    schema: StructType

    @property
    def kind(self) -> SpoutKind:
        """What enters is frozen."""
        return SpoutKind.TRANSACTIONAL

    def open(self) -> NoReturn:
        """Never called: the runtime hands the batches over."""
        raise AssertionError("a branch is given its batches, and opens no spout")
