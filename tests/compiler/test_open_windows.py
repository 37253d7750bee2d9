"""The index of open windows: the keys of small batches become few tables, in the order in which they came."""

import numpy as np
import pyarrow as pa
import pytest

from trident.compiler.windows.open_windows import OpenWindows

KEYS = pa.schema({"start": pa.timestamp("us"), "word": pa.string()})


def keys(start: int, numbers: range) -> pa.Table:
    starts = pa.array(np.full(len(numbers), start)).cast(KEYS.field("start").type)
    return pa.table([starts, pa.array(map(str, numbers), pa.string())], schema=KEYS)


@pytest.mark.parametrize(("rows", "batches"), [(1, 1000), (3, 2000), (5000, 4)])
def test_the_keys_of_many_batches_are_few_tables_in_their_order(rows: int, batches: int) -> None:
    held = OpenWindows(KEYS)
    for batch in range(batches):
        for start in (0, 60):
            held.add(keys(start, range(batch * rows, (batch + 1) * rows)))
    assert held.whole([60, 0]).equals(
        pa.concat_tables([keys(start, range(rows * batches)) for start in (60, 0)]).combine_chunks()
    )
    assert all(len(tables) <= 16 for tables in held._keys.values())
