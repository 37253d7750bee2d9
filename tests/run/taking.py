"""An output that keeps its rows."""

from typing import Any

import pyarrow as pa


class Taking:
    """The output: by batch and word the rows, in their order."""

    def __init__(self) -> None:
        self.rows: dict[Any, list[Any]] = {}

    def __call__(self, table: pa.Table, txid: int, attempt: int) -> None:
        for row in table.to_pylist():
            self.rows.setdefault((txid, row["word"]), []).append(tuple(row.values()))
