"""Spark's workers as a test wants them: tasks that put and look run in this process."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from trident.compiler.spark.executor_reach import ReachedStores
from trident.compiler.spark.state_puts import REPORT, SparkPuts
from trident.files.disk import DiskFiles
from trident.frozen.files import write_frozen
from trident.frozen.results import FrozenFiles


class InlinePuts(SparkPuts):
    """`SparkPuts` without Spark. With `doubled`, every task reports twice."""

    def __init__(self, checkpoint: Path, doubled: bool = False) -> None:
        unused: Any = None
        super().__init__(unused, DiskFiles(checkpoint), ReachedStores())
        self._doubled = doubled

    def sees_files(self, needed: bool = False) -> bool:
        return True

    def _over_numbers(self, tasks: int, function: Any) -> pa.Table:
        numbers = [pa.RecordBatch.from_pydict({"id": [number]}) for number in range(tasks)]
        reports = [
            batch for number in numbers for _ in range(1 + self._doubled) for batch in function._run(iter([number]))
        ]
        return pa.Table.from_batches(reports, REPORT)


def frozen_files(checkpoint: Path, tables: list[pa.Table], folder: str = "frozen/g/1-1-0-1") -> FrozenFiles:
    """Return a large result of these files, written below a checkpoint."""
    place = DiskFiles(checkpoint)
    files = [write_frozen(iter(t.to_batches()), place, folder, str(n), t.schema) for n, t in enumerate(tables)]
    return FrozenFiles(folder, tuple(file for file in files if file is not None), tables[0].schema)
