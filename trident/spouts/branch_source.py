"""The source of a best-effort branch. No run opens it, because the run itself passes batches to the branch."""

from dataclasses import dataclass
from typing import NoReturn

from pyspark.sql.types import StructType

from trident_spouts.executor import SpoutKind


@dataclass(frozen=True)
class BranchSpout:
    """The spout at which a branch's plan begins. It represents the tuples that enter the branch."""

    schema: StructType

    @property
    def kind(self) -> SpoutKind:
        """Transactional, because the tuples that enter a branch are frozen."""
        return SpoutKind.TRANSACTIONAL

    def open(self) -> NoReturn:
        """Raise an error, because the run itself passes batches to the branch."""
        raise AssertionError("a branch gets its batches from the run and opens no spout")
