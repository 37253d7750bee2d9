"""The session, the server, the folder and the scale that every family of rows gets."""

import itertools
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.server import RedisServer


@dataclass(frozen=True)
class Scale:
    """The scale of a measurement; `QUICK` only shows that everything runs."""

    files: int
    lines: int
    rounds: int
    small_batches: int
    queries: int
    tiny_batches: int
    tiny_batches_on_spark: int
    warm: bool = True

    @property
    def turns(self) -> range:
        """Return the rounds' numbers; 0 warms everything up and is not counted."""
        return range(0 if self.warm else 1, self.rounds + 1)


FULL = Scale(20, 100_000, 5, 200, 2_000, 10_000, 500)
QUICK = Scale(3, 2_000, 1, 10, 50, 200, 20, warm=False)


@dataclass(frozen=True)
class Bench:
    spark: SparkSession
    server: RedisServer
    folder: Path
    scale: Scale
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def fresh(self) -> Path:
        """Return a new folder for a checkpoint, and empty the server."""
        self.server.client.flushall()
        path = self.folder / f"run-{next(self._numbers)}"
        path.mkdir()
        return path

    def drop(self, path: Path) -> None:
        shutil.rmtree(path)
